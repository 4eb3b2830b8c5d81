package store

import (
	"context"
	"errors"

	"karatum/flight"
)

// A StepMark is what a drawing of a stream needs of an opened step.
type StepMark struct {
	Seq       uint64
	State     string // of the verdict
	ClaimKind string // empty where no claim was opened
}

// StepMarks returns the opened steps of a stream from one number to another, both
// ends inclusive, in order: the first of them, up to limit. An unknown stream has none.
func (r *ReadTx) StepMarks(ctx context.Context, agent flight.Address, stream string, from, to uint64, limit int) ([]StepMark, error) {
	id, err := r.streamID(ctx, agent, stream)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list(ctx, r, func(s scanner) (m StepMark, err error) {
		err = s.Scan(num(&m.Seq), &m.State, &m.ClaimKind)
		return m, err
	}, `SELECT seq, state, claim_kind FROM step WHERE stream_id = ? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?`, id, from, to, limit)
}

// CountSteps counts the opened steps of a stream from one number to another, both ends
// inclusive. An unknown stream has none.
func (r *ReadTx) CountSteps(ctx context.Context, agent flight.Address, stream string, from, to uint64) (n uint64, err error) {
	id, err := r.streamID(ctx, agent, stream)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	err = r.one(ctx, []any{num(&n)}, `SELECT count(*) FROM step WHERE stream_id = ? AND seq BETWEEN ? AND ?`, id, from, to)
	return n, err
}
