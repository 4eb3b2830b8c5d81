package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// TestReopened takes blocks with final verdicts off the chain: the next run of the cron
// finds out which, whatever their depth, and asks about no others.
func TestReopened(t *testing.T) {
	for _, c := range []struct {
		name    string
		refill  int // blocks that are mined in place of those that left
		marked  bool
		deep    bool // the older of two payments leaves too
		settled int  // how many of the two stay confirmed
	}{
		{"the newest, and the chain is shorter", 0, true, false, 1},
		{"the newest, replaced by more blocks", 6, true, false, 1},
		{"both", 9, true, true, 0},
		{"both, and the node had no mark", 9, false, true, 0},
		{"none", -1, true, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			a := newAuthor(t, "main")
			payee := common.Address{0xad}
			pay := func(wei int64) flight.Hash {
				sent := r.transact(a, payee, big.NewInt(wei), nil)
				return r.opened(a, &flight.Claim{Kind: flight.ClaimNative, To: flight.Address(payee), Amount: big.NewInt(wei)}, &sent)
			}
			run := func(want string) {
				t.Helper()
				if note, err := r.app.recheckDue(t.Context()); err != nil || note != want {
					t.Fatalf("run: %q, %v; want %q", note, err, want)
				}
			}
			r.transact(a, payee, big.NewInt(1), nil) // funds the author
			deep := r.rpc("evm_snapshot")
			steps := []flight.Hash{pay(2)}
			shallow := r.rpc("evm_snapshot")
			steps = append(steps, pay(3))
			if c.marked {
				run("")
			}
			switch {
			case c.deep:
				r.rpc("evm_revert", deep)
			case c.refill >= 0:
				r.rpc("evm_revert", shallow)
			}
			other := newAuthor(t, "other")
			for range c.refill {
				r.transact(other, payee, big.NewInt(1), nil)
			}
			if gone := len(steps) - c.settled; gone > 0 {
				run(fmt.Sprintf("%d of %d open transactions asked for, %d of them for their block left the chain", gone, gone, gone))
			}
			run("")
			settled := 0
			for _, s := range steps {
				v, err := r.app.Step(t.Context(), s)
				if err != nil || v.Verdict.Final != (v.Verdict.State == flight.Confirmed) {
					t.Fatalf("verdict = %+v, %v", v.Verdict, err)
				}
				if v.Verdict.Final {
					settled++
				}
			}
			if settled != c.settled {
				t.Errorf("%d verdicts stay final, want %d", settled, c.settled)
			}
		})
	}
}

// A lagging chain is a node that has not yet seen the newest blocks.
type laggingChain struct {
	Chain
	head uint64
}

func (l laggingChain) BlockNumber(context.Context) (uint64, error) { return l.head, nil }

func (l laggingChain) HeaderByNumber(ctx context.Context, n uint64) (chain.Header, error) {
	if n > l.head {
		return chain.Header{}, chain.ErrNotFound
	}
	return l.Chain.HeaderByNumber(ctx, n)
}

// TestLaggingNodeReopensNothing asks a node that is behind the one that judged.
func TestLaggingNodeReopensNothing(t *testing.T) {
	r := newRig(t, func(c *Config, _ *Deps) { c.RPCURL = []string{"http://127.0.0.1:1"} }) // the chain counts as another's
	a := newAuthor(t, "main")
	sent := r.transact(a, common.Address{0xae}, big.NewInt(4), nil)
	step := r.opened(a, &flight.Claim{Kind: flight.ClaimNative, To: flight.Address{0xae}, Amount: big.NewInt(4)}, &sent)
	head, err := r.client.BlockNumber(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, marked := range []bool{false, true} {
		r.app.chains[31337] = laggingChain{r.client, head - 1}
		if note, err := r.app.recheckDue(t.Context()); note != "" || err != nil {
			t.Errorf("marked %v: %q, %v", marked, note, err)
		}
		r.app.chains[31337] = r.client
		if note, err := r.app.recheckDue(t.Context()); note != "" || err != nil {
			t.Errorf("marked %v, once it has caught up: %q, %v", marked, note, err)
		}
	}
	if v, err := r.app.Step(t.Context(), step); err != nil || !v.Verdict.Final {
		t.Errorf("verdict = %+v, %v; want final", v.Verdict, err)
	}
}
