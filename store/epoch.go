package store

import (
	"context"
	"fmt"

	"karatum/flight"
)

// An EpochState says how far an anchor has come (spec section 7).
type EpochState string

// The states of spec section 7. All but final are open: somebody looks at them
// again.
const (
	EpochPending  EpochState = "pending"
	EpochIncluded EpochState = "included"
	EpochSafe     EpochState = "safe"
	EpochFinal    EpochState = "final"
	EpochOrphaned EpochState = "orphaned"
	EpochFailed   EpochState = "failed"
)

// An Epoch is a run of batches under one attested root. What is known of its
// block is nil or zero until its transaction is in one.
type Epoch struct {
	ID          uint64
	Root        flight.Hash
	First, Last uint64 // positions, inclusive
	CreatedAt   uint64 // unix ms
	ChainID     uint64
	State       EpochState
	StateAt     uint64 // unix ms

	TxHash         *flight.Hash
	BlockNumber    *uint64
	BlockHash      *flight.Hash
	BlockTime      uint64 // unix seconds
	EAS            flight.Address
	SchemaUID      flight.Hash
	AttestationUID *flight.Hash
	Attester       flight.Address
}

// Count returns the number of batches.
func (e *Epoch) Count() uint64 { return e.Last - e.First + 1 }

// An EpochAnchor is where an epoch's attestation stands on the chain.
type EpochAnchor struct {
	TxHash         flight.Hash
	BlockNumber    uint64
	BlockHash      flight.Hash
	BlockTime      uint64 // unix seconds
	EAS            flight.Address
	SchemaUID      flight.Hash
	AttestationUID flight.Hash
	Attester       flight.Address
	GasUsed        uint64
}

// An EpochEvent is one state that an epoch was in.
type EpochEvent struct {
	State EpochState
	At    uint64 // unix ms
	Note  string // why, where there is something to say
}

const selectEpoch = `SELECT id, root, first_position, last_position, created_at, chain_id, state, state_at,
	tx_hash, block_number, block_hash, block_time, eas, schema_uid, attestation_uid, attester FROM epoch`

func scanEpoch(s scanner) (e Epoch, err error) {
	var at EpochAnchor
	var anchored bool
	err = s.Scan(num(&e.ID), bytesTo(e.Root[:]), num(&e.First), num(&e.Last), num(&e.CreatedAt), num(&e.ChainID), &e.State, num(&e.StateAt),
		present{bytesTo(at.TxHash[:]), &anchored}, num(&at.BlockNumber), bytesTo(at.BlockHash[:]), num(&e.BlockTime), bytesTo(e.EAS[:]),
		bytesTo(e.SchemaUID[:]), bytesTo(at.AttestationUID[:]), bytesTo(e.Attester[:]))
	if anchored {
		e.TxHash, e.BlockNumber, e.BlockHash, e.AttestationUID = &at.TxHash, &at.BlockNumber, &at.BlockHash, &at.AttestationUID
	}
	return e, err
}

// Pending returns the batches that have no epoch, in storage order, at most limit.
func (r *ReadTx) Pending(ctx context.Context, limit int) ([]Batch, error) {
	return list(ctx, r, scanBatch,
		selectBatch+` WHERE b.position > coalesce((SELECT max(last_position) FROM epoch), 0) ORDER BY b.position LIMIT ?`, limit)
}

// PendingOf counts the batches of a key that are in no epoch, among the first limit
// of all that are in none.
func (r *ReadTx) PendingOf(ctx context.Context, agent flight.Address, limit int) (n uint64, err error) {
	err = r.one(ctx, []any{num(&n)}, `WITH last(position) AS (SELECT coalesce(max(last_position), 0) FROM epoch)
		SELECT count(*) FROM last CROSS JOIN batch b ON b.position > last.position AND b.position <= last.position + ?
		CROSS JOIN stream s ON s.id = b.stream_id WHERE s.agent_id = (SELECT id FROM agent WHERE address = ?)`, limit, agent[:])
	return n, err
}

// Epoch returns an epoch by its number, or [ErrNotFound].
func (r *ReadTx) Epoch(ctx context.Context, id uint64) (Epoch, error) {
	return first(ctx, r, scanEpoch, selectEpoch+` WHERE id = ?`, id)
}

// EpochByRoot returns an epoch by its root, or [ErrNotFound].
func (r *ReadTx) EpochByRoot(ctx context.Context, root flight.Hash) (Epoch, error) {
	return first(ctx, r, scanEpoch, selectEpoch+` WHERE root = ?`, root[:])
}

// EpochOf returns the epoch of the batch at a position, or [ErrNotFound].
func (r *ReadTx) EpochOf(ctx context.Context, position uint64) (Epoch, error) {
	e, err := first(ctx, r, scanEpoch, selectEpoch+` WHERE last_position >= ? ORDER BY last_position LIMIT 1`, position)
	if err == nil && position < e.First {
		return Epoch{}, ErrNotFound
	}
	return e, err
}

// Epochs lists the epochs, the newest first.
func (r *ReadTx) Epochs(ctx context.Context, p Page) ([]Epoch, string, error) {
	below, err := p.below()
	if err != nil {
		return nil, "", err
	}
	rows, err := list(ctx, r, scanEpoch, selectEpoch+` WHERE id < ? ORDER BY id DESC LIMIT ?`, below, p.limit()+1)
	rows, next := page(rows, p.limit(), func(e Epoch) string { return cursor(e.ID) })
	return rows, next, err
}

