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
// milliseconds. Positions rise with time, so it looks at some twenty rows of a
// million. Where the clock was set back it may count those around that moment wrong.
func (r *ReadTx) BatchesSince(ctx context.Context, at uint64) (uint64, error) {
	c, err := r.Counts(ctx)
	if err != nil {
		return 0, err
	}
	low, high := uint64(1), c.Batches+1 // the first of them is in low..high
	for low < high {
		mid := low + (high-low)/2
		var received uint64
		err := r.one(ctx, []any{num(&received)}, `SELECT received_at FROM batch WHERE position = ?`, mid)
		if err != nil {
			return 0, orDamaged(err)
		}
		if received >= at {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return c.Batches + 1 - low, nil
}

// orDamaged is for a row that must be there.
func orDamaged(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrDamaged
	}
	return err
}
