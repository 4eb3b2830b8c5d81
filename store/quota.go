package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"karatum/flight"
)

// Batches are counted in buckets of ten minutes, so that the window of 24 hours
// slides by ten minutes and an agent's row holds at most 145 numbers.
const (
	bucketMs   = 10 * 60 * 1000
	quotaSpan  = 24 * 60 * 60 * 1000
	maxBuckets = quotaSpan/bucketMs + 1
)

// A quota is what an agent has spent, oldest bucket first. A bucket counts until
// its end is 24 hours past.
type quota []bucket

type bucket struct{ slot, n uint64 } // slot: unix ms / bucketMs

func (b bucket) expires() uint64 { return (b.slot+1)*bucketMs + quotaSpan }

// last returns the bucket that spend may change in place.
func (q quota) last() bucket {
	if len(q) == 0 {
		return bucket{}
	}
	return q[len(q)-1]
}

// spend counts one batch at now, or returns when the next one is allowed.
func (q quota) spend(now uint64, limit int) (after quota, retryAt uint64, ok bool) {
	for len(q) > 0 && q[0].expires() <= now {
		q = q[1:]
	}
	total := uint64(0)
	for _, b := range q {
		total += b.n
	}
	if total >= uint64(max(limit, 0)) {
		return q, q.retryAt(now, total, uint64(max(limit, 0))), false
	}
	slot := now / bucketMs
	if n := len(q); n > 0 && q[n-1].slot >= slot { // the clock may have gone back
		q[n-1].n++
		return q, 0, true
	}
	return append(q, bucket{slot, 1}), 0, true
}

// retryAt returns when enough buckets have expired. A limit of 0 never allows
// anything; it is answered with the end of the window.
func (q quota) retryAt(now, total, limit uint64) uint64 {
	for _, b := range q {
		total -= b.n
		if total < limit {
			return b.expires()
		}
	}
	return now + quotaSpan
}

// bytes is the stored form: the first slot, then for each bucket the distance
// from the one before and the count, all unsigned varints.
func (q quota) bytes() []byte {
	b := make([]byte, 0, 8+3*len(q))
	last := uint64(0)
	for _, k := range q {
		b = binary.AppendUvarint(b, k.slot-last)
		b = binary.AppendUvarint(b, k.n)
		last = k.slot
	}
	return b
}

func parseQuota(b []byte) (quota, error) {
	var q quota
	slot := uint64(0)
	for len(b) > 0 {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%w: a quota is malformed", ErrDamaged)
		}
		count, m := binary.Uvarint(b[n:])
		if m <= 0 || len(q) > maxBuckets {
			return nil, fmt.Errorf("%w: a quota is malformed", ErrDamaged)
		}
		slot += d
		q, b = append(q, bucket{slot, count}), b[n+m:]
	}
	return slices.Clip(q), nil
}

// SpendQuota counts one batch of the agent at now (unix ms) against limit batches
// in 24 hours, in steps of ten minutes, and reports whether it is within it. If
// not, nothing is counted and retryAt is when it will be, in unix ms.
func (tx *Tx) SpendQuota(ctx context.Context, agent flight.Address, now uint64, limit int) (retryAt uint64, ok bool, err error) {
	a, err := tx.touchAgent(ctx, agent)
	if err != nil {
		return 0, false, err
	}
	a.quota, retryAt, ok = a.quota.spend(now, limit)
	return retryAt, ok, nil
}
