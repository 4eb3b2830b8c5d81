package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A farm is nodes that count what they are asked. Each answers every method with
// its own name, or as its handler says.
type farm struct {
	t    *testing.T
	urls []string
	mu   sync.Mutex // guards asked
	// asked is the methods that each node was asked for, a batch in brackets.
	asked [][]string
}

// A handler answers one call of a node: a result, or an error object.
type handler func(method string) (result any, fault map[string]any)

func (f *farm) note(i int, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[i] = append(f.asked[i], what)
}

func (f *farm) seen(i int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked[i])
}

// await returns when the node has been asked n times, or the test is over.
func (f *farm) await(i, n int) {
	for len(f.seen(i)) < n && f.t.Context().Err() == nil {
		runtime.Gosched()
	}
}

func newFarm(t *testing.T, servers ...func(i int, f *farm, w http.ResponseWriter, r *http.Request)) *farm {
	t.Helper()
	f := &farm{t: t, asked: make([][]string, len(servers))}
	for i, serve := range servers {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(i, f, w, r) }))
		t.Cleanup(s.Close)
		f.urls = append(f.urls, s.URL)
	}
	return f
}

type wireCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params []any           `json:"params"`
}

// answering is a node that takes batches of at most limit calls; 0 = any.
func answering(limit int, h handler) func(int, *farm, http.ResponseWriter, *http.Request) {
	return func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var calls []wireCall
		if json.Unmarshal(body, &calls) != nil {
			var one wireCall
			if err := json.Unmarshal(body, &one); err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			f.note(i, one.Method)
			json.NewEncoder(w).Encode(answerTo(one, h))
			return
		}
		f.note(i, fmt.Sprintf("[%d]", len(calls)))
		if limit > 0 && len(calls) > limit {
			// as go-ethereum does: one error, with the first call's id
			json.NewEncoder(w).Encode([]any{map[string]any{"jsonrpc": "2.0", "id": calls[0].ID, "error": map[string]any{"code": -32600, "message": "batch too large"}}})
			return
		}
		var out []any
		for _, c := range slices.Backward(calls) { // any order is allowed
			out = append(out, answerTo(c, h))
		}
		json.NewEncoder(w).Encode(out)
	}
}

func answerTo(c wireCall, h handler) map[string]any {
	result, fault := h(c.Method)
	out := map[string]any{"jsonrpc": "2.0", "id": c.ID}
	if fault != nil {
		out["error"] = fault
	} else {
		out["result"] = result
	}
	return out
}

func fixed(v any) handler { return func(string) (any, map[string]any) { return v, nil } }

func faulty(code int, message string) handler {
	return func(string) (any, map[string]any) { return nil, map[string]any{"code": code, "message": message} }
}

func dialAll(t *testing.T, f *farm, o Options) *Client {
	t.Helper()
	c, err := DialAll(t.Context(), f.urls, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func down(int, *farm, http.ResponseWriter, *http.Request) {}

func status(code int, header ...string) func(int, *farm, http.ResponseWriter, *http.Request) {
	return func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		f.note(i, "http")
		for k := 0; k+1 < len(header); k += 2 {
			w.Header().Set(header[k], header[k+1])
		}
		w.WriteHeader(code)
	}
}

// What one node cannot serve the next one does; what it answers stands.
func TestFailover(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first func(int, *farm, http.ResponseWriter, *http.Request)
		want  error // nil: the second node's answer
	}{
		{"unavailable", status(503), nil},
		{"limited", status(429), nil},
		{"empty answer", down, nil},
		{"pruned", answering(0, faulty(4444, "pruned history unavailable")), nil},
		{"indexing", answering(0, faulty(-32000, "transaction indexing is in progress")), nil},
		{"not found", answering(0, fixed(nil)), ErrNotFound},
		{"refused", answering(0, faulty(-32602, "invalid argument")), ErrRPC},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := dialAll(t, newFarm(t, tt.first, answering(0, fixed("0x2"))), Options{})
			got, err := c.BlockNumber(t.Context())
			if !errors.Is(err, tt.want) || tt.want == nil && got != 2 {
				t.Errorf("call: %d, %v", got, err)
			}
			calls := []BatchCall{{Method: "eth_blockNumber"}, {Method: "eth_gasPrice"}}
			c.Batch(t.Context(), calls)
			for _, call := range calls {
				if !errors.Is(call.Err, tt.want) || tt.want == nil && string(call.Result) != `"0x2"` {
					t.Errorf("batch: %s, %v", call.Result, call.Err)
				}
			}
		})
	}
	c := dialAll(t, newFarm(t, status(429, "Retry-After", "7"), status(503)), Options{})
	var call *CallError
	if _, err := c.BlockNumber(t.Context()); !errors.As(err, &call) || call.Kind != ErrRateLimited || call.RetryAfter != 7*time.Second {
		t.Errorf("all down: %v, want the first node's words", err)
	}
}

