package store

import (
	"context"
	"errors"

	"karatum/flight"
)

// MaxRechecks is the most transactions of one key that are looked at again at any
// time (spec section 8).
const MaxRechecks = 256

// A RecheckJob is one transaction to look at again.
type RecheckJob struct {
	ChainID  uint64
	TxHash   flight.Hash
	Agent    flight.Address // whose claim asked first
	FirstAt  uint64         // unix ms
	DueAt    uint64         // unix ms
	Attempts int
	Open     bool
}

const selectRecheck = `SELECT r.chain_id, r.tx_hash, a.address, r.first_at, r.due_at, r.attempts, r.done_at IS NULL, r.agent_id
	FROM recheck r CROSS JOIN agent a ON a.id = r.agent_id`

// recheckRow is a job with the row id of its agent.
type recheckRow struct {
	RecheckJob
	agent uint64
}

func scanRecheck(s scanner) (j recheckRow, err error) {
	err = s.Scan(num(&j.ChainID), bytesTo(j.TxHash[:]), bytesTo(j.Agent[:]), num(&j.FirstAt), num(&j.DueAt), &j.Attempts, flag(&j.Open), num(&j.agent))
	return j, err
}

// Recheck returns the job of a transaction, open or done, or [ErrNotFound].
func (r *ReadTx) Recheck(ctx context.Context, chainID uint64, txHash flight.Hash) (RecheckJob, error) {
	j, err := first(ctx, r, scanRecheck, selectRecheck+` WHERE r.chain_id = ? AND r.tx_hash = ?`, chainID, txHash[:])
	return j.RecheckJob, err
}

// RecheckOpen returns how many jobs of a key are open.
func (r *ReadTx) RecheckOpen(ctx context.Context, agent flight.Address) (n uint64, err error) {
	err = r.one(ctx, []any{num(&n)}, `SELECT count(*) FROM recheck INDEXED BY recheck_open
		WHERE agent_id = (SELECT id FROM agent WHERE address = ?) AND done_at IS NULL`, agent[:])
	return n, err
}

// maxAgentsAsked bounds the look-ups of one DueRechecks, whoever has open jobs.
const maxAgentsAsked = 4096

// DueRechecks returns open jobs that are due at now (unix ms), at most limit, fair
// among keys: it goes round the keys, one job of each at a time, the longest due
// first. Where it starts depends on now, so that no key is always last.
func (r *ReadTx) DueRechecks(ctx context.Context, now uint64, limit int) ([]RecheckJob, error) {
	queues, err := r.dueByAgent(ctx, now, limit)
	if err != nil {
		return nil, err
	}
	var out []RecheckJob
	for round := 0; len(out) < limit; round++ {
		found := false
		for _, q := range queues {
			if round < len(q) && len(out) < limit {
				out, found = append(out, q[round]), true
			}
		}
		if !found {
			break
		}
	}
	return out, nil
}

// dueByAgent returns the due jobs of up to limit keys, each key's longest due first.
func (r *ReadTx) dueByAgent(ctx context.Context, now uint64, limit int) (queues [][]RecheckJob, err error) {
	c, err := r.Counts(ctx)
	if err != nil || c.Agents == 0 {
		return nil, err
	}
	start := now / 1000 * 2654435761 % c.Agents // any spread over the keys will do
	after, wrapped := start, false
	for asked := 0; asked < maxAgentsAsked && len(queues) < limit; asked++ {
		var agent uint64
		var ok bool
		err := r.one(ctx, []any{present{num(&agent), &ok}},
			`SELECT min(agent_id) FROM recheck INDEXED BY recheck_open WHERE done_at IS NULL AND agent_id > ?`, after)
		if err != nil {
			return nil, err
		}
		if !ok || wrapped && agent > start {
			if wrapped {
				break
			}
			after, wrapped = 0, true
			continue
		}
		jobs, err := r.dueOf(ctx, agent, now, limit)
		if err != nil {
			return nil, err
		}
		if len(jobs) > 0 {
			queues = append(queues, jobs)
		}
		after = agent
	}
	return queues, nil
}

func (r *ReadTx) dueOf(ctx context.Context, agent, now uint64, limit int) (jobs []RecheckJob, err error) {
	err = r.each(ctx, func(s scanner) error {
		j, err := scanRecheck(s)
		jobs = append(jobs, j.RecheckJob)
		return err
	}, `SELECT r.chain_id, r.tx_hash, a.address, r.first_at, r.due_at, r.attempts, 1, r.agent_id
		FROM recheck r INDEXED BY recheck_open CROSS JOIN agent a ON a.id = r.agent_id
		WHERE r.agent_id = ? AND r.done_at IS NULL AND r.due_at <= ? ORDER BY r.due_at LIMIT ?`, agent, now, limit)
	return jobs, err
}

// PutRecheck opens the job of a transaction, due now; an open one stays as it is.
// It does nothing where the key has [MaxRechecks] open: the step stays as it was
// judged until it is disclosed again.
func (tx *Tx) PutRecheck(ctx context.Context, agent flight.Address, chainID uint64, txHash flight.Hash) error {
	n, err := tx.RecheckOpen(ctx, agent)
	if err != nil || n >= MaxRechecks {
		return err
	}
	id, err := tx.agentID(ctx, agent)
	if err != nil {
		return err
	}
	_, err = tx.exec(`INSERT INTO recheck (chain_id, tx_hash, agent_id, first_at, due_at, attempts) VALUES (?, ?, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET agent_id = excluded.agent_id, first_at = excluded.first_at, due_at = excluded.due_at, attempts = 0, done_at = NULL
		WHERE done_at IS NOT NULL`, chainID, txHash[:], id, tx.now, tx.now)
	return err
}

// HastenRecheck opens the job of a transaction anew, or an open one, due now and with
// all its time before it. A new or finished job counts for the key; the error is
// [ErrConflict] where that has [MaxRechecks] open.
func (tx *Tx) HastenRecheck(ctx context.Context, agent flight.Address, chainID uint64, txHash flight.Hash) error {
	j, err := tx.Recheck(ctx, chainID, txHash)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if j.Open {
		return tx.must(`UPDATE recheck SET first_at = ?, due_at = ?, attempts = 0 WHERE chain_id = ? AND tx_hash = ? AND done_at IS NULL`,
			tx.now, tx.now, chainID, txHash[:])
	}
	if n, err := tx.RecheckOpen(ctx, agent); err != nil {
		return err
	} else if n >= MaxRechecks {
		return ErrConflict
	}
	return tx.PutRecheck(ctx, agent, chainID, txHash)
}

// PutOffRecheck counts an attempt and sets when the next is due, in unix ms. The
// error is [ErrConflict] where the job is not open.
func (tx *Tx) PutOffRecheck(_ context.Context, chainID uint64, txHash flight.Hash, dueAt uint64) error {
	return tx.must(`UPDATE recheck SET attempts = attempts + 1, due_at = ? WHERE chain_id = ? AND tx_hash = ? AND done_at IS NULL`,
		dueAt, chainID, txHash[:])
}

// FinishRecheck closes a job; closing it again changes nothing.
func (tx *Tx) FinishRecheck(_ context.Context, chainID uint64, txHash flight.Hash) error {
	_, err := tx.exec(`UPDATE recheck SET attempts = attempts + 1, done_at = ? WHERE chain_id = ? AND tx_hash = ? AND done_at IS NULL`,
		tx.now, chainID, txHash[:])
	return err
}
