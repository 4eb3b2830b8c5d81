//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"karatum/flight"
	"karatum/store/storetest"
)

// benchAgents is how many agents a filled database has, and benchStream is the
// stream of each.
const (
	benchAgents = 10_000
	benchStream = "main"
)

// BenchmarkIngestGroup commits groups of batches that continue the streams of
// distinct agents, and reports the CPU time of the whole process a batch. It runs
// on an empty database and on one with KARATUM_BENCH_BATCHES batches, 100,000
// where that is not set.
func BenchmarkIngestGroup(b *testing.B) {
	filled := 100_000
	if v := os.Getenv("KARATUM_BENCH_BATCHES"); v != "" {
		var err error
		if filled, err = strconv.Atoi(v); err != nil {
			b.Fatal(err)
		}
	}
	for _, batches := range []int{0, filled} {
		dir := b.TempDir()
		fillFor(b, dir, batches)
		for _, size := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("filled=%d/group=%d", batches, size), func(b *testing.B) { benchIngest(b, dir, batches, size) })
		}
	}
}

func fillFor(b *testing.B, dir string, batches int) {
	opt := options(b, dir)
	s, err := Open(b.Context(), opt)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if batches == 0 {
		return
	}
	start := time.Now()
	err = storetest.Fill(b.Context(), filepath.Join(dir, FileName), storetest.Shape{
		Agents: benchAgents, Batches: batches, Stream: benchStream, ReceivedAt: 1_600_000_000_000, Seal: opt.Seal})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("filled %d batches in %v", batches, time.Since(start))
}

// benchIngest inserts groups as the application does: look around, spend quota,
// insert. Each group is one job a batch, which all wait when the writer is free.
func benchIngest(b *testing.B, dir string, filled, size int) {
	opt := options(b, dir)
	opt.Seal = func(rs []*flight.Receipt) error { // signing is not the store's cost
		root := flight.Hash{1}
		for i, r := range rs {
			r.Group = &flight.ReceiptGroup{Root: root, Size: uint64(len(rs)), Proof: flight.Proof{Index: uint64(i)}}
		}
		return nil
	}
	start := time.Now()
	s := openStore(b, opt)
	opened := time.Since(start)
	defer s.Close()
	next := map[int]uint64{}
	var jobs []*job
	agent := 0
	var cpu time.Duration
	done := 0
	for b.Loop() {
		b.StopTimer()
		jobs = jobs[:0]
		for range size {
			agent = (agent + 1) % 1024
			index, ok := next[agent]
			if !ok {
				index = firstFree(b, s, agent)
			}
			next[agent] = index + 1
			jobs = append(jobs, ingestJob(storetest.Header(agent*7%benchAgents, benchStream, index)))
		}
		b.StartTimer()
		before := cpuTime(b)
		if err := s.onWriter(context.Background(), func(w *writer) error { w.run(jobs); return nil }); err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime(b) - before
		for _, j := range jobs {
			if err := <-j.done; err != nil {
				b.Fatal(err)
			}
		}
		done += size
	}
	b.ReportMetric(float64(cpu.Microseconds())/float64(done), "cpu-µs/batch")
	b.ReportMetric(float64(s.Stats().Checkpoints), "checkpoints")
	b.ReportMetric(float64(opened.Milliseconds()), "open-ms")
}

func firstFree(b *testing.B, s *Store, agent int) (index uint64) {
	err := s.View(b.Context(), func(tx *ReadTx) error {
		st, err := tx.Stream(b.Context(), storetest.AgentAddress(agent*7%benchAgents), benchStream)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		index = st.LastIndex + 1
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return index
}

func ingestJob(h flight.Header) *job {
	ctx := context.Background()
	id := h.ID()
	return &job{ctx: ctx, done: make(chan error, 1), fn: func(tx *Tx) error {
		same, _, _, err := tx.Around(ctx, h.Agent, h.Stream, h.Index)
		if err != nil || same != nil {
			return errors.Join(err, fmt.Errorf("index %d: %v", h.Index, same))
		}
		if _, ok, err := tx.SpendQuota(ctx, h.Agent, tx.Now(), 1<<30); err != nil || !ok {
			return errors.Join(err, errors.New("quota"))
		}
		_, err = tx.InsertBatch(ctx, flight.Batch{Header: h, Scheme: flight.EIP712}, id, tx.Now(), tx.Now()/1000)
		return err
	}}
}

// cpuTime returns what the process has used so far.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
