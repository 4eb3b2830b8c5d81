package chain

import (
	"context"
	"sync"
	"time"
)

// limits are what we owe a host: a bounded number of exchanges at a time, and of
// their starts in a second.
type limits struct {
	slots   chan struct{}
	spacing time.Duration // between two starts, 0 = none

	mu   sync.Mutex // guards next
	next time.Time  // the earliest start of the next exchange
}

func newLimits(o Options) *limits {
	l := &limits{slots: make(chan struct{}, o.InFlight)}
	if o.PerSecond > 0 {
		l.spacing = time.Second / time.Duration(o.PerSecond)
	}
	return l
}

// enter waits for a free slot and for the pace. Without an error, leave must
// follow.
func (l *limits) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := l.pace(ctx); err != nil {
		l.leave()
		return err
	}
	return nil
}

func (l *limits) leave() { <-l.slots }

func (l *limits) pace(ctx context.Context) error {
	if l.spacing == 0 {
		return nil
	}
	timer := time.NewTimer(l.wait())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait books the next start and says how far away it is.
func (l *limits) wait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	start := l.next
	if start.Before(now) {
		start = now
	}
	l.next = start.Add(l.spacing)
	return start.Sub(now)
}
