package store

import (
	"context"
	"encoding/json"
	"fmt"

	"karatum/flight"
)

// A HashRange is what a hash whose first digits are known lies in, ends inclusive. A
// whole hash is a range of one.
type HashRange struct{ Low, High flight.Hash }

// holds reports whether a hash is in the range, which its digits may go on beyond
// what an index keeps.
func (h HashRange) holds(x flight.Hash) bool {
	return string(x[:]) >= string(h.Low[:]) && string(x[:]) <= string(h.High[:])
}

// AgentsIn returns the keys whose address lies in a range, at most limit.
func (r *ReadTx) AgentsIn(ctx context.Context, low, high flight.Address, limit int) ([]Agent, error) {
	return list(ctx, r, scanAgent, selectAgent+` WHERE address BETWEEN ? AND ? ORDER BY address LIMIT ?`, low[:], high[:], limit)
}

// BatchesIn returns the batches whose id lies in a range, at most limit.
func (r *ReadTx) BatchesIn(ctx context.Context, h HashRange, limit int) ([]Batch, error) {
	// All keys of a range have the same sign: it is that of a digit that is known.
	return list(ctx, r, scanBatch, selectBatch+` WHERE b.id_key BETWEEN ? AND ? AND b.id BETWEEN ? AND ? ORDER BY b.id_key LIMIT ?`,
		idKey(h.Low), idKey(h.High), h.Low[:], h.High[:], limit)
}

// StepsIn returns the opened steps whose hash lies in a range, at most limit. What is
// kept open of them is not read, here and below.
func (r *ReadTx) StepsIn(ctx context.Context, h HashRange, limit int) ([]Step, error) {
	return list(ctx, r, scanStep, selectStep+` WHERE t.hash BETWEEN ? AND ? ORDER BY t.hash LIMIT ?`, h.Low[:], h.High[:], limit)
}

// StepsOfTxIn returns the opened steps that name a transaction in a range, of
// whatever chain, at most limit.
func (r *ReadTx) StepsOfTxIn(ctx context.Context, h HashRange, limit int) ([]Step, error) {
	return list(ctx, r, scanStep, selectStep+` WHERE t.tx_hash BETWEEN ? AND ? ORDER BY t.tx_hash, t.chain_id, t.id LIMIT ?`, h.Low[:], h.High[:], limit)
}

// StepsOfCommitment returns the opened steps that hold a commitment in a range, with
// the commitment, at most limit of each.
func (r *ReadTx) StepsOfCommitment(ctx context.Context, h HashRange, limit int) (steps []Step, commitments []flight.Hash, err error) {
	rows, err := list(ctx, r, scanStep, selectStep+` WHERE t.id IN (SELECT step_id FROM commitment WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?)`,
		h.Low[:8], h.High[:8], limit)
	if err != nil {
		return nil, nil, err
	}
	for i := range rows {
		found, err := commitmentsOf(rows[i].Record)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range found {
			if h.holds(c) {
				steps, commitments = append(steps, rows[i]), append(commitments, c)
				break
			}
		}
	}
	return steps, commitments, nil
}

// EpochsIn returns the epochs whose root lies in a range, at most limit.
func (r *ReadTx) EpochsIn(ctx context.Context, h HashRange, limit int) ([]Epoch, error) {
	return list(ctx, r, scanEpoch, selectEpoch+` WHERE root BETWEEN ? AND ? ORDER BY root LIMIT ?`, h.Low[:], h.High[:], limit)
}

// EpochTxsIn returns the anchoring transactions whose hash lies in a range, at most
// limit.
func (r *ReadTx) EpochTxsIn(ctx context.Context, h HashRange, limit int) ([]EpochTx, error) {
	return list(ctx, r, scanEpochTx, selectEpochTx+` WHERE hash BETWEEN ? AND ? ORDER BY hash LIMIT ?`, h.Low[:], h.High[:], limit)
}

// commitmentsOf reads the commitments of a step's record.
func commitmentsOf(record []byte) (out []flight.Hash, err error) {
	var s struct{ Prompt, Args, Result, Claim *flight.Hash }
	if err := json.Unmarshal(record, &s); err != nil {
		return nil, fmt.Errorf("%w: the record of a step: %w", ErrDamaged, err)
	}
	for _, h := range []*flight.Hash{s.Prompt, s.Args, s.Result, s.Claim} {
		if h != nil {
			out = append(out, *h)
		}
	}
	return out, nil
}

// addCommitments makes a new step findable by its commitments.
func (tx *Tx) addCommitments(step uint64, record []byte) error {
	found, err := commitmentsOf(record)
	if err != nil {
		return err
	}
	for _, c := range found {
		if _, err := tx.exec(`INSERT OR IGNORE INTO commitment (key, step_id) VALUES (?, ?)`, c[:8], step); err != nil {
			return err
		}
	}
	return nil
}

// VerdictCounts are numbers of opened steps by the state of their claim.
type VerdictCounts struct{ Confirmed, Contradicted, Unverifiable uint64 }

// VerdictsBetween counts the steps whose claim was looked at last in a span of time,
// unix milliseconds with both ends, by what that found.
func (r *ReadTx) VerdictsBetween(ctx context.Context, from, to uint64) (v VerdictCounts, err error) {
	err = r.one(ctx, []any{num(&v.Confirmed), num(&v.Contradicted), num(&v.Unverifiable)},
		`SELECT sum(state = 'confirmed'), sum(state = 'contradicted'), sum(state = 'unverifiable') FROM step INDEXED BY step_by_check WHERE claim_kind <> '' AND checked_at BETWEEN ? AND ?`, from, to)
	return v, err
}
