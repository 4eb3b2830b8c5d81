package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"karatum/app/load"
	"karatum/store"
)

// BenchPagesOptions say on how much data [BenchPages] measures.
type BenchPagesOptions struct {
	Binary   string        // karatum, run as a node in a process of its own
	Schema   string        // the text of schema.sql
	Data     string        // directory that is filled, or was by an earlier run; a temporary one where empty
	Temp     string        // where that goes; the system's temporary directory
	Batches  int           // to fill with; 20,000
	Steps    int           // opened ones; 2,000
	Requests int           // of each page, at the least; 200
	Busy     int           // of each page beside a load of batches; 20, none where negative
	Idle     time.Duration // how long the idle node is watched; 0 leaves that out
}

// Targets of the pages: on one core, in milliseconds to the first byte; and of the
// first view, with an empty cache.
const (
	targetP95   = 20
	targetP99   = 60
	targetView  = 90_000 // bytes
	targetFiles = 7
)

// shared is the share of the time without a core from which the report says so.
const shared = 0.10

// A PageLine is how one kind of page came, in milliseconds from the request to the
// first byte of the answer.
type PageLine struct {
	Page   string    `json:"page"`
	Cold   PageTimes `json:"cold"` // after the start, the file evicted from the system's cache
	Warm   PageTimes `json:"warm"`
	Bytes  int       `json:"bytes"`  // of the largest body, compressed
	View   int       `json:"view"`   // bytes of a first view, 0 for what is no page
	Files  int       `json:"files"`  // of a first view
	Missed bool      `json:"missed"` // a target
}

// PageTimes are the distribution of one series of requests.
type PageTimes struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50Millis"`
	P95      float64 `json:"p95Millis"`
	P99      float64 `json:"p99Millis"`
	Worst    float64 `json:"worstMillis"`
}

// A BenchPagesReport is the outcome of [BenchPages]. Its JSON is a documented
// promise.
type BenchPagesReport struct {
	Go       string     `json:"go"`
	Batches  uint64     `json:"batches"`
	Steps    uint64     `json:"openedSteps"`
	Database int64      `json:"databaseBytes"`
	Filled   float64    `json:"fillSeconds,omitempty"`
	Start    float64    `json:"startMillis"` // from the start of the process until it answers
	RSS      float64    `json:"rssBytes"`    // after all pages
	Waited   float64    `json:"waitedShare"` // of the warm series: the node was ready and had no core
	IdleCPU  float64    `json:"idleCPUShare,omitempty"`
	Busy     PageTimes  `json:"busy"`                 // of all pages together, while batches are taken in without pause
	BusyRate float64    `json:"busyBatchesPerSecond"` // taken in meanwhile
	Pages    []PageLine `json:"pages"`
	Unasked  []string   `json:"unasked"` // pages of the server that the benchmark does not know
}

// BenchPages measures every page of a node with a filled database: the node runs in
// a process of its own on one core, this process asks, in a shuffled order, one
// request at a time.
func BenchPages(ctx context.Context, o BenchPagesOptions) (_ *BenchPagesReport, err error) {
	o.defaults()
	r := &BenchPagesReport{Go: runtime.Version(), Unasked: []string{}}
	if o.Data == "" {
		dir, err := os.MkdirTemp(o.Temp, "karatum-bench-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		o.Data = filepath.Join(dir, "data")
	}
	targets, err := o.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.Data, store.FileName)
	if err := evict(file); err != nil {
		return nil, err
	}
	node, err := load.Start(ctx, load.Options{Binary: o.Binary, Data: o.Data, Env: []string{"GOMAXPROCS=1"},
		Args: []string{"--ip-rate", "0", "--batch-quota", strconv.Itoa(math.MaxInt32), "--anchor-cron", "@every 24h"}})
	if err != nil {
		return nil, err
	}
	defer node.Kill()
	r.Start = millis(node.Ready)
	if err := o.measure(ctx, node, targets, r); err != nil {
		return nil, errors.Join(err, errors.New(node.LogTail()))
	}
	return r, nil
}

