package store

import (
	"context"
	"fmt"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A Mark is a point in the history of the node: what was stored up to it keeps its
// place, so that a long read can be done in parts, each on a snapshot of its own.
type Mark struct{ Position, Step, Evidence uint64 }

// Mark returns the present point.
func (r *ReadTx) Mark(ctx context.Context) (m Mark, err error) {
	c, err := r.Counts(ctx)
	return Mark{c.Batches, c.Steps, c.Evidence}, err
}

// StreamAfter returns the name of the stream of a key that follows a name in the
// order of their bytes, or [ErrNotFound] after the last. No stream has an empty
// name.
func (r *ReadTx) StreamAfter(ctx context.Context, agent flight.Address, name string) (next string, err error) {
	err = r.one(ctx, []any{&next}, `SELECT name FROM stream WHERE agent_id = (SELECT id FROM agent WHERE address = ?) AND name > ?
		ORDER BY name LIMIT 1`, agent[:], name)
	return next, err
}

// StreamFrom returns the batches of a stream from an index on that were stored up
// to the mark, the lowest index first, at most limit.
func (r *ReadTx) StreamFrom(ctx context.Context, agent flight.Address, stream string, index uint64, m Mark, limit int) ([]Batch, error) {
	id, err := r.streamID(ctx, agent, stream)
	if err != nil {
		return nil, err
	}
	return list(ctx, r, scanBatch, selectBatch+` WHERE b.stream_id = ? AND b.idx >= ? AND b.position <= ? ORDER BY b.idx LIMIT ?`,
		id, index, m.Position, limit)
}

// StepsAfter returns the steps of a key that were opened after the one with the
// number after and up to the mark, the first opened first, at most limit, and the
// number of the last of them.
func (r *ReadTx) StepsAfter(ctx context.Context, agent flight.Address, after uint64, m Mark, limit int) ([]Step, uint64, error) {
	rows, err := r.steps(ctx, ` WHERE t.agent_id = (SELECT id FROM agent WHERE address = ?) AND t.id > ? AND t.id <= ? ORDER BY t.id LIMIT ?`,
		agent[:], after, m.Step, limit)
	if len(rows) > 0 {
		after = rows[len(rows)-1].id
	}
	return rows, after, err
}

// EvidenceAfter returns the evidence against a key after a number and up to the
// mark, the oldest first, at most limit.
func (r *ReadTx) EvidenceAfter(ctx context.Context, agent flight.Address, after uint64, m Mark, limit int) ([]Evidence, error) {
	return list(ctx, r, scanEvidence, selectEvidence+` WHERE e.agent_id = (SELECT id FROM agent WHERE address = ?) AND e.id > ? AND e.id <= ?
		ORDER BY e.id LIMIT ?`, agent[:], after, m.Evidence, limit)
}

// ReceiptGroup returns the receipts that share a signature with that of the batch
// at a position, in storage order and complete, or [ErrNotFound].
func (r *ReadTx) ReceiptGroup(ctx context.Context, position uint64) ([]flight.Receipt, error) {
	g, err := first(ctx, r, scanReceiptGroup, selectReceiptGroup+` WHERE first_position <= ? ORDER BY first_position DESC LIMIT 1`, position)
	if err != nil {
		return nil, err
	}
	rs, err := r.receiptsOf(ctx, g)
	if err != nil || position-g.first >= uint64(len(rs)) {
		return nil, orNotFound(err)
	}
	if !g.grouped {
		return rs, nil
	}
	items := make([]flight.Hash, len(rs))
	for i := range rs {
		items[i] = rs[i].Item()
	}
	root, proofs, err := merkle.Proofs(items)
	if err != nil {
		return nil, err
	}
	if root != g.root {
		return nil, fmt.Errorf("%w: the receipt group at %d has another root", ErrDamaged, g.first)
	}
	for i := range rs {
		rs[i].Group = &flight.ReceiptGroup{Root: g.root, Size: g.size, Proof: proofs[i]}
	}
	return rs, nil
}

func orNotFound(err error) error {
	if err == nil {
		return ErrNotFound
	}
	return err
}
