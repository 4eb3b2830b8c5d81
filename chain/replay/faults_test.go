package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/fork"
	"karatum/chain/replay"
)

// bumped is a mix whose last block has two calls that depend on each other, and
// the later one's hash.
func bumped(t testing.TB) (*mix, common.Hash) {
	t.Helper()
	m := onDevChain(t)
	m.together(func() {
		for range 2 {
			m.call(1, &m.machine, 0, m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5)), 300_000)
		}
	})
	return m, m.mined[len(m.mined)-1]
}

// refuse is an edit that answers the methods with an error.
func refuse(code int, message string, methods ...string) func(rpcCall, *rpcAnswer) {
	return func(c rpcCall, a *rpcAnswer) {
		for _, method := range methods {
			if c.Method == method {
				a.Result, a.Error = nil, &rpcFault{code, message}
			}
		}
	}
}

var stateReads = []string{"eth_getProof", "eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_getStorageAt"}

func TestFaults(t *testing.T) {
	m, hash := bumped(t)
	null := func(method string) func(rpcCall, *rpcAnswer) {
		return func(c rpcCall, a *rpcAnswer) {
			if c.Method == method {
				a.Result = json.RawMessage("null")
			}
		}
	}
	for _, tt := range []struct {
		name  string
		edit  func(rpcCall, *rpcAnswer)
		code  string
		class error
		hint  string
	}{
		{"pruned state", refuse(-32000, "missing trie node 12ab", stateReads...), replay.CodePruned, chain.ErrPruned, "archive node"},
		{"pruned, in other words", refuse(-32000, "historical state 12ab is not available", stateReads...), replay.CodePruned, chain.ErrPruned, "--rpc-url"},
		{"pruned block", refuse(4444, "pruned history unavailable", "eth_getBlockByHash"), replay.CodePruned, chain.ErrPruned, "archive node"},
		{"pruned receipt", refuse(4444, "pruned history unavailable", "eth_getTransactionReceipt"), replay.CodePruned, chain.ErrPruned, "archive node"},
		{"unknown transaction", null("eth_getTransactionReceipt"), replay.CodeNotFound, replay.ErrNotMined, ""},
		{"unknown block", null("eth_getBlockByHash"), replay.CodeNotFound, chain.ErrNotFound, ""},
		{"rate limit", refuse(-32005, "daily quota", "eth_getProof"), replay.CodeRateLimited, chain.ErrRateLimited, "--rpc-url"},
		{"refused throughout", refuse(-32000, "no", stateReads...), replay.CodeRPC, chain.ErrRPC, ""},
		{"indexing", refuse(-32000, "transaction indexing is in progress", "eth_getTransactionReceipt"), replay.CodeRPC, chain.ErrIndexing, ""},
		{"receipt of another", func(c rpcCall, a *rpcAnswer) {
			if c.Method == "eth_getTransactionReceipt" {
				a.Result = object(t, a.Result, func(o map[string]any) { o["transactionHash"] = flip(o["transactionHash"]) })
			}
		}, replay.CodeRPC, chain.ErrMalformed, ""},
		{"receipt at another place", func(c rpcCall, a *rpcAnswer) {
			if c.Method == "eth_getTransactionReceipt" {
				a.Result = object(t, a.Result, func(o map[string]any) { o["transactionIndex"] = "0x0" })
			}
		}, replay.CodeContradiction, fork.ErrContradiction, "do not trust"},
		{"nonsense", func(c rpcCall, a *rpcAnswer) {
			if c.Method == "eth_getProof" {
				a.Result = json.RawMessage(`"0x12"`)
			}
		}, replay.CodeRPC, chain.ErrMalformed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProxy(t, m.url, tt.edit)
			_, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: chaintest.Dial(t, p.URL), Tx: hash})
			var f *replay.Failure
			if !errors.As(err, &f) || f.Code != tt.code || replay.Code(err) != tt.code || !errors.Is(err, tt.class) || !strings.Contains(f.Hint, tt.hint) {
				t.Errorf("%v; want %s, %v and %q", err, tt.code, tt.class, tt.hint)
			}
		})
	}
}

