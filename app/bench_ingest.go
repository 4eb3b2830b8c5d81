package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"karatum/app/load"
)

// BenchIngestOptions shape the load of [BenchIngest]. Zero values take the
// defaults.
type BenchIngestOptions struct {
	Binary  string        // karatum, run as a node in a process of its own
	Clients int           // connections at once; 500
	Batches int           // of each measured run; 10,000
	Seed    int           // batches in the database before a second pair of runs; 0 leaves it out
	Seeder  Seeder        // fills a database; needed with Seed
	Temp    string        // where the databases go; the system's temporary directory
	Timeout time.Duration // of each run; 5 minutes
}

// A Seeder fills the database of a fresh data directory with n batches without
// going through the API.
type Seeder func(ctx context.Context, dir string, n int) error

// Targets of the node's CPU per batch, in bare recoveries.
const (
	targetSingle = 2.5
	targetBulk   = 1.8
	targetFlat   = 1.3 // a seeded database against an empty one
)

// BenchIngest measures what a batch costs the node, over real HTTP onto a real
// file with FULL sync, against one bare signature recovery on the same cores. The
// node runs in a process of its own, on one core and on all; this process is the
// load. Quotas and address limits are switched off by flags.
func BenchIngest(ctx context.Context, o BenchIngestOptions) (*BenchReport, error) {
	o.defaults()
	r := newReport("ingest")
	bodies, batches, err := load.Bodies(o.Clients, o.Batches/o.Clients, uint64(time.Now().Unix()))
	if err != nil {
		return nil, err
	}
	seeds := []int{0}
	if o.Seed > 0 {
		seeds = append(seeds, o.Seed)
	}
	empty := map[string]BenchLine{}
	for _, cores := range coreCounts() {
		base, err := bareRecovery(cores, batches[:min(len(batches), 4000)])
		if err != nil {
			return nil, err
		}
		r.Lines = append(r.Lines, base)
		for _, seed := range seeds {
			lines, err := o.runs(ctx, cores, seed, bodies)
			if err != nil {
				return nil, err
			}
			for i, target := range []float64{targetSingle, targetBulk} {
				l := lines[i].against(base, target)
				key := strconv.Itoa(cores) + l.Name
				if seed == 0 {
					empty[key] = l
				} else {
					l.Notes = append(l.Notes, fmt.Sprintf("on %d batches: %.2f times the CPU of an empty database (target %.1f)", seed, l.CPU/empty[key].CPU, targetFlat))
				}
				r.Lines = append(r.Lines, l)
			}
		}
	}
	return r, nil
}

func (o *BenchIngestOptions) defaults() {
	if o.Clients <= 0 {
		o.Clients = 500
	}
	if o.Batches <= 0 {
		o.Batches = 10_000
	}
	o.Batches = max(o.Batches/o.Clients, 1) * o.Clients
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
}

// runs measures single posts and bulk, each on a database of its own.
func (o *BenchIngestOptions) runs(ctx context.Context, cores, seed int, bodies [][][]byte) ([]BenchLine, error) {
	lines := make([]BenchLine, 2)
	bulk := func(ctx context.Context, url string, bodies [][][]byte) (*load.Result, error) {
		return load.Bulk(ctx, url, bodies, BulkChunk)
	}
	for i, run := range []struct {
		name string
		send func(context.Context, string, [][][]byte) (*load.Result, error)
	}{{fmt.Sprintf("ingest, single, %d clients", o.Clients), load.Singles}, {"ingest, bulk of 256", bulk}} {
		l, err := o.oneRun(ctx, cores, seed, run.name, func(ctx context.Context, url string) (*load.Result, error) { return run.send(ctx, url, bodies) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", run.name, err)
		}
		lines[i] = l
	}
	return lines, nil
}

func (o *BenchIngestOptions) oneRun(ctx context.Context, cores, seed int, name string, send func(context.Context, string) (*load.Result, error)) (l BenchLine, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	dir, err := os.MkdirTemp(o.Temp, "karatum-bench-")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	if seed > 0 {
		if err := o.Seeder(ctx, data, seed); err != nil {
			return l, fmt.Errorf("seed: %w", err)
		}
	}
	node, err := load.Start(ctx, load.Options{Binary: o.Binary, Data: data, Env: []string{fmt.Sprintf("GOMAXPROCS=%d", cores)},
		Args: []string{"--ip-rate", "0", "--batch-quota", strconv.Itoa(math.MaxInt32), "--anchor-cron", "@every 24h"}})
	if err != nil {
		return l, err
	}
	defer node.Kill()
	before, err := node.CPU(ctx)
	if err != nil {
		return l, err
	}
	res, err := send(ctx, node.URL)
	if err != nil {
		return l, errors.Join(err, errors.New(node.LogTail()))
	}
	after, err := node.CPU(ctx)
	if err != nil {
		return l, err
	}
	l = line(name, cores, res.OK, after-before, res.Wall)
	l.P50, l.P99, l.Errors = res.Percentile(0.50), res.Percentile(0.99), &res.Server
	if res.Other > 0 {
		return l, fmt.Errorf("%d answers were neither 2xx nor 5xx, such as %s", res.Other, res.Sample)
	}
	return l, nil
}
