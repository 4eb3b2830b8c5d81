package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/replay"
	"karatum/flight"
)

// BenchReplayOptions name what [BenchReplay] replays. Zero values take the
// defaults.
type BenchReplayOptions struct {
	URLs []string // JSON-RPC of one chain, the preferred first
	Tx   string   // hash of a mined transaction
	Cold int      // replays without caches; 9
	Warm int      // replays of the same block; 100
}

// ErrBenchReplay reports options of [BenchReplay] that name nothing to replay.
var ErrBenchReplay = errors.New("bench replay needs --rpc-url, a JSON-RPC to read the state from, and --tx, the hash of a transaction")

// BenchReplay measures the replay of one transaction, with its block's earlier ones,
// in a process that runs already and is connected: cold, which knows nothing but the
// hash and reads all state; cold once more, but told in which block a verdict saw the
// transaction, as for a step whose claim was checked; and warm, which has the block in
// memory. Ratio is the CPU of a replay to that of a cold
// one; P50 and P99 are wall time, most of which is waiting for the RPC.
func BenchReplay(ctx context.Context, o BenchReplayOptions) (*BenchReport, error) {
	tx, err := o.check()
	if err != nil {
		return nil, err
	}
	if o.Cold < 1 {
		o.Cold = 9
	}
	if o.Warm < 1 {
		o.Warm = 100
	}
	client, err := chain.DialAll(ctx, o.URLs, chain.Options{})
	if err != nil {
		return nil, fmt.Errorf("--rpc-url %s: %w", redactAll(o.URLs), err)
	}
	defer client.Close()
	job := replay.Job{Client: client, Tx: common.Hash(tx)}
	var last *replay.Replayer
	var res replay.Result
	fresh := func() error {
		if last, err = replay.New(replay.Options{}); err != nil {
			return err
		}
		res, err = reproduce(ctx, last, job)
		return err
	}
	cold, err := benchReplays("replay, cold", o.Cold, fresh)
	if err != nil {
		return nil, err
	}
	job.ChainID = res.ChainID
	job.Seen = &replay.Seen{BlockHash: res.BlockHash, BlockNumber: res.ForkBlock + 1}
	if to := res.Outcome.Told.To; to != nil {
		job.Seen.Runs = []common.Address{*to}
	}
	seen, err := benchReplays("replay, cold, block known", o.Cold, fresh)
	if err != nil {
		return nil, err
	}
	job.Seen = nil
	warm, err := benchReplays("replay, warm", o.Warm, func() error {
		_, err := reproduce(ctx, last, job)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := newReport("replay")
	r.Lines = []BenchLine{cold, seen.against(cold, 0), warm.against(cold, 0)}
	return r, nil
}

// check reads the hash of the transaction.
func (o *BenchReplayOptions) check() (flight.Hash, error) {
	tx, err := flight.ParseHash(strings.ToLower(o.Tx))
	if err != nil || len(o.URLs) == 0 {
		return tx, ErrBenchReplay
	}
	return tx, nil
}

// reproduce replays; an outcome that is not the chain's is an error, for it would
// measure something else.
func reproduce(ctx context.Context, r *replay.Replayer, job replay.Job) (replay.Result, error) {
	res, err := r.Replay(ctx, job)
	if err == nil && !res.Reproduced {
		err = fmt.Errorf("%s is not reproduced: %v", job.Tx, res.Differences)
	}
	return res, err
}

// benchReplays runs op n times, one after the other, on all cores.
func benchReplays(name string, n int, op func() error) (BenchLine, error) {
	before, err := cpuTime()
	if err != nil {
		return BenchLine{}, err
	}
	times := make([]time.Duration, n)
	start := time.Now()
	for i := range times {
		at := time.Now()
		if err := op(); err != nil {
			return BenchLine{}, fmt.Errorf("%s: %w", name, err)
		}
		times[i] = time.Since(at)
	}
	wall := time.Since(start)
	after, err := cpuTime()
	if err != nil {
		return BenchLine{}, err
	}
	slices.Sort(times)
	cores := coreCounts()
	l := line(name, cores[len(cores)-1], n, after-before, wall)
	l.P50, l.P99 = millis(times[n/2]), millis(times[n*99/100])
	return l, nil
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