// OpenEpochs returns the epochs that are not final, the oldest first.
func (r *ReadTx) OpenEpochs(ctx context.Context) ([]Epoch, error) {
	return list(ctx, r, scanEpoch, selectEpoch+` INDEXED BY epoch_open WHERE state <> 'final' ORDER BY id`)
}

// EpochMembers returns the batchIds of an epoch in storage order, the items of
// its tree. The error is [ErrNotFound] where there is no such epoch.
func (r *ReadTx) EpochMembers(ctx context.Context, id uint64) ([]flight.Hash, error) {
	e, err := r.Epoch(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.batchIDs(ctx, e.First, e.Last)
}

// batchIDs returns the ids of a run of positions.
func (r *ReadTx) batchIDs(ctx context.Context, first, last uint64) ([]flight.Hash, error) {
	return list(ctx, r, func(s scanner) (h flight.Hash, err error) {
		err = s.Scan(bytesTo(h[:]))
		return h, err
	}, `SELECT id FROM batch WHERE position BETWEEN ? AND ? ORDER BY position`, first, last)
}

// EpochEvents returns the states that an epoch was in, the oldest first.
func (r *ReadTx) EpochEvents(ctx context.Context, id uint64) ([]EpochEvent, error) {
	return list(ctx, r, func(s scanner) (e EpochEvent, err error) {
		err = s.Scan(&e.State, num(&e.At), &e.Note)
		return e, err
	}, `SELECT state, at, note FROM epoch_event WHERE epoch_id = ? ORDER BY id`, id)
}

// InsertEpoch makes the next epoch, pending, out of the positions first to last.
// The error is [ErrConflict] unless they begin where the last epoch ends, are all
// stored, are at most flight.MaxEpoch, and have the root.
func (tx *Tx) InsertEpoch(ctx context.Context, root flight.Hash, first, last, chainID uint64) (*Epoch, error) {
	c, err := tx.Counts(ctx)
	if err != nil {
		return nil, err
	}
	if first != c.Anchored+1 || last < first || last > c.Batches || last-first >= flight.MaxEpoch {
		return nil, fmt.Errorf("%w: an epoch of %d to %d after %d of %d batches", ErrConflict, first, last, c.Anchored, c.Batches)
	}
	ids, err := tx.batchIDs(ctx, first, last)
	if err != nil {
		return nil, err
	}
	if got, err := flight.EpochRoot(ids); err != nil || got != root {
		return nil, fmt.Errorf("%w: the root is not that of batches %d to %d", ErrConflict, first, last)
	}
	e := &Epoch{Root: root, First: first, Last: last, CreatedAt: tx.now, ChainID: chainID, State: EpochPending, StateAt: tx.now}
	e.ID, err = tx.insert(`INSERT INTO epoch (root, first_position, last_position, created_at, chain_id, state, state_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, root[:], first, last, tx.now, chainID, string(EpochPending), tx.now)
	if err != nil {
		return nil, err
	}
	return e, tx.addEvent(e.ID, EpochPending, "")
}

func (tx *Tx) addEvent(epoch uint64, state EpochState, note string) error {
	_, err := tx.exec(`INSERT INTO epoch_event (epoch_id, state, at, note) VALUES (?, ?, ?, ?)`, epoch, string(state), tx.now, note)
	return err
}

// SetEpochState moves an epoch from one state to another, with a note for its
// history. What was known of its block stays. The error is [ErrConflict] where
// it is not in the state from.
func (tx *Tx) SetEpochState(_ context.Context, id uint64, from, to EpochState, note string) error {
	err := tx.must(`UPDATE epoch SET state = ?, state_at = ? WHERE id = ? AND state = ?`, string(to), tx.now, id, string(from))
	if err != nil {
		return fmt.Errorf("epoch %d from %s to %s: %w", id, from, to, err)
	}
	return tx.addEvent(id, to, note)
}

// SettleEpoch is SetEpochState with the place on the chain, and what the
// transaction cost. The state may stay the same where the block has changed.
func (tx *Tx) SettleEpoch(_ context.Context, id uint64, from, to EpochState, at EpochAnchor) error {
	err := tx.must(`UPDATE epoch SET state = ?, state_at = ?, tx_hash = ?, block_number = ?, block_hash = ?, block_time = ?,
		eas = ?, schema_uid = ?, attestation_uid = ?, attester = ? WHERE id = ? AND state = ?`,
		string(to), tx.now, at.TxHash[:], at.BlockNumber, at.BlockHash[:], at.BlockTime,
		at.EAS[:], at.SchemaUID[:], at.AttestationUID[:], at.Attester[:], id, string(from))
	if err != nil {
		return fmt.Errorf("epoch %d from %s to %s: %w", id, from, to, err)
	}
	if _, err := tx.exec(`UPDATE epoch_tx SET gas_used = ? WHERE hash = ?`, at.GasUsed, at.TxHash[:]); err != nil {
		return err
	}
	return tx.addEvent(id, to, "")
}
