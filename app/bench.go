package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"karatum/flight"
	"karatum/flight/recorder"
)

// A BenchLine is one measurement. CPU is what the process under test spent, user
// and system time of all its threads, which other load on the machine does not
// change much; ratios are of CPU.
type BenchLine struct {
	Name   string   `json:"name"`
	Cores  int      `json:"cores"`            // GOMAXPROCS of the process under test
	Ops    int      `json:"ops"`              // batches, disclosures, steps or replays
	CPU    float64  `json:"cpuMicros"`        // a operation
	Wall   float64  `json:"perSecond"`        // operations a second of wall time
	Ratio  float64  `json:"ratio"`            // to the base line of the same cores
	Base   string   `json:"base,omitempty"`   // name of that line
	Target float64  `json:"target,omitempty"` // the most that Ratio should be
	P50    float64  `json:"p50Millis,omitempty"`
	P99    float64  `json:"p99Millis,omitempty"`
	Errors *int     `json:"errors5xx,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// A BenchReport is the outcome of a benchmark. Its JSON is a documented promise.
type BenchReport struct {
	What  string      `json:"what"`
	Go    string      `json:"go"`
	Cores int         `json:"machineCores"`
	Lines []BenchLine `json:"lines"`
}

// Print writes the report as a table.
func (r *BenchReport) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "bench %s (%s, %d cores)\n%-34s %5s %9s %11s %11s %7s %7s\n", r.What, r.Go, r.Cores,
		"", "cores", "ops", "CPU µs/op", "ops/s", "ratio", "target")
	for _, l := range r.Lines {
		target := "-"
		if l.Target > 0 {
			target = fmt.Sprintf("%.2f", l.Target)
		}
		_, e := fmt.Fprintf(w, "%-34s %5d %9d %11.1f %11.0f %7.2f %7s\n", l.Name, l.Cores, l.Ops, l.CPU, l.Wall, l.Ratio, target)
		err = errors.Join(err, e)
		if l.Errors != nil {
			_, e = fmt.Fprintf(w, "%-34s p50 %.1f ms, p99 %.1f ms, %d answers of 5xx\n", "", l.P50, l.P99, *l.Errors)
			err = errors.Join(err, e)
		} else if l.P50 > 0 {
			_, e = fmt.Fprintf(w, "%-34s p50 %.2f ms, p99 %.2f ms\n", "", l.P50, l.P99)
			err = errors.Join(err, e)
		}
		for _, n := range l.Notes {
			_, e = fmt.Fprintf(w, "%-34s %s\n", "", n)
			err = errors.Join(err, e)
		}
	}
	return err
}

func newReport(what string) *BenchReport {
	return &BenchReport{What: what, Go: runtime.Version(), Cores: runtime.NumCPU()}
}

// coreCounts are one core and all of them.
func coreCounts() []int {
	if n := runtime.NumCPU(); n > 1 {
		return []int{1, n}
	}
	return []int{1}
}

// measure runs op n times on the given cores and returns the line.
func measure(name string, cores, n int, op func(i int) error) (BenchLine, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	runtime.GC()
	before, err := cpuTime()
	if err != nil {
		return BenchLine{}, err
	}
	start := time.Now()
	errs := make([]error, cores)
	var wg sync.WaitGroup
	for c := range cores {
		wg.Go(func() {
			for i := c; i < n && errs[c] == nil; i += cores {
				errs[c] = op(i)
			}
		})
	}
	wg.Wait()
	wall := time.Since(start)
	after, err := cpuTime()
	if err := errors.Join(append(errs, err)...); err != nil {
		return BenchLine{}, fmt.Errorf("%s: %w", name, err)
	}
	return line(name, cores, n, after-before, wall), nil
}

func line(name string, cores, n int, cpu, wall time.Duration) BenchLine {
	return BenchLine{Name: name, Cores: cores, Ops: n, CPU: float64(cpu.Nanoseconds()) / 1e3 / float64(n), Wall: float64(n) / wall.Seconds(), Ratio: 1}
}

// against sets the line's ratio to the base.
func (l BenchLine) against(base BenchLine, target float64) BenchLine {
	l.Ratio, l.Base, l.Target = l.CPU/base.CPU, base.Name, target
	return l
}

// bareRecovery is the yardstick: recover the signers of signed batches, nothing
// else.
func bareRecovery(cores int, batches []flight.Batch) (BenchLine, error) {
	digests := make([]flight.Hash, len(batches))
	for i := range batches {
		digests[i] = batches[i].Header.Digest(batches[i].Scheme)
	}
	return measure("bare signature recovery", cores, len(batches), func(i int) error {
		_, err := batches[i].Signature.Recover(digests[i])
		return err
	})
}

// BenchVerify compares the verification of disclosures from their JSON with bare
// recovery: batches of 256 steps, a claim opened.
func BenchVerify(ctx context.Context) (*BenchReport, error) {
	const n = 4000
	docs, batches, err := benchDisclosures(64)
	if err != nil {
		return nil, err
	}
	r := newReport("verify")
	for _, cores := range coreCounts() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		base, err := bareRecovery(cores, repeat(batches, n))
		if err != nil {
			return nil, err
		}
		full, err := measure("verify a disclosure", cores, n, func(i int) error {
			d, err := flight.ParseDisclosure(docs[i%len(docs)])
			if err != nil {
				return err
			}
			return d.Verify().Err()
		})
		if err != nil {
			return nil, err
		}
		r.Lines = append(r.Lines, base, full.against(base, 1.5))
	}
	return r, nil
}

func repeat[T any](s []T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = s[i%len(s)]
	}
	return out
}

// benchDisclosures makes n disclosures, each of its own batch of 256 steps.
func benchDisclosures(n int) ([][]byte, []flight.Batch, error) {
	key, err := flight.NewKey()
	if err != nil {
		return nil, nil, err
	}
	docs, batches := make([][]byte, n), make([]flight.Batch, n)
	for i := range n {
		steps, opening, err := benchSteps(key.Address(), fmt.Sprintf("bench-%d", i), 256)
		if err != nil {
			return nil, nil, err
		}
		h, err := headerOf(steps)
		if err != nil {
			return nil, nil, err
		}
		batches[i] = h.Sign(key, flight.EIP712)
		d, err := flight.NewDisclosure(batches[i], steps, 100, opening)
		if err != nil {
			return nil, nil, err
		}
		if docs[i], err = json.Marshal(d); err != nil {
			return nil, nil, err
		}
	}
	return docs, batches, nil
}

// BenchRecord compares recorder.Record at 1 KiB of values with what it cannot do
// without: two commitments and the step hash. The journal is on disk, its fsync
// left to the interval, as recorders run; a recorder is one chain, so each core has
// its own.
func BenchRecord(ctx context.Context) (*BenchReport, error) {
	const n = 20_000
	r := newReport("record")
	text := benchText(512)
	for _, cores := range coreCounts() {
		base, err := measure("two commitments and a step hash", cores, n, func(int) error { return bareStep(text) })
		if err != nil {
			return nil, err
		}
		full, err := benchRecorder(ctx, cores, n, text)
		if err != nil {
			return nil, err
		}
		r.Lines = append(r.Lines, base, full.against(base, 1.5))
	}
	return r, nil
}

func benchRecorder(ctx context.Context, cores, n int, text string) (l BenchLine, err error) {
	dir, err := os.MkdirTemp("", "karatum-bench-")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	recs := make([]*recorder.Recorder, cores)
	for i := range recs {
		key, err := flight.NewKey()
		if err != nil {
			return l, err
		}
		recs[i], err = recorder.Open(ctx, recorder.Options{
			Journal: filepath.Join(dir, strconv.Itoa(i)), Signer: recorder.Local(key), RetainPlaintext: true})
		if err != nil {
			return l, err
		}
		defer func() { err = errors.Join(err, recs[i].Close(ctx)) }()
	}
	return measure("recorder.Record, 1 KiB of values", cores, n, func(i int) error {
		_, err := recs[i%cores].Record(ctx, recorder.Step{Kind: "tool", Name: "bench", Args: text, Result: text})
		return err
	})
}
