package chain

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"
)

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
