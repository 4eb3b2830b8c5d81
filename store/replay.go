package store

import (
	"context"
	"errors"

	"karatum/flight"
)

// A ReplayState says how far a re-execution is.
//
//	none ──PutReplay──▶ queued ──StartReplay──▶ running ──FinishReplay──▶ done, failed
//
// What else leads from one to another:
//   - failed to queued: PutReplay, when somebody asks again
//   - running to queued: ReleaseReplay, as the node stops, and RecoverReplays, as it
//     starts after it could not
//   - queued, running to cancelled: CancelReplay, by the operator
//   - done, failed, cancelled to queued: RequeueReplay, by the operator
//
// Each is one guarded statement: of two that race, one finds [ErrConflict].
type ReplayState string

// The states of a replay.
const (
	ReplayQueued    ReplayState = "queued"
	ReplayRunning   ReplayState = "running"
	ReplayDone      ReplayState = "done"
	ReplayFailed    ReplayState = "failed"
	ReplayCancelled ReplayState = "cancelled"
)

// A Replay is one re-execution of a transaction (spec section 9). Times are unix ms
// and 0 where there is none.
type Replay struct {
	ID        uint64
	ChainID   uint64
	TxHash    flight.Hash
	Prefix    string      // "full" or "none"
	Step      flight.Hash // the step that asked first
	State     ReplayState
	Attempts  int    // runs begun since it was queued
	Summary   []byte // JSON, of done and failed: what lists show
	Result    []byte // JSON, of done and failed; not in lists
	At        uint64 // queued
	StartedAt uint64 // of the last run
	DoneAt    uint64 // done, failed or cancelled
}

const (
	selectReplay = `SELECT id, chain_id, tx_hash, prefix, step, state, attempts, summary, at, started_at, done_at, result FROM replay`
	listReplays  = `SELECT id, chain_id, tx_hash, prefix, step, state, attempts, summary, at, started_at, done_at, NULL FROM replay`
)

func scanReplay(s scanner) (p Replay, err error) {
	err = s.Scan(num(&p.ID), num(&p.ChainID), bytesTo(p.TxHash[:]), &p.Prefix, bytesTo(p.Step[:]), &p.State, &p.Attempts,
		&p.Summary, num(&p.At), num(&p.StartedAt), num(&p.DoneAt), &p.Result)
	return p, err
}

// Replay returns the replay of a transaction, or [ErrNotFound].
func (r *ReadTx) Replay(ctx context.Context, chainID uint64, txHash flight.Hash, prefix string) (Replay, error) {
	return first(ctx, r, scanReplay, selectReplay+` WHERE chain_id = ? AND tx_hash = ? AND prefix = ?`, chainID, txHash[:], prefix)
}

// ReplayOf returns the replay of a transaction, the one with the block's earlier
// transactions before the one without, or [ErrNotFound]. One look-up: "full" sorts
// before "none".
func (r *ReadTx) ReplayOf(ctx context.Context, chainID uint64, txHash flight.Hash) (Replay, error) {
	return first(ctx, r, scanReplay, selectReplay+` WHERE chain_id = ? AND tx_hash = ? ORDER BY prefix LIMIT 1`, chainID, txHash[:])
}

// ReplayByID returns a replay, or [ErrNotFound].
func (r *ReadTx) ReplayByID(ctx context.Context, id uint64) (Replay, error) {
	return first(ctx, r, scanReplay, selectReplay+` WHERE id = ?`, id)
}

// Replays lists the replays of a state, or all where it is empty, the last queued
// first, without their results.
func (r *ReadTx) Replays(ctx context.Context, state ReplayState, p Page) ([]Replay, string, error) {
	keys, ok, err := p.keys(2)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		keys = []int64{1<<62 - 1, 0}
	}
	var rows []Replay
	if state == "" {
		rows, err = list(ctx, r, scanReplay, listReplays+` WHERE (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?`,
			keys[0], keys[1], p.limit()+1)
	} else {
		rows, err = list(ctx, r, scanReplay, listReplays+` WHERE state = ? AND (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?`,
			string(state), keys[0], keys[1], p.limit()+1)
	}
	rows, next := page(rows, p.limit(), func(q Replay) string { return cursor(q.At, q.ID) })
	return rows, next, err
}