func (o *BenchPagesOptions) defaults() {
	for _, d := range []struct {
		v   *int
		def int
	}{{&o.Batches, 20_000}, {&o.Steps, 2_000}, {&o.Requests, 200}, {&o.Busy, 20}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
}

// prepare fills the directory and looks what there is to ask for, while no other
// process has it.
func (o *BenchPagesOptions) prepare(ctx context.Context, r *BenchPagesReport) (targets []pageTarget, err error) {
	if _, err := OpenDir(o.Data); err != nil {
		return nil, err
	}
	lock, err := store.LockDir(o.Data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := o.fill(ctx, r); err != nil {
		return nil, err
	}
	return o.look(ctx, r)
}

// fill makes the database unless an earlier run has.
func (o *BenchPagesOptions) fill(ctx context.Context, r *BenchPagesReport) error {
	done, err := filled(o.Data)
	if err != nil || done {
		return err
	}
	start := time.Now()
	if err := fillPages(ctx, o.Data, o.Schema, o.Batches, o.Steps); err != nil {
		return fmt.Errorf("fill %s: %w", o.Data, err)
	}
	r.Filled = time.Since(start).Seconds()
	return nil
}

// look opens the database once to see what there is to ask for.
func (o *BenchPagesOptions) look(ctx context.Context, r *BenchPagesReport) (targets []pageTarget, err error) {
	st, err := store.Open(ctx, store.Options{Dir: o.Data, Schema: o.Schema, Now: time.Now, MustExist: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	err = st.View(ctx, func(tx *store.ReadTx) error {
		c, err := tx.Counts(ctx)
		r.Batches, r.Steps = c.Batches, c.Steps
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Database = st.Stats().FileBytes
	return survey(ctx, st)
}

func (o *BenchPagesOptions) measure(ctx context.Context, node *load.Child, targets []pageTarget, r *BenchPagesReport) error {
	status, openapi, err := node.Raw(ctx, "/v1/openapi.json")
	if err != nil || status != http.StatusOK {
		return errors.Join(err, fmt.Errorf("the server's description: status %d", status))
	}
	targets, unknown, err := extend(targets, openapi)
	if err != nil {
		return err
	}
	targets, unknown, err = discover(ctx, node.URL, targets, unknown)
	if err != nil {
		return err
	}
	r.Unasked = append(r.Unasked, unknown...)
	cold, err := series(ctx, node, targets, 0)
	if err != nil {
		return err
	}
	if err := feed(ctx, node); err != nil {
		return err
	}
	start, before := time.Now(), node.Waited()
	warm, err := series(ctx, node, targets, o.Requests)
	if err != nil {
		return err
	}
	r.Waited = (node.Waited() - before).Seconds() / time.Since(start).Seconds()
	if r.RSS, err = node.Metric(ctx, "process_resident_memory_bytes"); err != nil {
		return err
	}
	if r.IdleCPU, err = idle(ctx, node, o.Idle); err != nil {
		return err
	}
	if o.Busy > 0 {
		busy, rate, err := beside(ctx, node, func() ([][]load.Answer, error) { return series(ctx, node, few(targets, o.Busy), o.Busy) })
		if err != nil {
			return err
		}
		r.Busy, r.BusyRate = timesOf(slices.Concat(busy...)), rate
	}
	for i, t := range targets {
		l := PageLine{Page: t.Name, Cold: timesOf(cold[i]), Warm: timesOf(warm[i])}
		if len(t.Asks) > 0 && t.Asks[0].Status == http.StatusOK {
			view, err := load.FirstView(ctx, node.URL, t.Asks[0].Path)
			if err != nil {
				return err
			}
			l.View, l.Files = view.Bytes, view.Files
		}
		for _, a := range slices.Concat(cold[i], warm[i]) {
			l.Bytes = max(l.Bytes, a.Bytes)
		}
		l.Missed = l.Cold.missed() || l.Warm.missed() || l.View > targetView || l.Files > targetFiles
		r.Pages = append(r.Pages, l)
	}
	return nil
}

// series asks for every address once and again until there are n requests of each
// target, in a shuffled order, and returns the answers by target.
func series(ctx context.Context, node *load.Child, targets []pageTarget, n int) ([][]load.Answer, error) {
	var asks []load.Ask
	var of []int
	for i, t := range targets {
		for k := range max(n, len(t.Asks)) {
			if len(t.Asks) > 0 {
				asks, of = append(asks, t.Asks[k%len(t.Asks)]), append(of, i)
			}
		}
	}
	rand.New(rand.NewPCG(5, 6)).Shuffle(len(asks), func(i, j int) { asks[i], asks[j], of[i], of[j] = asks[j], asks[i], of[j], of[i] })
	answers, err := load.Pages(ctx, node.URL, asks)
	if err != nil {
		return nil, err
	}
	out := make([][]load.Answer, len(targets))
	for i, a := range answers {
		out[of[i]] = append(out[of[i]], a)
	}
	return out, nil
}

// feed sends a few batches, so that the front page has events to show.
func feed(ctx context.Context, node *load.Child) error {
	bodies, _, err := load.Bodies(16, 8, uint64(time.Now().Unix()))
	if err != nil {
		return err
	}
	_, err = load.Bulk(ctx, node.URL, bodies, BulkChunk)
	return err
}

// few keeps the first n addresses of each target.
func few(targets []pageTarget, n int) []pageTarget {
	out := slices.Clone(targets)
	for i := range out {
		out[i].Asks = out[i].Asks[:min(n, len(out[i].Asks))]
	}
	return out
}

// beside runs a series while batches are taken in without pause, and returns how
// many a second.
func beside(ctx context.Context, node *load.Child, run func() ([][]load.Answer, error)) ([][]load.Answer, float64, error) {
	const clients, each = 64, 16
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	first, _, err := load.Bodies(clients, each, uint64(time.Now().Unix()))
	if err != nil {
		return nil, 0, err
	}
	type written struct {
		n   int
		err error
	}
	done, writes := make(chan struct{}), make(chan written, 1)
	go func() {
		var w written
		for bodies := first; w.err == nil; {
			var res *load.Result
			if res, w.err = load.Bulk(ctx, node.URL, bodies, BulkChunk); w.err == nil {
				w.n += res.OK
				bodies, _, w.err = load.Bodies(clients, each, uint64(time.Now().Unix()))
			}
			select {
			case <-done:
				writes <- w
				return
			default:
			}
		}
		writes <- w
	}()
	start := time.Now()
	answers, err := run()
	close(done)
	wall := time.Since(start)
	w := <-writes
	return answers, float64(w.n) / wall.Seconds(), errors.Join(err, w.err)
}

// idle returns the share of one core that the node takes while nobody asks.
func idle(ctx context.Context, node *load.Child, d time.Duration) (float64, error) {
	if d <= 0 {
		return 0, nil
	}
	before, err := node.CPU(ctx)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := node.CPU(ctx)
	return (after - before).Seconds() / d.Seconds(), err
}

func timesOf(answers []load.Answer) (t PageTimes) {
	times := make([]time.Duration, len(answers))
	for i, a := range answers {
		times[i] = a.First
	}
	slices.Sort(times)
	at := func(p int) float64 {
		if len(times) == 0 {
			return 0
		}
		return millis(times[min(len(times)*p/100, len(times)-1)])
	}
	return PageTimes{len(times), at(50), at(95), at(99), at(100)}
}

// missed judges the 95th percentile only where one request does not make it.
func (t PageTimes) missed() bool {
	return t.Requests >= 20 && t.P95 > targetP95 || t.P99 > targetP99
}

// Missed returns how many pages miss a target, those not asked for included.
func (r *BenchPagesReport) Missed() (n int) {
	for _, l := range r.Pages {
		if l.Missed {
			n++
		}
	}
	return n + len(r.Unasked)
}

// Print writes the report as a table.
func (r *BenchPagesReport) Print(w io.Writer) error {
	var errs []error
	put := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	put("bench pages (%s, the node on 1 core): %d batches, %d opened steps, %d MB of database\n", r.Go, r.Batches, r.Steps, r.Database>>20)
	if r.Filled > 0 {
		put("filled in %.1f s\n", r.Filled)
	}
	put("started in %.0f ms; %.0f MB resident after all pages", r.Start, r.RSS/(1<<20))
	if r.IdleCPU > 0 {
		put("; idle it takes %.2f %% of a core", r.IdleCPU*100)
	}
	if r.Waited > shared {
		put("\nother load kept the node off its core for %.0f %% of the warm series: the tails below are the machine's", r.Waited*100)
	}
	put("\nmilliseconds to the first byte; targets: p95 under %d, p99 under %d, cold and warm; first view under %d bytes in %d files\n\n", targetP95, targetP99, targetView, targetFiles)
	put("%-42s %20s %5s %26s %7s %7s %5s\n", "", "cold p50   p95   p99", "asked", "warm p50   p95   p99 worst", "bytes", "first", "files")
	for _, l := range r.Pages {
		missed := ""
		if l.Missed {
			missed = "  MISSED"
		}
		put("%-42s %8.1f %5.1f %5.1f %5d %8.1f %5.1f %5.1f %5.1f %7d %7d %5d%s\n", l.Page, l.Cold.P50, l.Cold.P95, l.Cold.P99, l.Cold.Requests,
			l.Warm.P50, l.Warm.P95, l.Warm.P99, l.Warm.Worst, l.Bytes, l.View, l.Files, missed)
	}
	if r.Busy.Requests > 0 {
		put("%-42s %8.1f %5.1f %5.1f %5d  beside %.0f batches a second in bulk\n", "all pages, busy", r.Busy.P50, r.Busy.P95, r.Busy.P99, r.Busy.Requests, r.BusyRate)
	}
	for _, p := range r.Unasked {
		put("%-42s MISSED: the benchmark does not know what to ask of it\n", p)
	}
	put("\n%d of %d pages miss a target\n", r.Missed(), len(r.Pages)+len(r.Unasked))
	return errors.Join(errs...)
}
