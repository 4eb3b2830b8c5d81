package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"karatum/chain/replay"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/store"
)

// Limits of replays (spec sections 6 and 9).
const (
	maxReplays    = 100     // queued or running
	maxReplayRuns = 3       // that a node begins and does not live to end
	maxReplayDoc  = 4 << 20 // bytes kept of one
	maxReplayWord = 2 << 10 // bytes of one difference or message in a list
	shownDiffs    = 8       // differences in a list

	// ReplayCache is where a node keeps what it read for replays, in its data
	// directory, at most ReplayCacheBytes of it.
	ReplayCache      = "replay-cache"
	ReplayCacheBytes = 256 << 20
)

// A ReplayView is one re-execution of a step's transaction. Result is that of
// spec section 9; Failure says why nothing could be replayed.
type ReplayView struct {
	ID        uint64          `json:"id"`
	State     string          `json:"state"` // queued, running, done, failed, cancelled
	Prefix    string          `json:"prefix"`
	Attempts  int             `json:"attempts"` // runs begun since it was queued
	At        uint64          `json:"queuedAt"`
	StartedAt uint64          `json:"startedAt,omitempty"`
	DoneAt    uint64          `json:"doneAt,omitempty"`
	Result    json.RawMessage `json:"result"`
	Failure   *ReplayFailure  `json:"failure,omitempty"`
}

// A ReplayFailure is why a transaction could not be replayed, and what to
// configure.
type ReplayFailure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Words say the code in a sentence, and NeedsBlock, with HISTORY_PRUNED, the block
	// after which the node must have the state; both where one replay is asked for by
	// its number, and in lists.
	Words      string  `json:"words,omitempty"`
	NeedsBlock *uint64 `json:"needsBlock,omitempty"`
}

// Refusals of [App.QueueReplay] and of what the operator can do with a replay.
var (
	ErrReplaysFull = &Error{Code: "REPLAY_QUEUE", Status: http.StatusTooManyRequests, RetryAfter: time.Minute,
		Message: fmt.Sprintf("%d replays wait already", maxReplays)}
	ErrNoReplay = &Error{Code: "UNKNOWN_REPLAY", Status: http.StatusNotFound, Message: "no replay of this step was asked for"}
	ErrNoTx     = &Error{Code: "NO_TX", Status: http.StatusConflict, Message: "the step names no transaction"}
	ErrForeign  = &Error{Code: "FOREIGN_TX", Status: http.StatusConflict,
		Message: "only a transaction that the chain shows to be the agent's own is replayed"}
	ErrReplayOver = &Error{Code: "REPLAY_STATE", Status: http.StatusConflict, Message: "the replay is neither queued nor running, so there is nothing to cancel"}
	ErrReplayOpen = &Error{Code: "REPLAY_STATE", Status: http.StatusConflict, Message: "the replay is queued or running already"}
)

// QueueReplay asks for the replay of a step's transaction; prefix is full or none.
// A failed one is queued again; any other is returned as it is, one that the operator
// has cancelled too.
func (a *App) QueueReplay(ctx context.Context, step flight.Hash, prefix string) (ReplayView, error) {
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
		if err := replayable(&s); err != nil {
			return err
		}
		row, err = tx.Replay(ctx, s.ChainID, *s.TxHash, prefix)
		if err == nil && row.State != store.ReplayFailed { // it takes no room
			return nil
		}
		if err := roomForReplay(ctx, tx); err != nil {
			return err
		}
		row, err = tx.PutReplay(ctx, s.ChainID, *s.TxHash, prefix, step)
		return err
	})
	if err != nil {
		return ReplayView{}, a.fault(ctx, "queue replay", outward(err))
	}
	a.wakeReplays()
	v, err := replayView(&row, &s)
	return v, a.fault(ctx, "queue replay", err)
}

// replayPrefix returns the prefix that a request means; without one it is full.
func replayPrefix(given string) (string, error) {
	switch given {
	case "":
		return string(replay.Full), nil
	case string(replay.Full), string(replay.None):
		return given, nil
	}
	return "", badRequest("prefix", "prefix must be full or none")
}

func roomForReplay(ctx context.Context, tx *store.Tx) error {
	open, err := tx.ReplaysOpen(ctx)
	if err == nil && open >= maxReplays {
		err = ErrReplaysFull
	}
	return err
}

func (a *App) wakeReplays() {
	select {
	case a.replays <- struct{}{}:
	default: // the runner has a reason to look already
	}
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
	GasUsed uint64 `json:",omitempty"` // of the replay
	// Original is what the chain has, without logs where they are the replay's own.
	Original *ReceiptView `json:",omitempty"`
}

func replayView(r *store.Replay, s *store.Step) (ReplayView, error) {
	v := ReplayView{ID: r.ID, State: string(r.State), Prefix: r.Prefix, Attempts: r.Attempts, At: r.At, StartedAt: r.StartedAt, DoneAt: r.DoneAt, Result: json.RawMessage("null")}
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
// One of an unknown kind is returned with a kind that [flight.Evaluate] calls
// unverifiable.
func stepClaim(s *store.Step) (*flight.Claim, error) {
	if len(s.Claim) == 0 {
		return nil, nil
	}
	if !interpreted(s.ClaimKind) { // it may be 1 MiB of anything
		return &flight.Claim{Kind: s.ClaimKind}, nil
	}
	o, err := opening("claim", s.Claim)
	if err != nil {
		return nil, fmt.Errorf("stored claim of %s: %w", s.Hash, err)
	}
	c, err := flight.ParseClaim(o.Value)
	if err != nil {
		return nil, fmt.Errorf("stored claim of %s: %w", s.Hash, err)
	}
	return &c, nil
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
