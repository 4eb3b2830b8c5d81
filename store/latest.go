package store

import (
	"context"
	"errors"
)

// LatestSteps returns the steps of all keys that were opened last, the newest first,
// at most limit. What is kept open of them is not read.
func (r *ReadTx) LatestSteps(ctx context.Context, limit int) ([]Step, error) {
	return list(ctx, r, scanStep, selectStep+` WHERE t.id < ? ORDER BY t.id DESC LIMIT ?`, int64(1<<62), limit)
}

// BatchesSince counts the batches that were stored at a time or later, in unix
// milliseconds.
func (r *ReadTx) BatchesSince(ctx context.Context, at uint64) (uint64, error) {
	c, err := r.Counts(ctx)
	if err != nil {
		return 0, err
	}
	first, err := r.FirstBatchSince(ctx, at, c.Batches+1)
	return c.Batches + 1 - first, err
}

// FirstBatchSince returns the position of the first batch below a position that was
// stored at a time, in unix milliseconds, or later, and below itself where there is
// none. Positions rise with time, so it looks at some forty rows of a million, and at
// fewer the closer they are. Where the clock was set back it may be wrong about those
// around that moment.
func (r *ReadTx) FirstBatchSince(ctx context.Context, at, below uint64) (uint64, error) {
	earlier := func(position uint64) (bool, error) {
		var received uint64
		err := r.one(ctx, []any{num(&received)}, `SELECT received_at FROM batch WHERE position = ?`, position)
		return received < at, orDamaged(err)
	}
	low, high := uint64(1), below // it is in low..high
	for step := uint64(1); high > low; step *= 2 {
		probe := high - min(step, high-low)
		before, err := earlier(probe)
		if err != nil {
			return 0, err
		}
		if before {
			low = probe + 1
			break
		}
		high = probe
	}
	for low < high {
		mid := low + (high-low)/2
		before, err := earlier(mid)
		if err != nil {
			return 0, err
		}
		if before {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

// orDamaged is for a row that must be there.
func orDamaged(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrDamaged
	}
	return err
}
