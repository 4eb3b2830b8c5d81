package replay_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// An rpcCall is one call as a node receives it.
type rpcCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// An rpcAnswer is what it answers.
type rpcAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcFault       `json:"error,omitempty"`
}

type rpcFault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// A proxy stands between a client and a node. Edit may change any answer, or
// give one of its own.
type proxy struct {
	URL     string
	mu      sync.Mutex // guards what follows
	methods map[string]int
	trips   int
}

// Seen is how often a method was called.
func (p *proxy) Seen(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.methods[method]
}

// newProxy passes calls on to target, and their answers through edit.
func newProxy(t testing.TB, target string, edit func(c rpcCall, a *rpcAnswer)) *proxy {
	t.Helper()
	p := &proxy{methods: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		res, err := http.Post(target, "application/json", bytes.NewReader(body))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			return
		}
		p.count(body)
		out, err := editAll(body, answer, edit)
		if err != nil {
			t.Errorf("proxy: %v: %s", err, answer)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(out)
	}))
	t.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

func (p *proxy) count(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips++
	calls, _ := parseCalls(body)
	for _, c := range calls {
		p.methods[c.Method]++
	}
}

func parseCalls(body []byte) (calls []rpcCall, batch bool) {
	if json.Unmarshal(body, &calls) == nil {
		return calls, true
	}
	var one rpcCall
	if json.Unmarshal(body, &one) != nil {
		return nil, false
	}
	return []rpcCall{one}, false
}

func editAll(body, answer []byte, edit func(rpcCall, *rpcAnswer)) ([]byte, error) {
	calls, batch := parseCalls(body)
	byID := map[string]rpcCall{}
	for _, c := range calls {
		byID[string(c.ID)] = c
	}
	if !batch {
		var a rpcAnswer
		if err := json.Unmarshal(answer, &a); err != nil {
			return nil, err
		}
		edit(calls[0], &a)
		return json.Marshal(a)
	}
	var all []rpcAnswer
	if err := json.Unmarshal(answer, &all); err != nil {
		return nil, err
	}
	for i := range all {
		edit(byID[string(all[i].ID)], &all[i])
	}
	return json.Marshal(all)
}

// object edits the members of an object.
func object(t testing.TB, raw json.RawMessage, edit func(map[string]any)) json.RawMessage {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return raw
	}
	edit(m)
	out, err := json.Marshal(m)
	if err != nil {
		t.Error(err)
	}
	return out
}

// flip changes the last digit of a hex string that is not part of its prefix.
func flip(v any) any {
	s, ok := v.(string)
	if !ok || len(s) < 3 {
		return v
	}
	last := byte('0')
	if s[len(s)-1] == '0' {
		last = '1'
	}
	return s[:len(s)-1] + string(last)
}
