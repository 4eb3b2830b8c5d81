package app

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rpc"

	"karatum/chain"
	"karatum/flight"
	"karatum/store"
)

// untagged serves the rig's dev chain as a node does that knows no safe and no
// finalized block: on the dev chain itself every block is final at once.
func (r *rig) untagged() *chain.Client {
	r.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
			Params []any
		}
		if err := json.NewDecoder(req.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
		var result json.RawMessage
		err := r.dev.Client().CallContext(req.Context(), &result, call.Method, call.Params...)
		if len(call.Params) > 0 && (call.Params[0] == "safe" || call.Params[0] == "finalized") {
			err = errors.New("unknown block tag")
		}
		if answer["result"] = result; err != nil {
			delete(answer, "result")
			code := -32000
			var coded rpc.Error
			if errors.As(err, &coded) {
				code = coded.ErrorCode()
			}
			answer["error"] = map[string]any{"code": code, "message": err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer) // a broken connection is the client's to see
	}))
	r.t.Cleanup(srv.Close)
	c, err := chain.Dial(r.t.Context(), srv.URL, chain.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) rpc(method string, args ...any) string {
	r.t.Helper()
	var out json.RawMessage
	if err := r.dev.Client().CallContext(r.t.Context(), &out, method, args...); err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
	return strings.Trim(string(out), `"`)
}

// TestOrphanedAnchor takes the block of an anchor off the chain: the epoch is sent
// again, as the same bytes, and exactly one attestation exists.
func TestOrphanedAnchor(t *testing.T) {
	r := newRig(t, nil)
	r.app.anchor.Client = r.untagged()
	a := newAuthor(t, "main")
	a.fill(t, 1)
	r.mustIngest(a.batch(t, flight.EIP712))
	if _, err := r.app.AnchorNow(t.Context()); err != nil { // also registers the schema
		t.Fatal(err)
	}
	before := r.rpc("evm_snapshot")
	a.fill(t, 1)
	id := r.mustIngest(a.batch(t, flight.EIP712)).BatchID
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := r.app.BatchProof(t.Context(), id)
	if err != nil || first.Anchor.State != string(store.EpochIncluded) {
		t.Fatalf("anchor = %+v, %v; want included", first.Anchor, err)
	}
	r.rpc("evm_revert", before)
	r.rpc("evm_increaseTime", 60) // so that the new block is another one
	if n := r.attestations(t.Context()); n != 1 {
		t.Fatalf("%d attestations after the reorganisation, want that of the first epoch", n)
	}
	for range 3 { // settling again changes nothing
		if _, err := r.app.settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	again, err := r.app.BatchProof(t.Context(), id)
	if err != nil || again.Anchor.State != string(store.EpochIncluded) || *again.Anchor.BlockHash == *first.Anchor.BlockHash ||
		*again.Anchor.TxHash != *first.Anchor.TxHash {
		t.Errorf("anchor = %+v, %v; want the same transaction in another block than %s", again.Anchor, err, first.Anchor.BlockHash)
	}
	if n := r.attestations(t.Context()); n != 2 {
		t.Errorf("%d attestations, want one an epoch", n)
	}
	e, err := r.app.Epoch(t.Context(), again.Epoch.Root.String())
	if err != nil || e.Times[string(store.EpochOrphaned)] == 0 {
		t.Errorf("epoch = %+v, %v; want its orphaned time kept", e, err)
	}
}

// TestVanishedTransaction takes a transaction off the chain before its verdict was
// final: the verdict re-opens.
func TestVanishedTransaction(t *testing.T) {
	r := newRig(t, func(c *Config, _ *Deps) { c.Confirmations = 5 })
	a := newAuthor(t, "main")
	payee := flight.Address{0xab}
	r.transact(a, common.Address(payee), big.NewInt(1), nil) // funds the author
	before := r.rpc("evm_snapshot")
	sent := r.transact(a, common.Address(payee), big.NewInt(7), nil)
	step := r.opened(a, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(7)}, &sent)
	verdict := func() VerdictView {
		t.Helper()
		v, err := r.app.Step(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		return v.Verdict
	}
	if v := verdict(); v.State != flight.Confirmed || v.Final {
		t.Fatalf("verdict = %+v; want confirmed, not final", v)
	}
	r.rpc("evm_revert", before)
	r.shift.Add(int64(8 * time.Hour))
	if _, err := r.app.recheckDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := verdict(); v.State != flight.Unverifiable || v.Reason != flight.TxNotFound {
		t.Errorf("verdict = %+v; want unverifiable again", v)
	}
	ag, err := r.app.Agent(t.Context(), a.key.Address())
	if err != nil || ag.DevField.Confirmed != 0 || ag.DevField.Unverifiable != 1 {
		t.Errorf("tally = %+v, %v; want nothing confirmed", ag.DevField, err)
	}
}

// TestRecheckByOperator takes a transaction off the chain after its verdict was final, which the
// dev chain's is at once: when the operator asks, the verdict re-opens.
func TestRecheckByOperator(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	payee := flight.Address{0xac}
	r.transact(a, common.Address(payee), big.NewInt(1), nil) // funds the author
	before := r.rpc("evm_snapshot")
	sent := r.transact(a, common.Address(payee), big.NewInt(7), nil)
	claim := &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(7)}
	step, none := r.opened(a, claim, &sent), r.opened(a, claim, nil)
	want := func(state flight.State, final bool) {
		t.Helper()
		v, err := r.app.Step(t.Context(), step)
		if err != nil || v.Verdict.State != state || v.Verdict.Final != final {
			t.Fatalf("verdict = %+v, %v; want %s, final %v", v.Verdict, err, state, final)
		}
	}
	want(flight.Confirmed, true)
	_, err := r.app.Recheck(t.Context(), flight.Hash{1})
	wantCode(t, err, "UNKNOWN_STEP")
	_, err = r.app.Recheck(t.Context(), none)
	wantCode(t, err, "NO_TX")
	r.rpc("evm_revert", before)
	for range 2 { // asking twice is asking once
		if v, err := r.app.Recheck(t.Context(), step); err != nil || v.TxHash != sent || v.DueAt > r.app.nowMs() {
			t.Fatalf("recheck: %+v, %v", v, err)
		}
	}
	if _, err := r.app.recheckDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(flight.Unverifiable, false)
}