// A pending transaction has no receipt.
func TestPending(t *testing.T) {
	m := onDevChain(t)
	to := m.account(2).Address
	hash := m.call(1, &to, 1, nil, 100_000)
	if _, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: m.c, Tx: hash}); replay.Code(err) != replay.CodeNotFound {
		t.Errorf("%v", err)
	}
}

// Nodes lack what others have; the replay works around it, and says what is not
// proved.
func TestWorkarounds(t *testing.T) {
	m, hash := bumped(t)
	byHash := func(c rpcCall) bool {
		return len(c.Params) > 0 && strings.Contains(string(c.Params[len(c.Params)-1]), "blockHash")
	}
	for _, tt := range []struct {
		name   string
		edit   func(rpcCall, *rpcAnswer)
		proved bool
	}{
		{"no access lists", refuse(-32601, "no such method", "eth_createAccessList"), true},
		{"no block hashes", func(c rpcCall, a *rpcAnswer) {
			if byHash(c) {
				refuse(-32602, "invalid argument", stateReads...)(c, a)
			}
		}, true},
		{"no proofs", refuse(-32601, "no such method", "eth_getProof"), false},
		{"proofs are pruned", refuse(-32000, "distance to target block exceeds maximum proof window", "eth_getProof"), false},
		{"neither proofs nor block hashes", func(c rpcCall, a *rpcAnswer) {
			refuse(-32601, "no such method", "eth_getProof")(c, a)
			if byHash(c) {
				refuse(-32602, "invalid argument", stateReads...)(c, a)
			}
		}, false},
		{"a useless access list", func(c rpcCall, a *rpcAnswer) {
			if c.Method == "eth_createAccessList" {
				a.Result = json.RawMessage(`{"accessList":[{"address":"0x00000000000000000000000000000000000000aa","storageKeys":["0x0000000000000000000000000000000000000000000000000000000000000001"]}]}`)
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProxy(t, m.url, tt.edit)
			job := replay.Job{Client: chaintest.Dial(t, p.URL), Tx: hash}
			res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), job)
			if err != nil || !res.Reproduced || len(res.Differences) != 0 || strings.HasPrefix(res.State, "proved") != tt.proved {
				t.Fatalf("%+v, %v", res, err)
			}
			if !tt.proved && (res.State != "as told by RPC" || !strings.Contains(res.Notes[0], "does not prove the state")) {
				t.Errorf("state %q, notes %q", res.State, res.Notes)
			}
			job.RequireProof = true
			if _, err := newReplayer(t, replay.Options{}).Replay(t.Context(), job); (err == nil) != tt.proved || err != nil && replay.Code(err) != replay.CodeNoProof {
				t.Errorf("with a proof required: %v", err)
			}
		})
	}
}

