package store

import (
	"context"
	"errors"

	"karatum/flight"
)

// A ReplayState says how far a re-execution is.
type ReplayState string

// The states of a replay.
const (
	ReplayQueued  ReplayState = "queued"
	ReplayRunning ReplayState = "running"
	ReplayDone    ReplayState = "done"
	ReplayFailed  ReplayState = "failed"
)

// A Replay is one re-execution of a transaction (spec section 9).
type Replay struct {
	ID      uint64
	ChainID uint64
	TxHash  flight.Hash
	Prefix  string      // "full" or "none"
	Step    flight.Hash // the step that asked first
	State   ReplayState
	Result  []byte // JSON, of done and failed
	At      uint64 // unix ms, queued
	DoneAt  uint64 // unix ms; 0 until then
}

const selectReplay = `SELECT id, chain_id, tx_hash, prefix, step, state, result, at, done_at FROM replay`

func scanReplay(s scanner) (p Replay, err error) {
	err = s.Scan(num(&p.ID), num(&p.ChainID), bytesTo(p.TxHash[:]), &p.Prefix, bytesTo(p.Step[:]), &p.State, &p.Result, num(&p.At), num(&p.DoneAt))
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

// ReplaysOpen returns how many replays are queued or running.
func (r *ReadTx) ReplaysOpen(ctx context.Context) (n uint64, err error) {
	err = r.one(ctx, []any{num(&n)}, `SELECT count(*) FROM replay INDEXED BY replay_open WHERE state IN ('queued', 'running')`)
	return n, err
}

// NextReplay returns the oldest replay that is not done, one that a crash left
// running included, or [ErrNotFound].
func (r *ReadTx) NextReplay(ctx context.Context) (Replay, error) {
	return first(ctx, r, scanReplay, selectReplay+` INDEXED BY replay_open WHERE state IN ('queued', 'running') ORDER BY id LIMIT 1`)
}

// PutReplay queues a replay and returns it. One that is queued, running or done
// is returned as it is; a failed one is queued again.
func (tx *Tx) PutReplay(ctx context.Context, chainID uint64, txHash flight.Hash, prefix string, step flight.Hash) (Replay, error) {
	p, err := tx.Replay(ctx, chainID, txHash, prefix)
	switch {
	case errors.Is(err, ErrNotFound):
		_, err = tx.exec(`INSERT INTO replay (chain_id, tx_hash, prefix, step, state, at) VALUES (?, ?, ?, ?, 'queued', ?)`,
			chainID, txHash[:], prefix, step[:], tx.now)
	case err == nil && p.State == ReplayFailed:
		_, err = tx.exec(`UPDATE replay SET state = 'queued', result = NULL, at = ?, done_at = NULL WHERE id = ?`, tx.now, p.ID)
	default:
		return p, err
	}
	if err != nil {
		return Replay{}, err
	}
	return tx.Replay(ctx, chainID, txHash, prefix)
}

// SetReplay moves a replay from one state to another, with the result of done and
// failed. The error is [ErrConflict] where it is not in the state from.
func (tx *Tx) SetReplay(_ context.Context, id uint64, from, to ReplayState, result []byte) error {
	var doneAt any
	if to == ReplayDone || to == ReplayFailed {
		doneAt = tx.now
	}
	tx.w.group.bytes += len(result)
	return tx.must(`UPDATE replay SET state = ?, result = ?, done_at = ? WHERE id = ? AND state = ?`,
		string(to), nullable(result, result != nil), doneAt, id, string(from))
}
