package chain

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
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
