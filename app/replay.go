package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain/replay"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/store"
)

// Limits of replays (spec sections 6 and 9).
const (
	maxReplays    = 100 // queued or running
	replayTimeout = 2 * time.Minute
	maxReplayDoc  = 4 << 20 // bytes kept of one

	// ReplayCache is where a node keeps what it read for replays, in its data
	// directory, at most ReplayCacheBytes of it.
	ReplayCache      = "replay-cache"
	ReplayCacheBytes = 256 << 20
)

// A ReplayView is one re-execution of a step's transaction. Result is that of
// spec section 9; Failure says why nothing could be replayed.
type ReplayView struct {
	State   string          `json:"state"` // queued, running, done, failed
	Prefix  string          `json:"prefix"`
	At      uint64          `json:"queuedAt"`
	DoneAt  uint64          `json:"doneAt,omitempty"`
	Result  json.RawMessage `json:"result"`
	Failure *ReplayFailure  `json:"failure,omitempty"`
}

// A ReplayFailure is why a transaction could not be replayed, and what to
// configure.
type ReplayFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Refusals of [App.QueueReplay].
var (
	ErrReplaysFull = &Error{Code: "REPLAY_QUEUE", Status: http.StatusTooManyRequests, RetryAfter: time.Minute,
		Message: fmt.Sprintf("%d replays wait already", maxReplays)}
	ErrNoReplay = &Error{Code: "UNKNOWN_REPLAY", Status: http.StatusNotFound, Message: "no replay of this step was asked for"}
	ErrNoTx     = &Error{Code: "NO_TX", Status: http.StatusConflict, Message: "the step names no transaction"}
	ErrForeign  = &Error{Code: "FOREIGN_TX", Status: http.StatusConflict,
		Message: "only a transaction that the chain shows to be the agent's own is replayed"}
)

// QueueReplay asks for the replay of a step's transaction; prefix is full or none.
// One that is queued, running or done is returned as it is.
func (a *App) QueueReplay(ctx context.Context, step flight.Hash, prefix string) (ReplayView, error) {
	if prefix == "" {
		prefix = string(replay.Full)
	}
	if prefix != string(replay.Full) && prefix != string(replay.None) {
		return ReplayView{}, badRequest("prefix", "prefix must be full or none")
	}
	var row store.Replay
	var s store.Step
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		if s, err = tx.Step(ctx, step); err != nil {
			return notFound(err, ErrUnknownStep)
		}
		if err := replayable(&s); err != nil {
			return err
		}
		open, err := tx.ReplaysOpen(ctx)
		if err == nil && open >= maxReplays {
			err = ErrReplaysFull
		}
		if err != nil {
			return err
		}
		row, err = tx.PutReplay(ctx, s.ChainID, *s.TxHash, prefix, step)
		return err
	})
	if err != nil {
		return ReplayView{}, a.fault(ctx, "queue replay", outward(err))
	}
	select {
	case a.replays <- struct{}{}:
	default: // the runner has a reason to look already
	}
	v, err := replayView(&row, &s)
	return v, a.fault(ctx, "queue replay", err)
}

// replayable refuses a step whose transaction is not seen to be the agent's own:
// whoever could have others' transactions replayed could keep the node busy.
func replayable(s *store.Step) error {
	if s.TxHash == nil {
		return ErrNoTx
	}
	for _, c := range s.Verdict.Checks {
		if c.Name == "tx.sender" && c.Pass {
			return nil
		}
	}
	return ErrForeign
}

// ReplayOf returns the replay of a step's transaction, the one with the block's
// earlier transactions before the one without.
func (a *App) ReplayOf(ctx context.Context, step flight.Hash) (ReplayView, error) {
	var v ReplayView
	err := a.view(ctx, ErrNoReplay, func(tx *store.ReadTx) error {
		s, err := tx.Step(ctx, step)
		if err != nil {
			return notFound(err, ErrUnknownStep)
		}
		row, err := replayOf(ctx, tx, &s)
		if err != nil {
			return err
		}
		v, err = replayView(row, &s)
		return err
	})
	return v, err
}

func replayOf(ctx context.Context, tx *store.ReadTx, s *store.Step) (*store.Replay, error) {
	if s.TxHash == nil {
		return nil, store.ErrNotFound
	}
	row, err := tx.ReplayOf(ctx, s.ChainID, *s.TxHash)
	return &row, err
}

// A replayDoc is what is kept of a replay: the result without a verdict, and the
// replayed outcome, on which the claim of whichever step is asked about is judged.
type replayDoc struct {
	Result  json.RawMessage
	Outcome flight.Tx
}

func replayView(r *store.Replay, s *store.Step) (ReplayView, error) {
	v := ReplayView{State: string(r.State), Prefix: r.Prefix, At: r.At, DoneAt: r.DoneAt, Result: json.RawMessage("null")}
	switch r.State {
	case store.ReplayFailed:
		v.Failure = &ReplayFailure{}
		return v, json.Unmarshal(r.Result, v.Failure)
	case store.ReplayDone:
		var err error
		v.Result, err = replayResult(r.Result, s)
		return v, err
	}
	return v, nil
}

