package app

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rpc"

	"karatum/chain"
	"karatum/chain/devchain"
	"karatum/chain/replay"
	"karatum/flight"
	"karatum/store"
)

// replaying adds what serves replays of the dev chain.
func replaying(t *testing.T) func(*Config, *Deps) {
	return func(_ *Config, d *Deps) {
		var err error
		if d.Replayer, err = replay.New(replay.Options{CacheDir: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		d.Clients = map[uint64]*chain.Client{devchain.ChainID: d.Anchor.Client}
	}
}

// payment has a new author pay and open a true claim about it.
func (r *rig) payment() (step flight.Hash, a *author) {
	r.t.Helper()
	a = newAuthor(r.t, "main")
	payee := flight.Address{0xdd}
	r.token(a, "faucet", common.Address(a.key.Address()), big.NewInt(9_000_000))
	paid := r.token(a, "transfer", common.Address(payee), big.NewInt(4_000_000))
	return r.opened(a, usdc(payee, 4_000_000), &paid), a
}

func (r *rig) queue(step flight.Hash) ReplayView {
	r.t.Helper()
	v, err := r.app.QueueReplay(r.t.Context(), step, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) runReplay() {
	r.t.Helper()
	if again, err := r.app.nextReplay(r.t.Context()); !again || err != nil {
		r.t.Fatalf("run: %v, %v", again, err)
	}
}

func (r *rig) replay(id uint64) ReplayDetail {
	r.t.Helper()
	v, err := r.app.Replay(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func TestReplayDetail(t *testing.T) {
	r := newRig(t, replaying(t))
	step, a := r.payment()
	id := r.queue(step).ID
	waiting := r.replay(id)
	if waiting.State != "queued" || waiting.BlockNumber == nil || waiting.Verdict != nil || waiting.Reproduced != nil || string(waiting.Result) != "null" {
		t.Errorf("queued: %+v", waiting)
	}
	r.runReplay()
	got := r.replay(id)
	if got.State != "done" || got.Attempts != 1 || got.StartedAt < got.At || got.DoneAt < got.StartedAt || got.Agent != a.key.Address() || got.StepHash != step ||
		got.Reproduced == nil || !*got.Reproduced || got.Proof != ReplayProved || got.Verdict == nil || got.Verdict.State != flight.Confirmed ||
		*got.BlockNumber != *waiting.BlockNumber || *got.ForkBlock != *got.BlockNumber-1 || got.Rules == "" || got.Chain.State != flight.Confirmed {
		t.Errorf("done: %+v", got)
	}
	o, p := got.Original, got.Replayed
	if o == nil || p == nil || !o.Success || !p.Success || o.GasUsed == 0 || o.GasUsed != p.GasUsed || len(o.Logs) != 1 || len(p.Logs) != 1 ||
		o.Logs[0].Address != p.Logs[0].Address || len(p.Logs[0].Topics) != 3 || !slices.Equal(o.Logs[0].Topics, p.Logs[0].Topics) || o.Logs[0].Data != p.Logs[0].Data {
		t.Errorf("receipts: %+v, %+v", o, p)
	}
	for state, n := range map[string]int{"": 1, "done": 1, "queued": 0, "cancelled": 0} {
		l, err := r.app.Replays(t.Context(), state, Page{})
		if err != nil || len(l.Items) != n {
			t.Errorf("%q: %d replays, %v; want %d", state, len(l.Items), err, n)
		}
		if n == 1 && (l.Items[0].Verdict == nil || l.Items[0].Verdict.State != flight.Confirmed || l.Items[0].Proof != ReplayProved) {
			t.Errorf("%q: %+v", state, l.Items[0])
		}
	}
	_, err := r.app.Replays(t.Context(), "lost", Page{})
	wantCode(t, err, "BAD_REQUEST")
	_, err = r.app.Replays(t.Context(), "", Page{Cursor: "x"})
	wantCode(t, err, "BAD_REQUEST")
	_, err = r.app.Replay(t.Context(), id+1)
	wantCode(t, err, "UNKNOWN_REPLAY")
}

// A replay knows the block and the contract from the verdict, as far as that goes.
func TestSeenTx(t *testing.T) {
	r := newRig(t, replaying(t))
	step, a := r.payment()
	want := r.replay(r.queue(step).ID)
	seen, err := r.app.seenTx(t.Context(), step)
	if err != nil || seen == nil || seen.BlockNumber != *want.BlockNumber || flight.Hash(seen.BlockHash) != *want.BlockHash ||
		!slices.Equal(seen.Runs, []common.Address{devchain.USDCAddress}) {
		t.Errorf("confirmed: %+v, %v", seen, err)
	}
	paid := r.token(a, "transfer", common.Address{0xdd}, big.NewInt(1))
	if seen, err = r.app.seenTx(t.Context(), r.opened(newAuthor(t, "other"), usdc(flight.Address{0xdd}, 2), &paid)); err != nil || seen == nil || len(seen.Runs) != 0 {
		t.Errorf("contradicted: %+v, %v", seen, err)
	}
	if seen, err = r.app.seenTx(t.Context(), r.opened(newAuthor(t, "lost"), usdc(flight.Address{0xdd}, 2), &flight.Hash{1})); err != nil || seen != nil {
		t.Errorf("not found: %+v, %v", seen, err)
	}
}

// TestReplayThatDiffers changes a kept replay to one that was not reproduced, and
// expects both outcomes side by side, each with its own logs.
func TestReplayThatDiffers(t *testing.T) {
	r := newRig(t, replaying(t))
	step, _ := r.payment()
	id := r.queue(step).ID
	r.runReplay()
	row := r.row(id)
	var doc replayDoc
	if err := json.Unmarshal(row.Result, &doc); err != nil {
		t.Fatal(err)
	}
	doc.Result = json.RawMessage(strings.Replace(string(doc.Result), `"reproduced":true`, `"reproduced":false`, 1))
	doc.Original.Logs = []LogView{}
	outline := strings.Replace(string(row.Summary), `"reproduced":true`, `"reproduced":false`, 1)
	err := r.store.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.RequeueReplay(t.Context(), id); err != nil {
			return err
		}
		if _, err := tx.StartReplay(t.Context()); err != nil {
			return err
		}
		return tx.FinishReplay(t.Context(), id, store.ReplayDone, []byte(outline), encode(t, doc))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.replay(id); *got.Reproduced || len(got.Original.Logs) != 0 || len(got.Replayed.Logs) != 1 {
		t.Errorf("original %+v, replayed %+v", got.Original, got.Replayed)
	}
}

func (r *rig) row(id uint64) (row store.Replay) {
	r.t.Helper()
	err := r.store.View(r.t.Context(), func(tx *store.ReadTx) (err error) { row, err = tx.ReplayByID(r.t.Context(), id); return err })
	if err != nil {
		r.t.Fatal(err)
	}
	return row
}

func TestReplayCancelled(t *testing.T) {
	var atStart func()
	r := newRig(t, func(c *Config, d *Deps) {
		replaying(t)(c, d)
		d.Checkpoint = func(step string) {
			if step == "replay started" && atStart != nil {
				atStart()
			}
		}
	})
	ctx := t.Context()
	step, _ := r.payment()
	_, err := r.app.CancelReplay(ctx, step, "")
	wantCode(t, err, "UNKNOWN_REPLAY")
	_, err = r.app.RerunReplay(ctx, flight.Hash{1}, "")
	wantCode(t, err, "UNKNOWN_STEP")
	_, err = r.app.RerunReplay(ctx, step, "half")
	wantCode(t, err, "BAD_REQUEST")

	id := r.queue(step).ID
	_, err = r.app.RerunReplay(ctx, step, "")
	wantCode(t, err, "REPLAY_STATE")
	if v, err := r.app.CancelReplay(ctx, step, ""); err != nil || v.State != "cancelled" {
		t.Fatalf("cancel what waits: %+v, %v", v, err)
	}
	if again, err := r.app.nextReplay(ctx); again || err != nil {
		t.Errorf("ran what was cancelled: %v, %v", again, err)
	}
	if v := r.queue(step); v.State != "cancelled" {
		t.Errorf("asked for again by anybody: %+v; want cancelled", v)
	}
	_, err = r.app.CancelReplay(ctx, step, "")
	wantCode(t, err, "REPLAY_STATE")

	if v, err := r.app.RerunReplay(ctx, step, ""); err != nil || v.State != "queued" {
		t.Fatalf("run it after all: %+v, %v", v, err)
	}
	atStart = func() {
		if v, err := r.app.CancelReplay(ctx, step, ""); err != nil || v.State != "cancelled" {
			t.Errorf("cancel what runs: %+v, %v", v, err)
		}
	}
	r.runReplay()
	if v := r.replay(id); v.State != "cancelled" || v.Failure != nil || v.DoneAt == 0 {
		t.Errorf("after the run: %+v; want cancelled", v)
	}
	atStart = nil
	for _, name := range []string{"cancelled", "done"} {
		if v, err := r.app.RerunReplay(ctx, step, ""); err != nil || v.State != "queued" || v.ID != id {
			t.Fatalf("run again what is %s: %+v, %v", name, v, err)
		}
		r.runReplay()
		if v := r.replay(id); v.State != "done" {
			t.Errorf("run again after %s: %+v", name, v)
		}
	}
}

// TestReplayStopped stops the node in the middle of a run: the run does not count.
func TestReplayStopped(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	r := newRig(t, func(c *Config, d *Deps) { replaying(t)(c, d); d.Checkpoint = func(string) { stop() } })
	step, _ := r.payment()
	id := r.queue(step).ID
	if again, err := r.app.nextReplay(stopping); again || err != nil {
		t.Fatalf("a stopped run: %v, %v", again, err)
	}
	if v := r.replay(id); v.State != "queued" || v.Attempts != 0 {
		t.Errorf("%+v; want queued", v)
	}
}

// TestReplayKilled leaves a replay running, as a killed node does, and opens the node
// again: it runs again, but not for ever.
func TestReplayKilled(t *testing.T) {
	r := newRig(t, replaying(t))
	step, _ := r.payment()
	id := r.queue(step).ID
	for kill := 1; kill <= maxReplayRuns; kill++ {
		var row store.Replay
		err := r.store.Update(t.Context(), func(tx *store.Tx) (err error) { row, err = tx.StartReplay(t.Context()); return err })
		if err != nil || row.Attempts != kill {
			t.Fatalf("run %d: %+v, %v", kill, row, err)
		}
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
		r.open(replaying(t))
		if v := r.replay(id); v.State != "running" {
			t.Fatalf("killed %d times: %+v", kill, v)
		}
		// What runReplays does first.
		if err := r.store.Update(t.Context(), func(tx *store.Tx) error { return tx.RecoverReplays(t.Context()) }); err != nil {
			t.Fatal(err)
		}
		if v := r.replay(id); v.State != "queued" || v.Attempts != kill {
			t.Fatalf("started after %d kills: %+v; want queued", kill, v)
		}
	}
	r.runReplay()
	if v := r.replay(id); v.State != "failed" || v.Failure.Code != replay.CodeLimit {
		t.Errorf("killed in each of %d runs: %+v; want failed", maxReplayRuns, v)
	}
}

// TestReplaysRunAtStart starts the runner on a queue with a replay that a killed node
// left running, and waits for its end.
func TestReplaysRunAtStart(t *testing.T) {
	over := make(chan struct{}, 1)
	r := newRig(t, func(c *Config, d *Deps) {
		replaying(t)(c, d)
		d.Checkpoint = func(step string) {
			if step == "replay ended" {
				over <- struct{}{}
			}
		}
	})
	step, _ := r.payment()
	id := r.queue(step).ID
	if err := r.store.Update(t.Context(), func(tx *store.Tx) error { _, err := tx.StartReplay(t.Context()); return err }); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.app.runReplays(ctx); close(ended) }()
	<-over
	stop()
	<-ended
	if v := r.replay(id); v.State != "done" || v.Attempts != 2 {
		t.Errorf("%+v; want done by the second run", v)
	}
}

func TestReplayTimeout(t *testing.T) {
	r := newRig(t, func(c *Config, d *Deps) { replaying(t)(c, d); c.ReplayTimeout = time.Nanosecond })
	step, _ := r.payment()
	id := r.queue(step).ID
	r.runReplay()
	v := r.replay(id)
	if v.State != "failed" || v.Failure.Code != replay.CodeLimit || !strings.Contains(v.Failure.Hint, "--replay-timeout") {
		t.Errorf("%+v, %+v; want failed with the setting", v, v.Failure)
	}
	s, err := r.app.Status(t.Context())
	if err != nil || s.Replays.Open != 0 || s.Replays.Running != nil || s.Replays.LastError == nil || s.Replays.LastError.ID != id || s.Replays.LastError.Words == "" {
		t.Errorf("status = %+v, %v", s.Replays, err)
	}
}

// TestReplayStatus looks at the queue while a replay runs.
func TestReplayStatus(t *testing.T) {
	var r *rig
	var got StatusView
	var err error
	r = newRig(t, func(c *Config, d *Deps) {
		replaying(t)(c, d)
		d.Checkpoint = func(step string) {
			if step != "replay started" {
				return
			}
			r.shift.Add(int64(5 * time.Minute))
			got, err = r.app.Status(context.Background())
		}
	})
	step, _ := r.payment()
	id := r.queue(step).ID
	if _, err := r.app.QueueReplay(t.Context(), step, "none"); err != nil {
		t.Fatal(err)
	}
	r.runReplay()
	q := got.Replays
	if err != nil || q.Open != 2 || q.Running == nil || q.Running.ID != id || q.Running.AgeMs < 300_000 || q.Running.StepHash != step || q.LastError != nil {
		t.Errorf("status = %+v, %v", q, err)
	}
	if !slices.ContainsFunc(got.Problems, func(p string) bool { return strings.Contains(p, "replay has been running") }) {
		t.Errorf("problems = %q", got.Problems)
	}
}

// TestReplayPruned reads from a node without history, and expects the block that it
// needs and what to configure.
func TestReplayPruned(t *testing.T) {
	r := newRig(t, replaying(t))
	step, _ := r.payment()
	id := r.queue(step).ID
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.forward(w, req, "missing trie node") }))
	t.Cleanup(srv.Close)
	c, err := chain.Dial(t.Context(), srv.URL, chain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.app.clients[devchain.ChainID] = c
	r.runReplay()
	v := r.replay(id)
	if v.State != "failed" || v.Failure.Code != replay.CodePruned || v.Failure.NeedsBlock == nil || *v.Failure.NeedsBlock != *v.BlockNumber-1 ||
		!strings.Contains(v.Failure.Hint, "archive") || v.Failure.Words == "" {
		t.Errorf("%+v, %+v", v, v.Failure)
	}
}

// forward answers calls as the dev chain does, and those about state with an error.
func (r *rig) forward(w http.ResponseWriter, req *http.Request, stateError string) {
	type call struct {
		ID     json.RawMessage
		Method string
		Params []any
	}
	var raw json.RawMessage
	var calls []call
	err := json.NewDecoder(req.Body).Decode(&raw)
	batch := err == nil && raw[0] == '['
	if batch {
		err = json.Unmarshal(raw, &calls)
	} else if err == nil {
		calls = make([]call, 1)
		err = json.Unmarshal(raw, &calls[0])
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answers []map[string]any
	for _, c := range calls {
		var result json.RawMessage
		code, err := -32000, error(nil)
		if slices.Contains([]string{"eth_getProof", "eth_getBalance", "eth_getCode", "eth_getStorageAt", "eth_getTransactionCount"}, c.Method) {
			err = errors.New(stateError)
		} else if err = r.dev.Client().CallContext(req.Context(), &result, c.Method, c.Params...); err != nil {
			var coded rpc.Error
			if errors.As(err, &coded) {
				code = coded.ErrorCode()
			}
		}
		a := map[string]any{"jsonrpc": "2.0", "id": c.ID, "result": result}
		if err != nil {
			delete(a, "result")
			a["error"] = map[string]any{"code": code, "message": err.Error()}
		}
		answers = append(answers, a)
	}
	w.Header().Set("Content-Type", "application/json")
	if !batch {
		json.NewEncoder(w).Encode(answers[0]) // a broken connection is the client's to see
		return
	}
	json.NewEncoder(w).Encode(answers)
}

func TestCutDifferences(t *testing.T) {
	long := strings.Repeat("é", maxReplayWord)
	got := cutDifferences(slices.Repeat([]string{long}, 20))
	if len(got) != shownDiffs+1 || got[shownDiffs] != "and 12 more" {
		t.Fatalf("%d differences, the last %q", len(got), got[len(got)-1])
	}
	if d := got[0]; len(d) > maxReplayWord+len("…") || !strings.HasPrefix(long, strings.TrimSuffix(d, "…")) || !strings.HasSuffix(d, "é…") {
		t.Errorf("cut to %d bytes", len(d))
	}
	if got := cutDifferences(nil); got == nil || len(got) != 0 {
		t.Errorf("no differences are %v", got)
	}
}
