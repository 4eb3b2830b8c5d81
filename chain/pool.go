package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"
)

const methodSend = "eth_sendRawTransaction"

// A pool spreads calls over nodes of one chain, in the order of the operator.
type pool struct {
	hosts   []*host
	chainID uint64        // 0 = whichever
	hedge   time.Duration // 0 = never

	mayHedge budget // of batches
}

func newPool(urls []string, o Options) (*pool, error) {
	if len(urls) == 0 {
		return nil, errors.New("chain: no node URL")
	}
	p := &pool{chainID: o.ChainID, hedge: o.HedgeAfter, mayHedge: budget{tenth: budgetMost}}
	for _, url := range urls {
		t, err := newHTTP(url, o)
		if err != nil {
			return nil, err
		}
		p.hosts = append(p.hosts, &host{t: t, timeout: o.Timeout, checked: o.ChainID == 0})
	}
	return p, nil
}

func (p *pool) Close() {
	for _, h := range p.hosts {
		h.t.Close()
	}
}

// checkChain asks every host for its chain. It fails if one serves another, or
// if none could be asked.
func (p *pool) checkChain(ctx context.Context) error {
	if p.chainID == 0 {
		return nil
	}
	errs := make([]error, len(p.hosts))
	var wg sync.WaitGroup
	for i, h := range p.hosts {
		wg.Go(func() { errs[i] = h.check(ctx, p.chainID) })
	}
	wg.Wait()
	for _, err := range errs {
		if errors.Is(err, ErrWrongChain) {
			return err
		}
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	return errs[0]
}

// order is the hosts in the operator's order, those at rest last, the first to
// wake before the others.
func (p *pool) order() []*host {
	if len(p.hosts) == 1 {
		return p.hosts
	}
	now := time.Now()
	rest := make(map[*host]time.Duration, len(p.hosts))
	for _, h := range p.hosts {
		h.mu.Lock()
		rest[h] = max(0, h.rest.Sub(now))
		h.mu.Unlock()
	}
	out := slices.Clone(p.hosts)
	slices.SortStableFunc(out, func(a, b *host) int { return cmp.Compare(rest[a], rest[b]) })
	return out
}

// passOn reports a failure that another node may not have.
func passOn(err error) bool {
	for _, class := range []error{ErrUnavailable, ErrTimeout, ErrRateLimited, ErrMalformed, ErrIndexing, ErrPruned, ErrWrongChain} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// telling is the failure to report of two: that history is pruned says what to
// do, otherwise the first one counts.
func telling(first, then error) error {
	if first == nil || errors.Is(then, ErrPruned) {
		return then
	}
	return first
}

type answer struct {
	raw json.RawMessage
	err error
}

// Call implements [Transport]: the first host's answer, or that of the next one
// if it fails or, for reads, is slow.
func (p *pool) Call(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	hosts := p.order()
	if len(hosts) == 1 {
		return hosts[0].call(ctx, p.chainID, method, params)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the slower ones
	answers := make(chan answer, len(hosts))
	asked, open := 0, 0
	ask := func() {
		h := hosts[asked]
		asked, open = asked+1, open+1
		go func() {
			raw, err := h.call(ctx, p.chainID, method, params)
			answers <- answer{raw, err}
		}()
	}
	ask()
	var failure error
	for open > 0 {
		hedge, stop := p.hedgeTimer(method, asked < len(hosts))
		select {
		case a := <-answers:
			open--
			if a.err == nil || !passOn(a.err) {
				stop()
				return a.raw, a.err
			}
			failure = telling(failure, a.err)
			if asked < len(hosts) {
				ask()
			}
		case <-hedge:
			ask()
		}
		stop()
	}
	return nil, failure
}

// Batch implements [Batcher]: each host gets the calls that the ones before it
// could not serve.
func (p *pool) Batch(ctx context.Context, calls []*BatchCall) {
	failures := map[*BatchCall]error{}
	hosts := p.order()
	for len(hosts) > 0 {
		h := hosts[0]
		hosts = hosts[1:]
		for _, call := range calls {
			call.Err = nil
		}
		hosts = p.hedged(ctx, h, hosts, calls)
		var left []*BatchCall
		for _, call := range calls {
			if call.unserved() {
				call.Err = telling(failures[call], call.Err)
				failures[call] = call.Err
				left = append(left, call)
			}
		}
		if calls = left; len(calls) == 0 || ctx.Err() != nil {
			return
		}
	}
}
