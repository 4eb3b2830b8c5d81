package app

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/devchain"
	"karatum/chain/replay"
	"karatum/flight"
	"karatum/store"
)

func TestReplay(t *testing.T) {
	r := newRig(t, func(_ *Config, d *Deps) {
		var err error
		if d.Replayer, err = replay.New(replay.Options{CacheDir: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		d.Clients = map[uint64]*chain.Client{devchain.ChainID: d.Anchor.Client}
	})
	a := newAuthor(t, "main")
	payee := flight.Address{0xdd}
	r.token(a, "faucet", common.Address(a.key.Address()), big.NewInt(9_000_000))
	paid := r.token(a, "transfer", common.Address(payee), big.NewInt(4_000_000))
	foreign := newAuthor(t, "main")
	others := r.transact(foreign, common.Address(payee), big.NewInt(1), nil)

	honest := r.opened(a, usdc(payee, 4_000_000), &paid)
	lie := r.opened(a, usdc(payee, 5_000_000), &paid)
	theirs := r.opened(a, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(1)}, &others)
	none := r.opened(a, usdc(payee, 1), nil)

	_, err := r.app.QueueReplay(t.Context(), theirs, "")
	wantCode(t, err, "FOREIGN_TX")
	_, err = r.app.QueueReplay(t.Context(), none, "")
	wantCode(t, err, "NO_TX")
	_, err = r.app.QueueReplay(t.Context(), honest, "some")
	wantCode(t, err, "BAD_REQUEST")
	_, err = r.app.ReplayOf(t.Context(), honest)
	wantCode(t, err, "UNKNOWN_REPLAY")
	for _, prefix := range []string{"full", "none"} {
		v, err := r.app.QueueReplay(t.Context(), honest, prefix)
		if err != nil || v.State != string(store.ReplayQueued) {
			t.Fatalf("queue: %+v, %v", v, err)
		}
	}
	for range 2 {
		if again, err := r.app.nextReplay(t.Context()); !again || err != nil {
			t.Fatalf("run: %v, %v", again, err)
		}
	}
	if again, err := r.app.nextReplay(t.Context()); again || err != nil {
		t.Errorf("an empty queue: %v, %v", again, err)
	}
	v, err := r.app.Step(t.Context(), honest)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		State  string
		Result struct {
			Reproduced bool
			Verdict    flight.Verdict
			State      string
		}
	}
	if err := json.Unmarshal(v.Replay, &got); err != nil {
		t.Fatal(err)
	}
	if got.State != "done" || !got.Result.Reproduced || got.Result.Verdict.State != flight.Confirmed || got.Result.State == "as told by RPC" {
		t.Errorf("replay = %s; want done, reproduced, confirmed, proved", v.Replay)
	}
	// The same transaction is replayed once, whichever step asks.
	again, err := r.app.QueueReplay(t.Context(), lie, "full")
	if err != nil || again.State != string(store.ReplayDone) || !strings.Contains(string(again.Result), `"state":"contradicted"`) {
		t.Errorf("asked by another step: %+v, %s, %v; want the one that is done, judged on that step's claim", again, again.Result, err)
	}
}

// A full queue takes no more, but a replay that is in it or was done is still found.
func TestFullReplayQueue(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	sent := r.transact(a, common.Address{1}, big.NewInt(1), nil)
	step := r.opened(a, &flight.Claim{Kind: flight.ClaimTxSuccess}, &sent)
	if v, err := r.app.QueueReplay(t.Context(), step, "full"); err != nil || v.State != string(store.ReplayQueued) {
		t.Fatalf("the first: %+v, %v", v, err)
	}
	err := r.store.Update(t.Context(), func(tx *store.Tx) error {
		for i := range maxReplays - 1 {
			if _, err := tx.PutReplay(t.Context(), 1, flight.Hash{byte(i), 1}, "full", step); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := r.app.QueueReplay(t.Context(), step, "full"); err != nil || v.State != string(store.ReplayQueued) {
		t.Errorf("one that waits already: %+v, %v", v, err)
	}
	_, err = r.app.QueueReplay(t.Context(), step, "none")
	if e := wantCode(t, err, "REPLAY_QUEUE"); e.RetryAfter == 0 {
		t.Error("no Retry-After")
	}
}

func TestReplayWithoutItsChain(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	payee := flight.Address{0xde}
	sent := r.transact(a, common.Address(payee), big.NewInt(2), nil)
	step := r.opened(a, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(2)}, &sent)
	if _, err := r.app.QueueReplay(t.Context(), step, ""); err != nil {
		t.Fatal(err)
	}
	if again, err := r.app.nextReplay(t.Context()); !again || err != nil {
		t.Fatalf("run: %v, %v", again, err)
	}
	v, err := r.app.ReplayOf(t.Context(), step)
	if err != nil || v.State != string(store.ReplayFailed) || v.Failure.Code != flight.ChainUnsupported || v.Failure.Hint == "" {
		t.Errorf("replay = %+v, %v; want failed with what to configure", v, err)
	}
	if v, err = r.app.QueueReplay(t.Context(), step, ""); err != nil || v.State != string(store.ReplayQueued) {
		t.Errorf("asked again: %+v, %v; want queued", v, err)
	}
}

// opened records, delivers and opens one claim and returns the step's hash.
func (r *rig) opened(a *author, c *flight.Claim, tx *flight.Hash) flight.Hash {
	r.t.Helper()
	a.step(r.t, c, devchain.ChainID, tx)
	b := a.batch(r.t, flight.EIP712)
	r.mustIngest(b)
	v, err := r.app.Disclose(r.t.Context(), a.disclose(r.t, b, b.Header.ToSeq, "claim"), false)
	if err != nil {
		r.t.Fatal(err)
	}
	return v.StepHash
}