// The node that has pruned the history is passed over for one that has it.
func TestFailoverToArchive(t *testing.T) {
	m, hash := bumped(t)
	pruned := newProxy(t, m.url, refuse(-32000, "missing trie node", stateReads...))
	c, err := chain.DialAll(t.Context(), []string{pruned.URL, m.url}, chain.Options{ChainID: 31337})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	nodes := c.Nodes()
	res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: c, Tx: hash, Sources: []replay.Source{{Name: "archive", Client: nodes[1]}}})
	if err != nil || exact(res) != nil || len(res.ConfirmedBy) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestSourceThatCannotSay(t *testing.T) {
	m, hash := bumped(t)
	mute := newProxy(t, m.url, refuse(-32000, "no", "eth_getBlockByNumber"))
	res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{
		Client: m.c, Tx: hash, Sources: []replay.Source{{Name: "mute", Client: chaintest.Dial(t, mute.URL)}},
	})
	if err != nil || exact(res) != nil || len(res.ConfirmedBy) != 0 || !strings.Contains(strings.Join(res.Notes, "\n"), "mute could not confirm") {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestLimits(t *testing.T) {
	m, hash := bumped(t)
	for _, tt := range []struct {
		name string
		o    replay.Options
		job  replay.Job
		code string
	}{
		{"gas", replay.Options{MaxGas: 50_000}, replay.Job{}, replay.CodeLimit},
		{"state", replay.Options{State: fork.Limits{Entries: 3}}, replay.Job{}, replay.CodeLimit},
		{"code", replay.Options{State: fork.Limits{CodeBytes: 100}}, replay.Job{}, replay.CodeLimit},
		{"trace", replay.Options{TraceBytes: 1000}, replay.Job{Trace: io.Discard}, replay.CodeLimit},
		{"time", replay.Options{Timeout: time.Nanosecond}, replay.Job{}, replay.CodeLimit},
		{"prefix", replay.Options{}, replay.Job{Prefix: "half"}, replay.CodeUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.job.Client, tt.job.Tx, tt.job.ChainID = m.c, hash, 31337
			if res, err := newReplayer(t, tt.o).Replay(t.Context(), tt.job); replay.Code(err) != tt.code {
				t.Errorf("%+v, %v; want %s", res, err, tt.code)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newReplayer(t, replay.Options{}).Replay(ctx, replay.Job{Client: m.c, Tx: hash}); replay.Code(err) != replay.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// An endless loop with much gas is cut off when the caller gives up.
func TestCancelInTheEVM(t *testing.T) {
	m := onDevChain(t)
	hash := m.call(1, &m.machine, 0, m.pack(m.machineABI, "refuse", big.NewInt(4)), 25_000_000)
	m.seal()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }) // the first line of the trace
	if _, err := newReplayer(t, replay.Options{}).Replay(ctx, replay.Job{Client: m.c, Tx: hash, Trace: w}); replay.Code(err) != replay.CodeCancelled {
		t.Errorf("%v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCache(t *testing.T) {
	m, hash := bumped(t)
	dir := t.TempDir()
	var down atomic.Bool
	p := newProxy(t, m.url, func(rpcCall, *rpcAnswer) {})
	gate := newGate(t, p.URL, &down)
	job := replay.Job{Client: chaintest.Dial(t, gate), ChainID: 31337, Tx: hash}
	again := func() (replay.Result, error) {
		return newReplayer(t, replay.Options{CacheDir: dir}).Replay(t.Context(), job)
	}
	first, err := again()
	if err != nil || exact(first) != nil || first.Trips == 0 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	proofs := p.Seen("eth_getProof")
	second, err := again()
	if err != nil || exact(second) != nil || second.Trips != 0 || p.Seen("eth_getProof") != proofs {
		t.Errorf("second: %+v, %v", second, err)
	}
	down.Store(true)
	offline, err := again()
	if err != nil || exact(offline) != nil || !strings.Contains(strings.Join(offline.Notes, "\n"), "does not answer") {
		t.Errorf("without the node: %+v, %v", offline, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "31337", first.BlockHash.Hex()+"*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 5, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(files[0], whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if res, err := again(); err == nil {
			t.Errorf("cut to %d bytes, without the node: %+v", n, res)
		}
	}
	down.Store(false)
	if res, err := again(); err != nil || exact(res) != nil || res.Trips == 0 {
		t.Errorf("damaged, with the node: %+v, %v", res, err)
	}
	if mended, err := os.ReadFile(files[0]); err != nil || bytes.Equal(mended, whole[:len(whole)-1]) {
		t.Errorf("the damaged file stayed: %v", err)
	}
}

// newGate is a door to a node that can be shut.
func newGate(t testing.TB, target string, down *atomic.Bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		res, err := http.Post(target, "application/json", r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		io.Copy(w, res.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
