package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/replay"
	"karatum/flight"
	"karatum/store"
)

// A runningReplay is the replay that the runner is at, so that it can be stopped.
type runningReplay struct {
	mu     sync.Mutex // guards the rest; held while a run begins
	id     uint64
	cancel context.CancelCauseFunc // nil while nothing runs
}

// stop ends the run of a replay, if it is the one that runs.
func (r *runningReplay) stop(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil && r.id == id {
		r.cancel(errCancelled)
	}
}

func (r *runningReplay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel(nil)
	r.cancel = nil
}

var errCancelled = errors.New("cancelled by the operator")

// runReplays works the queue off, one at a time, until ctx ends. It sleeps while the
// queue is empty. What a killed process left running is queued again first.
func (a *App) runReplays(ctx context.Context) {
	err := a.store.Update(ctx, func(tx *store.Tx) error { return tx.RecoverReplays(ctx) })
	for {
		again := false
		if err == nil {
			again, err = a.nextReplay(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.log.WarnContext(ctx, "replay not recorded", "err", err)
		}
		if again && err == nil {
			continue
		}
		err = nil
		select {
		case <-ctx.Done():
			return
		case <-a.replays:
		}
	}
}

// nextReplay runs the replay that was queued first; again is false where there is
// none, or the node stops.
func (a *App) nextReplay(ctx context.Context) (again bool, err error) {
	run, row, err := a.startReplay(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer a.running.end()
	a.checkpoint("replay started")
	end := a.replayOne(run, &row)
	if ctx.Err() != nil { // the next start runs it again, and this run does not count
		return false, a.setReplay(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.ReleaseReplay(ctx, row.ID) })
	}
	err = a.setReplay(ctx, func(tx *store.Tx) error { return tx.FinishReplay(ctx, row.ID, end.state, end.summary, end.result) })
	a.checkpoint("replay ended")
	return true, err
}

// startReplay marks the next replay as running, and makes it one that can be stopped
// before anybody can see that it runs.
func (a *App) startReplay(ctx context.Context) (context.Context, store.Replay, error) {
	a.running.mu.Lock()
	defer a.running.mu.Unlock()
	var row store.Replay
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		row, err = tx.StartReplay(ctx)
		return err
	})
	if err != nil {
		return nil, row, err
	}
	run, cancel := context.WithCancelCause(ctx)
	a.running.id, a.running.cancel = row.ID, cancel
	return run, row, nil
}

