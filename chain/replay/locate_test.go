package replay_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"karatum/chain/chaintest"
	"karatum/chain/replay"
)

// How often the node is asked about a block in memory depends on what it calls
// final, and a transaction that vanished from a block that was not is found out.
func TestPlaces(t *testing.T) {
	m, hash := bumped(t)
	number := m.receipt(hash).BlockNumber
	for _, tt := range []struct {
		name  string
		head  string // the number of the final block; "" refuses
		final bool
	}{
		{"final", hexutil.EncodeUint64(number), true},
		{"final long ago", hexutil.EncodeUint64(number + 100), true},
		{"the block before is final", hexutil.EncodeUint64(number - 1), false},
		{"nothing is", "", false},
		{"nonsense", "0xzz", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var gone atomic.Bool
			p := newProxy(t, m.url, func(c rpcCall, a *rpcAnswer) {
				switch {
				case c.Method == "eth_getTransactionReceipt" && gone.Load():
					a.Result = json.RawMessage("null")
				case c.Method == "eth_getBlockByNumber" && string(c.Params[0]) == `"finalized"` && tt.head == "":
					refuse(-39001, "Unknown block", c.Method)(c, a)
				case c.Method == "eth_getBlockByNumber" && string(c.Params[0]) == `"finalized"`:
					a.Result = object(t, a.Result, func(o map[string]any) { o["number"] = tt.head })
				}
			})
			r := newReplayer(t, replay.Options{})
			job := replay.Job{Client: chaintest.Dial(t, p.URL), Tx: hash}
			for i, want := range []int{1, 2, 3 - bit(tt.final)} {
				res, err := r.Replay(t.Context(), job)
				if err != nil || exact(res) != nil || p.Seen("eth_getTransactionReceipt") != want {
					t.Fatalf("replay %d: %+v, %v; asked %d times, want %d", i, res, err, p.Seen("eth_getTransactionReceipt"), want)
				}
			}
			gone.Store(true)
			if _, err := r.Replay(t.Context(), job); tt.final != (err == nil) || err != nil && replay.Code(err) != replay.CodeNotFound {
				t.Errorf("once it is gone: %v", err)
			}
			job.Client = chaintest.Dial(t, p.URL)
			if _, err := r.Replay(t.Context(), job); replay.Code(err) != replay.CodeNotFound {
				t.Errorf("asked through another client: %v", err)
			}
			job.BlockHash[0] = 1
			gone.Store(false)
			for range 3 {
				if _, err := r.Replay(t.Context(), job); replay.Code(err) != replay.CodeOtherBlock {
					t.Errorf("in a block of another hash: %v", err)
				}
			}
		})
	}
}

// A receipt from the disk is never taken for the node's word.
func TestNoPlaceFromDisk(t *testing.T) {
	m, hash := bumped(t)
	var down atomic.Bool
	job := replay.Job{Client: chaintest.Dial(t, newGate(t, m.url, &down)), ChainID: 31337, Tx: hash}
	o := replay.Options{CacheDir: t.TempDir()}
	if _, err := newReplayer(t, o).Replay(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	r := newReplayer(t, o)
	for range 3 {
		res, err := r.Replay(t.Context(), job)
		if err != nil || exact(res) != nil || !strings.Contains(strings.Join(res.Notes, "\n"), "does not answer") {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
