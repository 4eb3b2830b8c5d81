package soak

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"karatum/app/load"
	"karatum/chain/eas"
	"karatum/flight"
)

// TestKilledWhileAnchoring kills the node after each durable step of anchoring and
// starts it again. However often and wherever it dies, exactly one attestation of
// the epoch may exist.
func TestKilledWhileAnchoring(t *testing.T) {
	for _, step := range []string{"epoch row written", "transaction stored", "transaction sent", "receipt seen"} {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			node := start(t, dir, []string{"KARATUM_TEST_KILL=" + step}, unlimited...)
			batch := deliver(t, node)
			// The node dies inside this call, so it cannot answer it.
			if status, _, err := node.Post(t.Context(), "/v1/admin/anchor", []byte("{}"), token(t, dir)); err == nil {
				t.Fatalf("the node answered %d; it should have died after %q", status, step)
			}
			<-node.Exited()
			node = start(t, dir, nil, unlimited...)
			root := anchored(t, node, dir, batch)
			if n := attestations(t, node, root); n != 1 {
				t.Errorf("%d attestations of the epoch, want exactly 1", n)
			}
			audit(t, dir)
			stop(t, node)
		})
	}
}

// deliver has the node take in one batch.
func deliver(t *testing.T, node *load.Child) flight.Batch {
	t.Helper()
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	b := load.NewStream(key, "soak", uint64(time.Now().Unix())).Sign()
	body, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer, err := node.Post(t.Context(), "/v1/flight/batches", body, ""); err != nil || status != http.StatusCreated {
		t.Fatalf("post: %d %s %v", status, answer, err)
	}
	return b
}

// anchored runs anchoring until the batch has its proof, twice more than needed,
// and returns the epoch's root.
func anchored(t *testing.T, node *load.Child, dir string, b flight.Batch) flight.Hash {
	t.Helper()
	for range 3 {
		if status, body, err := node.Post(t.Context(), "/v1/admin/anchor", []byte("{}"), token(t, dir)); err != nil || status != http.StatusOK {
			t.Fatalf("anchor: %d %s %v", status, body, err)
		}
	}
	var v struct {
		Epoch struct {
			Root       flight.Hash
			BatchCount uint64
		}
		Proof flight.Proof
	}
	status, err := node.Get(t.Context(), fmt.Sprintf("/v1/flight/batches/%s/proof", b.ID()), &v)
	if err != nil || status != http.StatusOK {
		t.Fatalf("proof: %d %v", status, err)
	}
	if err := flight.VerifyEpoch(v.Epoch.Root, v.Epoch.BatchCount, b.ID(), v.Proof); err != nil {
		t.Error(err)
	}
	return v.Epoch.Root
}

// attestations counts the transactions on the whole dev chain that attest the
// root, by walking all of its blocks.
func attestations(t *testing.T, node *load.Child, root flight.Hash) int {
	t.Helper()
	want := eas.Epoch{Root: root, Count: 1, Spec: eas.SpecV1}.Calldata()
	found := 0
	for _, input := range inputs(t, node.ChainURL) {
		if input == hex.EncodeToString(want) {
			found++
		}
	}
	return found
}