// setReplay records how a run ended. One that was cancelled meanwhile stays so.
func (a *App) setReplay(ctx context.Context, fn func(*store.Tx) error) error {
	err := a.store.Update(ctx, fn)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// A replayEnd is how a run ended, with the documents to keep.
type replayEnd struct {
	state           store.ReplayState
	summary, result []byte
}

func (a *App) replayOne(ctx context.Context, row *store.Replay) replayEnd {
	if row.Attempts > maxReplayRuns {
		return failedReplay(&replay.Failure{Code: replay.CodeLimit, Err: fmt.Errorf("the node ended during each of %d runs", maxReplayRuns)})
	}
	client, ok := a.clients[row.ChainID]
	if !ok {
		return failedReplay(&replay.Failure{Code: flight.ChainUnsupported, Hint: "configure the chain with --chain-rpc", Err: errors.New("no RPC of this chain is configured")})
	}
	limited, cancel := context.WithTimeoutCause(ctx, a.cfg.ReplayTimeout, fmt.Errorf("%w: %s", replay.ErrLimit, a.cfg.ReplayTimeout))
	defer cancel()
	seen, err := a.seenTx(ctx, row.Step)
	if err != nil {
		return failedReplay(err)
	}
	res, err := a.replayer.Replay(limited, replay.Job{
		Client: client, ChainID: row.ChainID, Tx: common.Hash(row.TxHash), Prefix: replay.Prefix(row.Prefix), Seen: seen,
	})
	var known *replay.Failure
	if errors.As(err, &known) && known.Code == replay.CodeLimit && limited.Err() != nil {
		known.Hint = "raise --replay-timeout, or configure a faster node"
	}
	if err != nil {
		return failedReplay(err)
	}
	end, err := a.doneReplay(ctx, row, &res)
	if err != nil {
		return failedReplay(err)
	}
	return end
}

// seenTx is where the verdict of a step saw its transaction, nil without one.
func (a *App) seenTx(ctx context.Context, step flight.Hash) (seen *replay.Seen, err error) {
	err = a.store.View(ctx, func(tx *store.ReadTx) error {
		s, err := tx.Step(ctx, step)
		if err != nil || s.BlockHash == nil {
			return err
		}
		seen = &replay.Seen{BlockHash: common.Hash(*s.BlockHash), BlockNumber: s.BlockNumber}
		c, err := stepClaim(&s)
		if err != nil || c == nil || s.Verdict.State != flight.Confirmed {
			return err
		}
		switch c.Kind { // the transaction called it, or it logged the transfer
		case flight.ClaimNative:
			seen.Runs = []common.Address{common.Address(c.To)}
		case flight.ClaimERC20:
			seen.Runs = []common.Address{common.Address(c.Token)}
		}
		return nil
	})
	return seen, err
}

// doneReplay makes the documents of a replay that reached an outcome. What lists show
// has the verdict of the step that asked, whose claim never changes.
func (a *App) doneReplay(ctx context.Context, row *store.Replay, res *replay.Result) (replayEnd, error) {
	outcome := mined(res.Outcome.Tx, res.Outcome.Receipt)
	verdict, err := a.replayVerdict(ctx, row.Step, outcome)
	if err != nil {
		return replayEnd{}, err
	}
	result, err := json.Marshal(res)
	if err != nil {
		return replayEnd{}, err
	}
	told := receiptOf(&res.Outcome.Told, !res.Reproduced)
	doc, err := json.Marshal(replayDoc{Result: result, Outcome: outcome, GasUsed: res.Outcome.Receipt.GasUsed, Original: told})
	if err != nil {
		return replayEnd{}, err
	}
	if len(doc) > maxReplayDoc {
		return failedReplay(&replay.Failure{Code: replay.CodeLimit, Err: fmt.Errorf("the logs take %d bytes; %d are kept", len(doc), maxReplayDoc)}), nil
	}
	summary, err := json.Marshal(replayOutline{
		Reproduced: res.Reproduced, Verdict: verdict, ForkBlock: res.ForkBlock, BlockHash: flight.Hash(res.BlockHash),
		PrefixCount: res.PrefixCount, Differences: cutDifferences(res.Differences), State: res.State,
	})
	return replayEnd{store.ReplayDone, summary, doc}, err
}

// replayVerdict judges the claim of a step on what was replayed, nil without one.
func (a *App) replayVerdict(ctx context.Context, step flight.Hash, outcome flight.Tx) (v *flight.Verdict, err error) {
	err = a.store.View(ctx, func(tx *store.ReadTx) error {
		s, err := tx.Step(ctx, step)
		if err != nil {
			return err
		}
		c, err := stepClaim(&s)
		if err == nil && c != nil {
			got := flight.Evaluate(*c, s.Agent, outcome)
			v = &got
		}
		return err
	})
	return v, err
}

// cutDifferences keeps what a list has room for.
func cutDifferences(all []string) []string {
	out := []string{}
	for i, d := range all {
		if i == shownDiffs {
			return append(out, fmt.Sprintf("and %d more", len(all)-i))
		}
		out = append(out, cutText(d))
	}
	return out
}

// cutText shortens to maxReplayWord bytes, at a whole character.
func cutText(s string) string {
	if len(s) <= maxReplayWord {
		return s
	}
	n := 0
	for i := range s {
		if i > maxReplayWord {
			break
		}
		n = i
	}
	return s[:n] + "…"
}

// receiptOf returns what is compared of a receipt.
func receiptOf(r *chain.Receipt, logs bool) *ReceiptView {
	v := &ReceiptView{Success: r.Status == 1, GasUsed: r.GasUsed}
	if logs {
		v.Logs = logViews(mined(chain.Tx{}, *r).Logs)
	}
	return v
}

func failedReplay(err error) replayEnd {
	f := ReplayFailure{Code: replay.Code(err), Message: cutText(err.Error())}
	var known *replay.Failure
	if errors.As(err, &known) {
		f = ReplayFailure{Code: known.Code, Hint: known.Hint, Message: cutText(known.Err.Error())}
	}
	doc, err := json.Marshal(f)
	if err != nil { // strings always marshal
		doc = []byte(`{"code":"INTERNAL"}`)
	}
	return replayEnd{store.ReplayFailed, doc, doc}
}

// CancelReplay ends the queued or running replay of a step's transaction; prefix is
// full or none. It stays cancelled until the operator has it run again.
func (a *App) CancelReplay(ctx context.Context, step flight.Hash, prefix string) (ReplayView, error) {
	v, err := a.changeReplay(ctx, step, prefix, ErrReplayOver, func(tx *store.Tx, id uint64) error { return tx.CancelReplay(ctx, id) })
	if err == nil {
		a.running.stop(v.ID)
	}
	return v, err
}

// RerunReplay queues a replay that has ended, however it did, once more. There is one
// replay a (chain, transaction, prefix) (spec section 9): what it came to before is
// forgotten.
func (a *App) RerunReplay(ctx context.Context, step flight.Hash, prefix string) (ReplayView, error) {
	v, err := a.changeReplay(ctx, step, prefix, ErrReplayOpen, func(tx *store.Tx, id uint64) error {
		if err := tx.RequeueReplay(ctx, id); err != nil {
			return err
		}
		open, err := tx.ReplaysOpen(ctx)
		if err == nil && open > maxReplays {
			err = ErrReplaysFull
		}
		return err
	})
	if err == nil {
		a.wakeReplays()
	}
	return v, err
}

// changeReplay moves the replay of a step's transaction to another state; refusal is
// the answer where it is in none that permits it.
func (a *App) changeReplay(ctx context.Context, step flight.Hash, prefix string, refusal *Error, change func(*store.Tx, uint64) error) (ReplayView, error) {
	prefix, err := replayPrefix(prefix)
	if err != nil {
		return ReplayView{}, err
	}
	var row store.Replay
	var s store.Step
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		if s, err = tx.Step(ctx, step); err != nil {
			return notFound(err, ErrUnknownStep)
		}
		if s.TxHash == nil {
			return ErrNoTx
		}
		if row, err = tx.Replay(ctx, s.ChainID, *s.TxHash, prefix); err != nil {
			return notFound(err, ErrNoReplay)
		}
		if err := change(tx, row.ID); errors.Is(err, store.ErrConflict) {
			return refusal
		} else if err != nil {
			return err
		}
		row, err = tx.ReplayByID(ctx, row.ID)
		return err
	})
	if err != nil {
		return ReplayView{}, a.fault(ctx, "change replay", outward(err))
	}
	v, err := replayView(&row, &s)
	return v, a.fault(ctx, "change replay", err)
}