// replayResult writes the verdict on the step's own claim into a kept result.
func replayResult(kept []byte, s *store.Step) (json.RawMessage, error) {
	var doc replayDoc
	if err := json.Unmarshal(kept, &doc); err != nil {
		return nil, fmt.Errorf("stored replay of %s: %w", s.Hash, err)
	}
	members := map[string]any{}
	if err := json.Unmarshal(doc.Result, &members); err != nil {
		return nil, fmt.Errorf("stored replay of %s: %w", s.Hash, err)
	}
	c, err := stepClaim(s)
	if err != nil {
		return nil, err
	}
	members["verdict"] = nil
	if c != nil {
		members["verdict"] = flight.Evaluate(*c, s.Agent, doc.Outcome)
	}
	return json.Marshal(members)
}

// stepClaim returns the opened claim of a stored step, nil where none is opened.
// One of an unknown kind is returned with that kind, which [flight.Evaluate]
// calls unverifiable.
func stepClaim(s *store.Step) (*flight.Claim, error) {
	if len(s.Claim) == 0 {
		return nil, nil
	}
	o, err := opening("claim", s.Claim)
	if err != nil {
		return nil, fmt.Errorf("stored claim of %s: %w", s.Hash, err)
	}
	c, err := flight.ParseClaim(o.Value)
	if err != nil && !errors.Is(err, flight.ErrUnsupportedClaim) {
		return nil, fmt.Errorf("stored claim of %s: %w", s.Hash, err)
	}
	return &c, nil
}

// runReplays works the queue off, one at a time, what a crash left included,
// until ctx ends. It sleeps while the queue is empty.
func (a *App) runReplays(ctx context.Context) {
	for {
		again, err := a.nextReplay(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.log.WarnContext(ctx, "replay not recorded", "err", err)
		}
		if again && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-a.replays:
		}
	}
}

// nextReplay runs the oldest open replay; again is false where there is none.
func (a *App) nextReplay(ctx context.Context) (again bool, err error) {
	var row store.Replay
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		if row, err = tx.NextReplay(ctx); err != nil || row.State == store.ReplayRunning {
			return err
		}
		return tx.SetReplay(ctx, row.ID, row.State, store.ReplayRunning, nil)
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	to, doc := a.replayOne(ctx, &row)
	if ctx.Err() != nil {
		return false, nil // the next start runs it again
	}
	return true, a.store.Update(ctx, func(tx *store.Tx) error {
		return tx.SetReplay(ctx, row.ID, store.ReplayRunning, to, doc)
	})
}

func (a *App) replayOne(ctx context.Context, row *store.Replay) (store.ReplayState, []byte) {
	client, ok := a.clients[row.ChainID]
	if !ok {
		return failedReplay(&replay.Failure{Code: flight.ChainUnsupported, Hint: "configure the chain with --chain-rpc", Err: errors.New("no RPC of this chain is configured")})
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	res, err := a.replayer.Replay(ctx, replay.Job{
		Client: client, ChainID: row.ChainID, Tx: common.Hash(row.TxHash), Prefix: replay.Prefix(row.Prefix),
	})
	if err != nil {
		return failedReplay(err)
	}
	result, err := json.Marshal(res)
	if err != nil {
		return failedReplay(err)
	}
	doc, err := json.Marshal(replayDoc{Result: result, Outcome: mined(res.Outcome.Tx, res.Outcome.Receipt)})
	if err != nil {
		return failedReplay(err)
	}
	if len(doc) > maxReplayDoc {
		return failedReplay(&replay.Failure{Code: replay.CodeLimit, Err: fmt.Errorf("the replayed logs take %d bytes; %d are kept", len(doc), maxReplayDoc)})
	}
	return store.ReplayDone, doc
}

func failedReplay(err error) (store.ReplayState, []byte) {
	f := ReplayFailure{Code: replay.Code(err), Message: err.Error()}
	var known *replay.Failure
	if errors.As(err, &known) {
		f.Code, f.Hint = known.Code, known.Hint
	}
	doc, err := json.Marshal(f)
	if err != nil { // strings always marshal
		return store.ReplayFailed, []byte(`{"code":"INTERNAL"}`)
	}
	return store.ReplayFailed, doc
}

// ReplayJudge returns what judges a claim document, {"kind": …}, on a replayed
// receipt, with the sender as the agent. The error wraps [flight.ErrClaim] or
// [flight.ErrUnsupportedClaim], or is of the JSON.
func ReplayJudge(doc []byte) (func(replay.Outcome) (any, error), error) {
	v, err := canon.Parse(doc, canon.MaxDepth)
	if err != nil {
		return nil, err
	}
	c, err := flight.ParseClaim(v)
	if err != nil {
		return nil, err
	}
	return func(o replay.Outcome) (any, error) {
		return flight.Evaluate(c, flight.Address(o.Tx.From), mined(o.Tx, o.Receipt)), nil
	}, nil
}
