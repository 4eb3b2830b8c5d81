package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A host is one node and what is known of its state.
type host struct {
	t       *httpTransport
	timeout time.Duration // of one exchange

	mu      sync.Mutex // guards what follows
	rest    time.Time  // until then other hosts are preferred
	fails   int        // in a row
	checked bool       // it serves the chain that it should
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

// idle reports a host that is not at rest and has room for another exchange: one
// that struggles gets nothing that it need not do.
func (h *host) idle() bool {
	h.mu.Lock()
	rests := time.Now().Before(h.rest)
	h.mu.Unlock()
	return !rests && len(h.t.limits.slots) < cap(h.t.limits.slots)
}