// Of several failures, pruned history is the one to tell.
func TestFailureToTell(t *testing.T) {
	pruned := answering(0, faulty(4444, "pruned history unavailable"))
	for name, servers := range map[string][]func(int, *farm, http.ResponseWriter, *http.Request){
		"first": {pruned, status(503)}, "last": {status(503), pruned},
	} {
		c := dialAll(t, newFarm(t, servers...), Options{})
		if _, err := c.BlockNumber(t.Context()); !errors.Is(err, ErrPruned) {
			t.Errorf("%s, call: %v", name, err)
		}
		calls := []BatchCall{{Method: "a"}, {Method: "b"}}
		c.Batch(t.Context(), calls)
		for _, call := range calls {
			if !errors.Is(call.Err, ErrPruned) {
				t.Errorf("%s, batch: %v", name, call.Err)
			}
		}
	}
}

// A node that failed is asked last until its rest is over.
func TestRest(t *testing.T) {
	f := newFarm(t, status(429, "Retry-After", "3600"), answering(0, fixed("0x2")))
	c := dialAll(t, f, Options{})
	for range 3 {
		if n, err := c.BlockNumber(t.Context()); err != nil || n != 2 {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if first, second := f.seen(0), f.seen(1); len(first) != 1 || len(second) != 3 {
		t.Errorf("the limiting node was asked %d times, the other %d times", len(first), len(second))
	}
}

// A slow node's answer is not waited for; a transaction goes to one node only.
func TestHedge(t *testing.T) {
	release := make(chan struct{})
	answer := answering(0, fixed("0x2"))
	f := newFarm(t, stuck(release), func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		f.await(0, 1)
		answer(i, f, w, r)
	})
	c := dialAll(t, f, Options{HedgeAfter: time.Millisecond})
	if n, err := c.BlockNumber(t.Context()); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	before := len(f.seen(0))
	go func() {
		_, err := c.SendRawTransaction(ctx, []byte{1})
		done <- err
	}()
	for len(f.seen(0)) == before { // until it is with the slow node
		select {
		case err := <-done:
			t.Fatalf("sent elsewhere: %v", err)
		default:
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	if slices.Contains(f.seen(1), methodSend) {
		t.Error("the transaction was hedged")
	}
}

// stuck is a node that answers nothing until release is closed.
func stuck(release <-chan struct{}) func(int, *farm, http.ResponseWriter, *http.Request) {
	return func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		f.note(i, "stuck")
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// A slow node's batch is asked of the next one, as long as the budget lasts; what
// goes wrong there is not asked there again.
func TestHedgedBatch(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	answer := answering(0, fixed("0x2"))
	f := newFarm(t, stuck(release), func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		f.await(0, len(f.seen(1))+1) // else the answer can end a request that has not arrived
		answer(i, f, w, r)
	})
	c := dialAll(t, f, Options{HedgeAfter: time.Millisecond})
	two := func(method string) []BatchCall { return []BatchCall{{Method: method}, {Method: "eth_gasPrice"}} }
	for i := range 3 {
		calls := two("eth_blockNumber")
		c.Batch(t.Context(), calls)
		for _, call := range calls {
			if call.Err != nil || string(call.Result) != `"0x2"` {
				t.Errorf("batch %d: %s, %v", i, call.Result, call.Err)
			}
		}
	}
	if a, b := len(f.seen(0)), len(f.seen(1)); a != 3 || b != 3 {
		t.Errorf("the nodes were asked %d and %d times", a, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.Batch(ctx, two(methodSend))
	}()
	for len(f.seen(0)) == 3 {
		select {
		case <-sent:
			t.Fatal("sent elsewhere")
		default:
		}
	}
	cancel()
	<-sent
	if n := len(f.seen(1)); n != 3 {
		t.Errorf("a batch with a transaction was hedged: %q", f.seen(1))
	}
}

func TestHedgeLimits(t *testing.T) {
	p, err := newPool([]string{"http://127.0.0.1:1"}, Options{InFlight: 1}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	h := p.hosts[0]
	if !h.idle() {
		t.Error("a fresh host is not idle")
	}
	h.t.limits.slots <- struct{}{}
	if h.idle() {
		t.Error("a host without a free slot is idle")
	}
	<-h.t.limits.slots
	h.note(t.Context(), &CallError{Kind: ErrRateLimited, RetryAfter: time.Minute})
	if h.idle() {
		t.Error("a host at rest is idle")
	}
	hedges := 0
	for range 1000 {
		p.mayHedge.earn()
		if p.mayHedge.spend() {
			hedges++
		}
	}
	if hedges < 100 || hedges > 110 {
		t.Errorf("%d hedges of 1,000 batches", hedges)
	}
}

// Both fail: the calls have the failure, and no node was asked twice.
func TestHedgeThatFails(t *testing.T) {
	release := make(chan struct{})
	f := newFarm(t, stuck(release), func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		f.await(0, 1)
		f.note(i, "failed")
		w.WriteHeader(http.StatusServiceUnavailable)
		close(release)
	})
	c := dialAll(t, f, Options{HedgeAfter: time.Millisecond})
	calls := []BatchCall{{Method: "eth_blockNumber"}, {Method: "eth_gasPrice"}}
	c.Batch(t.Context(), calls)
	for _, call := range calls {
		if !errors.Is(call.Err, ErrUnavailable) {
			t.Errorf("%s: %v", call.Method, call.Err)
		}
	}
	if a, b := len(f.seen(0)), len(f.seen(1)); a != 1 || b != 1 {
		t.Errorf("the nodes were asked %d and %d times", a, b)
	}
}

// One node serves some calls and the other fails: what was served stays, in whatever
// order the two answer.
func TestHedgeKeepsWhatWasServed(t *testing.T) {
	some := answering(0, func(method string) (any, map[string]any) {
		if method == "pruned" {
			return nil, map[string]any{"code": 4444, "message": "pruned history unavailable"}
		}
		return "0x2", nil
	})
	f := newFarm(t, func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		f.await(1, 1) // else it would not be hedged
		some(i, f, w, r)
	}, status(http.StatusServiceUnavailable))
	c := dialAll(t, f, Options{HedgeAfter: time.Millisecond})
	calls := []BatchCall{{Method: "eth_blockNumber"}, {Method: "pruned"}}
	c.Batch(t.Context(), calls)
	if calls[0].Err != nil || string(calls[0].Result) != `"0x2"` || !errors.Is(calls[1].Err, ErrPruned) {
		t.Errorf("%s, %v and %v", calls[0].Result, calls[0].Err, calls[1].Err)
	}
}

func TestMerge(t *testing.T) {
	served, away := BatchCall{Result: json.RawMessage(`"0x2"`)}, BatchCall{Err: ErrUnavailable}
	pruned, refused := BatchCall{Err: ErrPruned}, BatchCall{Err: ErrRPC}
	for _, tt := range []struct{ first, then, want BatchCall }{
		{served, away, served}, {away, served, served}, {refused, served, refused}, {away, refused, refused},
		{away, pruned, pruned}, {pruned, away, pruned}, {BatchCall{}, away, away}, {BatchCall{}, served, served},
	} {
		got := tt.first
		merge([]*BatchCall{&got}, []BatchCall{tt.then})
		if string(got.Result) != string(tt.want.Result) || got.Err != tt.want.Err {
			t.Errorf("%+v, then %+v: %+v, want %+v", tt.first, tt.then, got, tt.want)
		}
	}
}

func TestChainOfEveryNode(t *testing.T) {
	right, wrong := answering(0, fixed("0x7a69")), answering(0, fixed("0x1"))
	for _, tt := range []struct {
		name    string
		servers []func(int, *farm, http.ResponseWriter, *http.Request)
		want    error
	}{
		{"all right", []func(int, *farm, http.ResponseWriter, *http.Request){right, right}, nil},
		{"one wrong", []func(int, *farm, http.ResponseWriter, *http.Request){right, wrong}, ErrWrongChain},
		{"one down", []func(int, *farm, http.ResponseWriter, *http.Request){status(503), right}, nil},
		{"all down", []func(int, *farm, http.ResponseWriter, *http.Request){status(503), status(503)}, ErrUnavailable},
	} {
		c, err := DialAll(t.Context(), newFarm(t, tt.servers...).urls, Options{ChainID: 31337})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			c.Close()
		}
	}
	if _, err := DialAll(t.Context(), nil, Options{}); err == nil {
		t.Error("no node at all was accepted")
	}
}

// A node may change the chain behind its URL: it is asked before each sending.
func TestChainBeforeSending(t *testing.T) {
	id := "0x7a69"
	var mu sync.Mutex
	f := newFarm(t, answering(0, func(method string) (any, map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		if method == "eth_chainId" {
			return id, nil
		}
		return "0x5fe7f977e71dba2ea1a68e21057beebb9be2ac30c6410aa38d4f3fbe41dcffd2", nil // of the byte 1
	}))
	c := dialAll(t, f, Options{ChainID: 31337})
	if _, err := c.SendRawTransaction(t.Context(), []byte{1}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	id = "0x1"
	mu.Unlock()
	if _, err := c.SendRawTransaction(t.Context(), []byte{1}); !errors.Is(err, ErrWrongChain) {
		t.Errorf("%v, want ErrWrongChain", err)
	}
	if got := strings.Join(f.seen(0), " "); got != "eth_chainId eth_chainId "+methodSend+" eth_chainId" {
		t.Errorf("asked %s", got)
	}
}

// The first node is down at the start and serves another chain when it is back.
func TestLateNodeIsChecked(t *testing.T) {
	up := make(chan struct{})
	late := func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		select {
		case <-up:
			answering(0, fixed("0x1"))(i, f, w, r)
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	f := newFarm(t, late, answering(0, fixed("0x7a69")))
	c := dialAll(t, f, Options{ChainID: 31337})
	close(up)
	if n, err := c.BlockNumber(t.Context()); err != nil || n != 31337 {
		t.Errorf("%d, %v; want the second node's answer", n, err)
	}
	if got := f.seen(0); len(got) != 1 || got[0] != "eth_chainId" {
		t.Errorf("the late node was asked for %q", got)
	}
}

func TestBatchSizes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		serve  func(int, *farm, http.ResponseWriter, *http.Request)
		o      Options
		first  []string // sizes of the exchanges, sorted
		second []string
	}{
		{"taken whole", answering(0, fixed("0x1")), Options{}, []string{"[20]"}, []string{"[20]"}},
		{"cut by us", answering(0, fixed("0x1")), Options{BatchSize: 8}, []string{"[4]", "[8]", "[8]"}, []string{"[4]", "[8]", "[8]"}},
		{"limited", answering(10, fixed("0x1")), Options{}, []string{"[10]", "[10]", "[20]"}, []string{"[10]", "[10]"}},
		{"no batches", noBatches, Options{BatchSize: 4}, nil, slices.Repeat([]string{"eth_call"}, 20)},
		{"short answers", tooLong(6), Options{BatchSize: 10, MaxResponseBytes: 700}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFarm(t, tt.serve)
			c := dialAll(t, f, tt.o)
			for round, want := range [][]string{tt.first, tt.second} {
				before := len(f.seen(0))
				calls := make([]BatchCall, 20)
				for i := range calls {
					calls[i] = BatchCall{Method: "eth_call", Params: []any{i}}
				}
				c.Batch(t.Context(), calls)
				for i, call := range calls {
					if call.Err != nil || string(call.Result) != `"0x1"` {
						t.Fatalf("call %d: %s, %v", i, call.Result, call.Err)
					}
				}
				got := f.seen(0)[before:]
				slices.Sort(got)
				if want != nil && !slices.Equal(got, want) {
					t.Errorf("round %d: exchanges %v, want %v", round, got, want)
				}
			}
		})
	}
}

// noBatches is a node that answers a batch with an error object of its own.
func noBatches(i int, f *farm, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var one wireCall
	if json.Unmarshal(body, &one) != nil {
		f.note(i, "batch")
		io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}`)
		return
	}
	f.note(i, one.Method)
	json.NewEncoder(w).Encode(answerTo(one, fixed("0x1")))
}

// tooLong is a node that leaves the calls after the first n of a batch without a
// result, as go-ethereum does when the answer becomes too long.
func tooLong(n int) func(int, *farm, http.ResponseWriter, *http.Request) {
	return func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var calls []wireCall
		if json.Unmarshal(body, &calls) != nil {
			var one wireCall
			json.Unmarshal(body, &one)
			json.NewEncoder(w).Encode(answerTo(one, fixed("0x1")))
			return
		}
		var out []any
		for k, c := range calls {
			if k < n {
				out = append(out, answerTo(c, fixed("0x1")))
			} else {
				out = append(out, answerTo(c, faulty(codeTooLarge, "response too large")))
			}
		}
		json.NewEncoder(w).Encode(out)
	}
}

// One call of a batch may fail while the others succeed.
func TestBatchOutcomes(t *testing.T) {
	f := newFarm(t, answering(0, func(method string) (any, map[string]any) {
		switch method {
		case "null":
			return nil, nil
		case "refused":
			return nil, map[string]any{"code": -32602, "message": "no"}
		case "reverted":
			return nil, map[string]any{"code": 3, "message": "execution reverted", "data": "0x1234"}
		}
		return method, nil
	}))
	calls := []BatchCall{{Method: "a"}, {Method: "null"}, {Method: "refused"}, {Method: "reverted"}, {Method: "b"}}
	dialAll(t, f, Options{}).Batch(t.Context(), calls)
	if string(calls[0].Result) != `"a"` || string(calls[4].Result) != `"b"` {
		t.Errorf("results %s and %s", calls[0].Result, calls[4].Result)
	}
	for i, want := range map[int]error{0: nil, 1: ErrNotFound, 2: ErrRPC, 3: ErrReverted, 4: nil} {
		if !errors.Is(calls[i].Err, want) {
			t.Errorf("%s: %v, want %v", calls[i].Method, calls[i].Err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("shutting down")
	cancel(cause)
	dialAll(t, f, Options{}).Batch(ctx, calls)
	for _, call := range calls {
		if !errors.Is(call.Err, cause) {
			t.Errorf("cancelled: %v", call.Err)
		}
	}
}

// No more exchanges run at a time than permitted.
func TestInFlight(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	f := newFarm(t, func(i int, f *farm, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		answering(0, fixed("0x2"))(i, f, w, r)
		mu.Lock()
		now--
		mu.Unlock()
	})
	c := dialAll(t, f, Options{InFlight: 2, PerSecond: 10_000, BatchSize: 4})
	var wg sync.WaitGroup
	wg.Go(func() { c.Batch(t.Context(), slices.Repeat([]BatchCall{{Method: "eth_call"}}, 40)) })
	for range 30 {
		wg.Go(func() {
			if n, err := c.BlockNumber(t.Context()); err != nil || n != 2 {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	wg.Wait()
	if most > 2 {
		t.Errorf("%d exchanges at a time, want at most 2", most)
	}
}

func TestNodes(t *testing.T) {
	f := newFarm(t, answering(0, fixed("0x1")), answering(0, fixed("0x2")))
	for i, n := range dialAll(t, f, Options{}).Nodes() {
		if got, err := n.BlockNumber(t.Context()); err != nil || got != uint64(i+1) {
			t.Errorf("node %d: %d, %v", i, got, err)
		}
	}
}

// A pool's errors have no URL in them, whichever host failed.
func TestPoolKeepsURLsSecret(t *testing.T) {
	const secret = "s3cr3t"
	c, err := DialAll(t.Context(), []string{"http://127.0.0.1:1/" + secret, "http://127.0.0.1:1/x" + secret}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ChainID(t.Context()); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

func FuzzBatchAnswers(f *testing.F) {
	f.Add(200, []byte(`[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2,"result":null}]`))
	f.Add(200, []byte(`[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"batch too large"}}]`))
	f.Add(429, []byte(`{}`))
	f.Add(200, []byte(`[[[`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		byID := map[string]*BatchCall{"1": {Method: "a"}, "2": {Method: "b"}}
		var answers []json.RawMessage
		if json.Unmarshal(body, &answers) != nil {
			return
		}
		for _, raw := range answers {
			settle(byID, status, "", raw)
		}
		for id, call := range byID {
			if call.Result != nil && call.Err != nil {
				t.Errorf("call %s has both %s and %v", id, call.Result, call.Err)
			}
		}
	})
}
