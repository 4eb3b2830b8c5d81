package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/anchor"
	"karatum/flight"
	"karatum/store"
)

func TestAnchor(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	var ids []flight.Hash
	for range 3 {
		a.fill(t, 2)
		ids = append(ids, r.mustIngest(a.batch(t, flight.EIP712)).BatchID)
	}
	_, err := r.app.BatchProof(t.Context(), ids[0])
	wantCode(t, err, "NOT_ANCHORED")
	run, err := r.app.AnchorNow(t.Context())
	if err != nil || run != (AnchorRun{Epochs: 1, Batches: 3}) {
		t.Fatalf("run = %+v, %v; want one epoch of 3", run, err)
	}
	for _, id := range ids {
		p, err := r.app.BatchProof(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := flight.VerifyEpoch(p.Epoch.Root, p.Epoch.BatchCount, id, p.Proof); err != nil {
			t.Errorf("proof of %s: %v", id, err)
		}
		net := r.app.anchor.Network
		found, err := anchor.Find(t.Context(), r.client, net, common.Hash(*p.Anchor.TxHash), p.Epoch.Root, uint32(p.Epoch.BatchCount))
		if err != nil || flight.Hash(found.AttestationUID) != *p.Anchor.AttestationUID || p.Anchor.Attester != r.keys.Anchor.Address() {
			t.Errorf("the chain says %+v, %v; the proof %+v", found, err, p.Anchor)
		}
		if p.Anchor.State != string(store.EpochFinal) {
			t.Errorf("state = %s, want final on the dev chain", p.Anchor.State)
		}
	}
	if run, err := r.app.AnchorNow(t.Context()); err != nil || run != (AnchorRun{}) {
		t.Errorf("an idle run did %+v, %v", run, err)
	}
	if n := r.attestations(t.Context()); n != 1 {
		t.Errorf("%d attestations, want 1", n)
	}
}

// The operator who asks for anchoring while the chain is away is told so; what waits is
// anchored once it is back.
func TestAnchorForOperator(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	c, err := chain.DialAll(t.Context(), []string{away.URL}, chain.Options{MayBeAway: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := newRig(t, nil)
	there := r.app.anchor
	r.app.anchor.Client = c
	if run, err := r.app.AnchorForOperator(t.Context()); err != nil || run != (AnchorRun{}) {
		t.Errorf("of nothing: %+v, %v", run, err)
	}
	a := newAuthor(t, "main")
	a.fill(t, 1)
	r.mustIngest(a.batch(t, flight.EIP712))
	_, err = r.app.AnchorForOperator(t.Context())
	wantCode(t, err, "NOT_READY")
	if !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "://") {
		t.Errorf("the operator is told %v; want why, without the address", err)
	}
	r.app.anchor = there
	if run, err := r.app.AnchorForOperator(t.Context()); err != nil || run.Epochs != 1 {
		t.Errorf("with the chain back: %+v, %v", run, err)
	}
}

func TestAnchorManyEpochs(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	var lines [][]byte
	for range flight.MaxEpoch + 10 {
		a.fill(t, 1)
		lines = append(lines, encode(t, a.batch(t, flight.EIP712)))
	}
	for _, o := range r.app.IngestBulk(t.Context(), lines) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	run, err := r.app.AnchorNow(t.Context())
	if err != nil || run != (AnchorRun{Epochs: 2, Batches: flight.MaxEpoch + 10}) {
		t.Fatalf("run = %+v, %v; want two epochs", run, err)
	}
	l, err := r.app.Epochs(t.Context(), Page{Limit: 10})
	if err != nil || len(l.Items) != 2 || l.Items[0].BatchCount != 10 || l.Items[1].BatchCount != flight.MaxEpoch {
		t.Errorf("epochs = %+v, %v", l, err)
	}
}

func TestAnchorGasOfTheDay(t *testing.T) {
	r := newRig(t, func(c *Config, _ *Deps) { c.AnchorGasPerDay = 400_000 })
	a := newAuthor(t, "main")
	for i := range 2 {
		a.fill(t, 1)
		r.mustIngest(a.batch(t, flight.EIP712))
		_, err := r.app.AnchorNow(t.Context())
		if got := errors.Is(err, errGasSpent); got != (i == 1) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	r.shift.Add(int64(25 * time.Hour))
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Errorf("a day later: %v", err)
	}
	if n := r.attestations(t.Context()); n != 2 {
		t.Errorf("%d attestations, want 2", n)
	}
}

// TestAnchorInterrupted ends runs at each durable step: the next one goes on
// where it stood.
func TestAnchorInterrupted(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 1)
	r.mustIngest(a.batch(t, flight.EIP712))
	stop := errors.New("stopped")
	for _, step := range []string{"epoch row written", "transaction stored", "transaction sent", "receipt seen"} {
		r.app.onStep = func(s string) {
			if s == step {
				panic(stop)
			}
		}
		func() {
			defer func() {
				if p := recover(); p != nil && p != stop {
					panic(p)
				}
			}()
			_, err := r.app.AnchorNow(t.Context())
			if err != nil {
				t.Fatalf("stopping at %q: %v", step, err)
			}
		}()
		r.app.onStep = nil
	}
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := r.attestations(t.Context()); n != 1 {
		t.Errorf("%d attestations, want 1", n)
	}
	l, err := r.app.Epochs(t.Context(), Page{Limit: 10})
	if err != nil || len(l.Items) != 1 || l.Items[0].Anchor.State != string(store.EpochFinal) {
		t.Errorf("epochs = %+v, %v; want one, final", l, err)
	}
}

// TestAnchorCrash kills a process at each durable step of anchoring and starts
// another on its directory: one attestation exists.
func TestAnchorCrash(t *testing.T) {
	if at := os.Getenv("KARATUM_TEST_CRASH_AT"); at != "" {
		crashAt(t, at, os.Getenv("KARATUM_TEST_CRASH_DIR"))
		return
	}
	for _, at := range []string{"epoch row written", "transaction stored", "transaction sent", "receipt seen"} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestAnchorCrash$")
			cmd.Env = append(os.Environ(), "KARATUM_TEST_CRASH_AT="+at, "KARATUM_TEST_CRASH_DIR="+dir)
			out, err := cmd.CombinedOutput()
			var ee *exec.ExitError
			if !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the child ended with %v, want a kill:\n%s", err, out)
			}
			r := rigIn(t, dir, nil)
			if _, err := r.app.AnchorNow(t.Context()); err != nil {
				t.Fatal(err)
			}
			l, err := r.app.Epochs(t.Context(), Page{Limit: 10})
			if err != nil || len(l.Items) != 1 || l.Items[0].Anchor.State != string(store.EpochFinal) {
				t.Errorf("epochs = %+v, %v; want one, final", l, err)
			}
			if n := r.attestations(t.Context()); n != 1 {
				t.Errorf("%d attestations, want exactly 1", n)
			}
		})
	}
}

func crashAt(t *testing.T, at, dir string) {
	r := rigIn(t, dir, nil)
	a := newAuthor(t, "main")
	a.fill(t, 3)
	r.mustIngest(a.batch(t, flight.EIP712))
	r.app.onStep = KillPoint(func(string) string { return at })
	_, err := r.app.AnchorNow(t.Context())
	t.Fatalf("the run ended with %v and was not killed at %q", err, at)
}

func TestAnchorSaysWhyItCannotPay(t *testing.T) {
	r := newRig(t, nil)
	poor := newAuthor(t, "x").key
	r.app.keys = &Keys{Anchor: poor, Receipt: r.keys.Receipt}
	a := newAuthor(t, "main")
	a.fill(t, 1)
	r.mustIngest(a.batch(t, flight.EIP712))
	_, err := r.app.AnchorNow(t.Context())
	if err == nil || !strings.Contains(err.Error(), "cannot pay") || !strings.Contains(err.Error(), poor.Address().String()) {
		t.Errorf("error = %v; want one that names the key to fund", err)
	}
}
