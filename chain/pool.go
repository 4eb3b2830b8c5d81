package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// A host is one node and what is known of its state.
type host struct {
	t       *httpTransport
	timeout time.Duration // of one exchange

	mu      sync.Mutex // guards what follows
	rest    time.Time  // until then other hosts are preferred
	fails   int        // in a row
	checked bool       // it serves the chain that it should
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

// check asks a host for its chain.
func (h *host) check(ctx context.Context, want uint64) error {
	const method = "eth_chainId"
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	raw, err := h.t.Call(limited, method)
	if err != nil {
		return err
	}
	id, err := decodeUint64(raw)
	if err != nil {
		return malformed(method, "%s", quote(err.Error()))
	}
	if id != want {
		return fmt.Errorf("%w: %d, want %d", ErrWrongChain, id, want)
	}
	h.mu.Lock()
	h.checked = true
	h.mu.Unlock()
	return nil
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

// hedgeTimer fires when the next host should be asked as well; a transaction is
// sent to one host at a time.
func (p *pool) hedgeTimer(method string, more bool) (<-chan time.Time, func()) {
	if p.hedge <= 0 || !more || method == methodSend {
		return nil, func() {}
	}
	t := time.NewTimer(p.hedge)
	return t.C, func() { t.Stop() }
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

// idle reports a host that is not at rest and has room for another exchange: one
// that struggles gets nothing that it need not do.
func (h *host) idle() bool {
	h.mu.Lock()
	rests := time.Now().Before(h.rest)
	h.mu.Unlock()
	return !rests && len(h.t.limits.slots) < cap(h.t.limits.slots)
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

func (h *host) call(ctx context.Context, chainID uint64, method string, params []any) (json.RawMessage, error) {
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	if err := h.ready(limited, chainID, method); err != nil {
		return nil, err
	}
	raw, err := h.t.Call(limited, method, params...)
	h.note(ctx, err)
	return raw, err
}

func (h *host) batch(ctx context.Context, chainID uint64, calls []*BatchCall) {
	if err := h.ready(ctx, chainID, "batch"); err != nil {
		for _, call := range calls {
			call.Err = err
		}
		return
	}
	h.t.Batch(ctx, calls)
	var worst error
	for _, call := range calls {
		if call.Err != nil && passOn(call.Err) {
			worst = call.Err
		}
	}
	h.note(ctx, worst)
}

// ready checks the host's chain before its first use and before every send.
func (h *host) ready(ctx context.Context, chainID uint64, method string) error {
	h.mu.Lock()
	checked := h.checked
	h.mu.Unlock()
	if chainID == 0 || checked && method != methodSend {
		return nil
	}
	err := h.check(ctx, chainID)
	if err != nil {
		h.note(ctx, err)
	}
	return err
}

// The rest of a host after failures in a row: the first is short, since most
// failures are; each further one doubles it.
const (
	restFirst = time.Second
	restMost  = 5 * time.Minute
)

// note lets a failing host rest: as long as it asks for, or longer with each
// failure in a row. A call that was cancelled from outside says nothing of it.
func (h *host) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || !passOn(err) || errors.Is(err, ErrPruned) {
		h.fails, h.rest = 0, time.Time{}
		return
	}
	pause := min(restFirst<<min(h.fails, 20), restMost)
	var call *CallError
	if errors.As(err, &call) && call.RetryAfter > 0 {
		pause = call.RetryAfter
	}
	h.fails++
	h.rest = time.Now().Add(pause)
}
