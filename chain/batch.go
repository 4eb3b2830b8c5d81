package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// A BatchCall is one call of a batch. After [Client.Batch] it has either a
// Result that is not null or an Err of this package's classes.
type BatchCall struct {
	Method string
	Params []any
	Result json.RawMessage
	Err    error
}

// A Batcher is a [Transport] that carries several calls in one exchange. It sets
// Result, "null" included, or Err of every call.
type Batcher interface {
	Batch(ctx context.Context, calls []*BatchCall)
}

// Batch makes all the calls, in as few exchanges as the node permits: it starts
// with [Options.BatchSize] calls in one and remembers what the node refused. One
// call's failure leaves the others alone.
func (c *Client) Batch(ctx context.Context, calls []BatchCall) {
	todo := make([]*BatchCall, len(calls))
	for i := range calls {
		todo[i] = &calls[i]
		todo[i].Result, todo[i].Err = nil, nil
	}
	if b, ok := c.t.(Batcher); ok {
		b.Batch(ctx, todo)
	} else {
		singly(ctx, c, todo)
	}
	for _, call := range todo {
		switch {
		case call.Err != nil && errors.Is(ctx.Err(), context.Canceled):
			call.Err = fmt.Errorf("chain: %s: %w", call.Method, context.Cause(ctx))
		case call.Err == nil && string(call.Result) == "null":
			call.Result, call.Err = nil, &CallError{Method: call.Method, Kind: ErrNotFound}
		}
	}
}

// sideBySide is how many exchanges of one batch run at a time.
const sideBySide = 4

// each calls f for every item, sideBySide of them at a time.
func each[T any](items []T, f func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, sideBySide)
	for _, item := range items {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(item)
		})
	}
	wg.Wait()
}

// singly makes the calls one by one, for transports without batches.
func singly(ctx context.Context, c *Client, calls []*BatchCall) {
	each(calls, func(call *BatchCall) {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		call.Result, call.Err = c.t.Call(limited, call.Method, call.Params...)
	})
}

// Batch implements [Batcher].
func (t *httpTransport) Batch(ctx context.Context, calls []*BatchCall) {
	size := int(t.batchSize.Load())
	var chunks [][]*BatchCall
	for len(calls) > size {
		chunks, calls = append(chunks, calls[:size]), calls[size:]
	}
	if len(calls) > 0 {
		chunks = append(chunks, calls)
	}
	each(chunks, func(chunk []*BatchCall) { t.exchange(ctx, chunk) })
}

// exchange sends one chunk. What the node refuses as a whole, or leaves out, is
// sent again in halves, and the smaller size is remembered: nodes limit batches
// by count, by the size of the answer, or to nothing at all.
func (t *httpTransport) exchange(ctx context.Context, chunk []*BatchCall) {
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if len(chunk) == 1 {
		chunk[0].Result, chunk[0].Err = t.Call(limited, chunk[0].Method, chunk[0].Params...)
		return
	}
	left, err := t.roundTrip(limited, chunk)
	if err != nil {
		for _, call := range left {
			call.Err = err
		}
		return
	}
	if len(left) == 0 {
		return
	}
	half := max(1, len(chunk)/2)
	for known := t.batchSize.Load(); int(known) > half && !t.batchSize.CompareAndSwap(known, int32(half)); {
		known = t.batchSize.Load()
	}
	for len(left) > 0 {
		n := min(half, len(left))
		t.exchange(ctx, left[:n])
		left = left[n:]
	}
}

// roundTrip posts a chunk and returns the calls that a smaller batch may serve.
// With an error no call of the rest can be served now.
func (t *httpTransport) roundTrip(ctx context.Context, chunk []*BatchCall) (left []*BatchCall, err error) {
	const method = "batch"
	requests := make([]request, len(chunk))
	byID := make(map[string]*BatchCall, len(chunk))
	for i, call := range chunk {
		params := call.Params
		if params == nil {
			params = []any{}
		}
		id := t.lastID.Add(1)
		requests[i] = request{"2.0", id, call.Method, params}
		byID[strconv.FormatUint(id, 10)] = call
	}
	body, err := json.Marshal(requests)
	if err != nil {
		return chunk, fmt.Errorf("chain: batch: %w", err)
	}
	status, header, answer, err := t.post(ctx, method, body)
	switch {
	case errors.Is(err, errAnswerTooLong), status == http.StatusRequestEntityTooLarge:
		return chunk, nil
	case err != nil:
		return chunk, err
	}
	retryAfter := header.Get("Retry-After")
	if trimmed := bytes.TrimLeft(answer, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '[' {
		_, err := parseAnswer(method, requests[0].ID, status, retryAfter, answer)
		if err == nil || errors.Is(err, ErrRPC) || errors.Is(err, ErrMalformed) {
			return chunk, nil // this node has no batches, or not of this size
		}
		return chunk, err
	}
	var answers [][]byte
	if !array(answer, func(element []byte) { answers = append(answers, element) }) {
		return chunk, nil
	}
	for _, raw := range answers {
		settle(byID, status, retryAfter, raw)
	}
	for _, call := range chunk {
		if call.Result == nil && call.Err == nil {
			left = append(left, call)
		}
	}
	return left, nil
}

// codeTooLarge is what go-ethereum answers to the calls of a batch whose
// answers would together exceed its limit.
const codeTooLarge = -32003

// settle gives one answer to the call with its id; answers without a call, and
// those that ask for a smaller batch, settle nothing.
func settle(byID map[string]*BatchCall, status int, retryAfter string, raw []byte) {
	answer, isObject := openEnvelope(raw)
	call, ok := byID[string(answer.id)]
	if !isObject || !ok || call.Result != nil || call.Err != nil {
		return
	}
	if f := answer.fault; f != nil && (f.Code == codeTooLarge || f.Code == codeInvalidRequest) {
		return
	}
	id, err := strconv.ParseUint(string(answer.id), 10, 64)
	if err != nil {
		return
	}
	result, err := answer.open(call.Method, id)
	call.Result, call.Err = judge(call.Method, status, retryAfter, result, err)
}

// codeInvalidRequest is JSON-RPC's code for a request object that is refused;
// go-ethereum answers with it to the first call of a batch with too many.
const codeInvalidRequest = -32600
