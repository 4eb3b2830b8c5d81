package store

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// viewLife is the longest that one snapshot is kept.
const viewLife = 5 * time.Second

var (
	errViewOld   = fmt.Errorf("%w: the read took too long", ErrBusy)
	errViewEnded = fmt.Errorf("%w: the read was ended to keep the write-ahead log bounded", ErrBusy)
)

// views are the snapshots being read. A snapshot keeps the write-ahead log from
// being reset, so the writer can shut the gate and end them.
type views struct {
	life time.Duration // of each

	mu   sync.Mutex // guards all below
	open map[*view]struct{}
	gate chan struct{} // nil while open, else closed when it opens again
	left chan struct{} // closed and replaced whenever a view leaves
}

type view struct {
	since  time.Time
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
}

func (vs *views) init() {
	vs.life = viewLife
	vs.open = map[*view]struct{}{}
	vs.left = make(chan struct{})
}

// enter waits until the gate is open and registers a view.
func (vs *views) enter(ctx context.Context, closing <-chan struct{}) (context.Context, *view, error) {
	for {
		vs.mu.Lock()
		gate := vs.gate
		if gate == nil {
			return vs.register(ctx, closing)
		}
		vs.mu.Unlock()
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-closing:
			return nil, nil, ErrClosed
		}
	}
}

// register adds a view and unlocks.
func (vs *views) register(ctx context.Context, closing <-chan struct{}) (context.Context, *view, error) {
	defer vs.mu.Unlock()
	select {
	case <-closing:
		return nil, nil, ErrClosed
	default:
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeoutCause(ctx, vs.life, errViewOld)
	v := &view{since: time.Now(), cancel: cancel, stop: stop}
	vs.open[v] = struct{}{}
	return ctx, v, nil
}

func (vs *views) leave(v *view) {
	v.stop()
	v.cancel(nil)
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.open, v)
	close(vs.left)
	vs.left = make(chan struct{})
}

// shut keeps new views out until the function it returns is called.
func (vs *views) shut() (reopen func()) {
	gate := make(chan struct{})
	vs.mu.Lock()
	vs.gate = gate
	vs.mu.Unlock()
	return func() {
		vs.mu.Lock()
		vs.gate = nil
		vs.mu.Unlock()
		close(gate)
	}
}

// drain waits until no view is open, for at most wait, and ends those that are
// older than age. A function that ignores its context stays registered, though
// its snapshot is gone: drain does not wait for that. It returns how many views
// it ended.
func (vs *views) drain(age, wait time.Duration) (ended int) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	dead := map[*view]bool{}
	for {
		vs.mu.Lock()
		alive, left := 0, vs.left
		for v := range vs.open {
			if !dead[v] && time.Since(v.since) >= age {
				v.cancel(errViewEnded)
				dead[v] = true
				ended++
			}
			if !dead[v] {
				alive++
			}
		}
		vs.mu.Unlock()
		if alive == 0 {
			return ended
		}
		select {
		case <-left:
		case <-tick.C:
		case <-timeout.C:
			return ended
		}
	}
}

func (vs *views) cancelAll() {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	for v := range vs.open {
		v.cancel(ErrClosed)
	}
}
