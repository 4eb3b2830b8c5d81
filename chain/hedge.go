package chain

import (
	"context"
	"slices"
	"sync"
	"time"
)

// hedgeTimer fires when the next host should be asked as well; a transaction is
// sent to one host at a time.
func (p *pool) hedgeTimer(method string, more bool) (<-chan time.Time, func()) {
	if p.hedge <= 0 || !more || method == methodSend {
		return nil, func() {}
	}
	t := time.NewTimer(p.hedge)
	return t.C, func() { t.Stop() }
}

// hedged has one host make the calls, and another one too if that is slow. It
// returns the hosts that were not asked.
func (p *pool) hedged(ctx context.Context, h *host, others []*host, calls []*BatchCall) []*host {
	p.mayHedge.earn()
	if p.hedge <= 0 || len(others) == 0 || slices.ContainsFunc(calls, func(c *BatchCall) bool { return c.Method == methodSend }) {
		h.batch(ctx, p.chainID, calls)
		return others
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the slower one
	done := make(chan []BatchCall, 2)
	open := 0
	ask := func(h *host) {
		open++
		own, at := copies(calls)
		go func() {
			h.batch(ctx, p.chainID, at)
			done <- own
		}()
	}
	ask(h)
	timer := time.NewTimer(p.hedge)
	defer timer.Stop()
	for {
		select {
		case got := <-done:
			open--
			merge(calls, got)
			if open == 0 || !slices.ContainsFunc(calls, (*BatchCall).unserved) {
				return others
			}
		case <-timer.C:
			if i := slices.IndexFunc(others, (*host).idle); i >= 0 && p.mayHedge.spend() {
				ask(others[i])
				others = slices.Delete(slices.Clone(others), i, i+1)
			}
		}
	}
}

// unserved reports a call that has no outcome yet, or a failure that another node
// may not have.
func (c *BatchCall) unserved() bool {
	return c.Result == nil && c.Err == nil || c.Err != nil && passOn(c.Err)
}

// merge takes over what a host made of the calls, except where another one has
// served them.
func merge(calls []*BatchCall, got []BatchCall) {
	for i, c := range calls {
		switch {
		case !c.unserved():
		case got[i].unserved():
			c.Err = telling(c.Err, got[i].Err)
		default:
			*c = got[i]
		}
	}
}

// copies are calls that somebody else may answer, and where they are.
func copies(calls []*BatchCall) (own []BatchCall, at []*BatchCall) {
	own = make([]BatchCall, len(calls))
	for i, c := range calls {
		own[i] = *c
		at = append(at, &own[i])
	}
	return own, at
}

// A budget permits one hedged batch for ten batches made, and ten at the start or
// after quiet times: if all nodes are slow at once, asking twice would make it
// worse.
type budget struct {
	mu    sync.Mutex // guards tenth
	tenth int        // a hedge costs ten
}

const budgetMost = 100

func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenth = min(b.tenth+1, budgetMost)
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenth < 10 {
		return false
	}
	b.tenth -= 10
	return true
}