// replayStatus says how the queue stands.
func (a *App) replayStatus(ctx context.Context, tx *store.ReadTx, v *StatusView) error {
	var err error
	if v.Replays.Open, err = tx.ReplaysOpen(ctx); err != nil {
		return err
	}
	running, _, err := tx.Replays(ctx, store.ReplayRunning, store.Page{Limit: 1})
	if err != nil {
		return err
	}
	for _, p := range running {
		now := a.nowMs()
		v.Replays.Running = &ReplayRunning{ID: p.ID, StepHash: p.Step, StartedAt: p.StartedAt, AgeMs: max(now, p.StartedAt) - p.StartedAt}
	}
	failed, _, err := tx.Replays(ctx, store.ReplayFailed, store.Page{Limit: 1})
	for _, p := range failed {
		var f ReplayFailure
		if err := json.Unmarshal(p.Summary, &f); err != nil {
			return fmt.Errorf("stored replay %d: %w", p.ID, err)
		}
		v.Replays.LastError = &ReplayError{ID: p.ID, At: p.DoneAt, Code: f.Code, Words: replayWords(&f)}
	}
	return err
}

// replayWords says in plain words why nothing could be replayed.
func replayWords(f *ReplayFailure) string {
	if words, ok := replayCodes[f.Code]; ok {
		return words
	}
	return f.Message
}

var replayCodes = map[string]string{
	replay.CodePruned:        "The node that is read from no longer has the state before the transaction's block",
	replay.CodeNotFound:      "The transaction is not in a block, as far as the node that is read from knows",
	replay.CodeRateLimited:   "The node that is read from limits our calls",
	replay.CodeTimeout:       "The node that is read from did not answer in time",
	replay.CodeRPC:           "The node that is read from answered with an error",
	replay.CodeWrongChain:    "The node that is read from serves another chain",
	replay.CodeContradiction: "The node that is read from contradicts itself, so nothing it says was used",
	replay.CodeNoProof:       "The node that is read from cannot prove its state",
	replay.CodeDisputed:      "Two nodes disagree about the transaction's block",
	replay.CodeOtherBlock:    "The transaction is in another block than the verdict is about",
	replay.CodeUnsupported:   "The block has something that cannot be executed here",
	replay.CodeLimit:         "It needs more gas, time or memory than a replay may take",
	flight.ChainUnsupported:  "No RPC of this chain is configured",
}

// replayStuck is how long a run may exceed its time before that is a problem.
const replayStuck = time.Minute
