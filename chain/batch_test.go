package chain

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
)

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