// ReplaysOpen returns how many replays are queued or running.
func (r *ReadTx) ReplaysOpen(ctx context.Context) (n uint64, err error) {
	for _, state := range []ReplayState{ReplayQueued, ReplayRunning} {
		var k uint64
		if err := r.one(ctx, []any{num(&k)}, `SELECT count(*) FROM replay WHERE state = ?`, string(state)); err != nil {
			return 0, err
		}
		n += k
	}
	return n, nil
}

// PutReplay queues a replay and returns it. A failed one is queued again; any other
// is returned as it is.
func (tx *Tx) PutReplay(ctx context.Context, chainID uint64, txHash flight.Hash, prefix string, step flight.Hash) (Replay, error) {
	p, err := tx.Replay(ctx, chainID, txHash, prefix)
	switch {
	case errors.Is(err, ErrNotFound):
		_, err = tx.exec(`INSERT INTO replay (chain_id, tx_hash, prefix, step, state, attempts, at) VALUES (?, ?, ?, ?, 'queued', 0, ?)`,
			chainID, txHash[:], prefix, step[:], tx.now)
	case err == nil && p.State == ReplayFailed:
		err = tx.RequeueReplay(ctx, p.ID)
	default:
		return p, err
	}
	if err != nil {
		return Replay{}, err
	}
	return tx.Replay(ctx, chainID, txHash, prefix)
}

// RequeueReplay queues a replay that has ended, however it did, again. What it came
// to is forgotten. The error is [ErrConflict] where it has not ended.
func (tx *Tx) RequeueReplay(_ context.Context, id uint64) error {
	return tx.must(`UPDATE replay SET state = 'queued', attempts = 0, summary = NULL, result = NULL, at = ?, started_at = NULL, done_at = NULL
		WHERE id = ? AND state IN ('done', 'failed', 'cancelled')`, tx.now, id)
}

// StartReplay begins the run of the replay that was queued first, and returns it, or
// [ErrNotFound].
func (tx *Tx) StartReplay(ctx context.Context) (Replay, error) {
	p, err := first(ctx, &tx.ReadTx, scanReplay, selectReplay+` WHERE state = 'queued' ORDER BY at, id LIMIT 1`)
	if err != nil {
		return p, err
	}
	p.State, p.Attempts, p.StartedAt = ReplayRunning, p.Attempts+1, tx.now
	return p, tx.must(`UPDATE replay SET state = 'running', attempts = attempts + 1, started_at = ? WHERE id = ? AND state = 'queued'`, tx.now, p.ID)
}

// FinishReplay ends the run of a replay as done or failed, with JSON of what it came
// to. The error is [ErrConflict] where it is not running.
func (tx *Tx) FinishReplay(_ context.Context, id uint64, to ReplayState, summary, result []byte) error {
	tx.w.group.bytes += len(summary) + len(result)
	return tx.must(`UPDATE replay SET state = ?, summary = ?, result = ?, done_at = ? WHERE id = ? AND state = 'running'`,
		string(to), summary, result, tx.now, id)
}

// ReleaseReplay puts a running replay back into the queue, as if the run had not
// begun. The error is [ErrConflict] where it is not running.
func (tx *Tx) ReleaseReplay(_ context.Context, id uint64) error {
	return tx.must(`UPDATE replay SET state = 'queued', attempts = attempts - 1 WHERE id = ? AND state = 'running'`, id)
}

// RecoverReplays puts what an earlier process left running back into the queue. The
// runs it began still count.
func (tx *Tx) RecoverReplays(_ context.Context) error {
	_, err := tx.exec(`UPDATE replay SET state = 'queued' WHERE state = 'running'`)
	return err
}

// CancelReplay ends a replay that is queued or running. The error is [ErrConflict]
// where it is neither.
func (tx *Tx) CancelReplay(_ context.Context, id uint64) error {
	return tx.must(`UPDATE replay SET state = 'cancelled', done_at = ? WHERE id = ? AND state IN ('queued', 'running')`, tx.now, id)
}
