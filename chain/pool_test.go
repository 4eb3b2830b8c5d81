package chain

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

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
