package replay_test

import (
	"context"
	"errors"
	"io"
	"math/big"
	"testing"
	"time"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/replay"
)

// A node that never answers keeps nobody who gives up, whatever was asked. That
// these tests end is what they assert.
func TestCancelWhileWaiting(t *testing.T) {
	m, hash := bumped(t)
	for _, method := range []string{"eth_getTransactionReceipt", "eth_getBlockByHash", "eth_getProof", "source"} {
		t.Run(method, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			release := make(chan struct{})
			mute := newProxy(t, m.url, func(c rpcCall, _ *rpcAnswer) {
				if c.Method == method || method == "source" {
					cancel()
					<-release
				}
			})
			t.Cleanup(func() { close(release) }) // before the server waits for it
			job := replay.Job{Client: chaintest.Dial(t, mute.URL), Tx: hash}
			if method == "source" {
				job.Client, job.Sources = m.c, []replay.Source{{Name: "mute", Client: job.Client}}
			}
			if _, err := newReplayer(t, replay.Options{}).Replay(ctx, job); replay.Code(err) != replay.CodeCancelled || !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Nor does the pause that we owe a node between two calls.
func TestCancelWhilePaced(t *testing.T) {
	m, hash := bumped(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := newProxy(t, m.url, func(rpcCall, *rpcAnswer) { cancel() })
	c, err := chain.Dial(t.Context(), p.URL, chain.Options{PerSecond: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := newReplayer(t, replay.Options{}).Replay(ctx, replay.Job{Client: c, Tx: hash}); replay.Code(err) != replay.CodeCancelled {
		t.Errorf("%v", err)
	}
}

// An endless loop is cut off in the middle, by the caller and by the time limit,
// with and without a trace. The block is final and in memory, so that there is
// nothing else to wait for; whoever is not cut off would succeed.
func TestCancelInALoop(t *testing.T) {
	m := onDevChain(t)
	hash := m.call(1, &m.machine, 0, m.pack(m.machineABI, "refuse", big.NewInt(4)), 25_000_000)
	m.seal()
	r := newReplayer(t, replay.Options{})
	job := replay.Job{Client: m.c, Tx: hash}
	for range 3 {
		if res, err := r.Replay(t.Context(), job); err != nil || exact(res) != nil {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	for name, trace := range map[string]io.Writer{"plain": nil, "traced": io.Discard} {
		t.Run(name, func(t *testing.T) {
			job.Trace = trace
			var err error
			for range 50 { // the timer may be late
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(time.Millisecond, cancel)
				_, err = r.Replay(ctx, job)
				stop.Stop()
				cancel()
				if err != nil {
					break
				}
			}
			if replay.Code(err) != replay.CodeCancelled {
				t.Errorf("%v", err)
			}
		})
	}
}
