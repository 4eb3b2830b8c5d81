package recorder

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"karatum/flight"
	"karatum/flight/recorder/internal/testnode"
)

// A life is a journal that everything happens to, in small files, and the node
// that watches.
type life struct {
	t     *rapid.T
	key   *flight.Key
	node  *testnode.Node
	dir   string
	saved string                           // directory of a snapshot, empty before the first
	fault atomic.Pointer[testnode.Refusal] // of the next answers to posts
	rec   *Recorder
	refs  map[Ref]int // recorded steps that no accident touched, with their value
	n     int
}

func (l *life) open() {
	r, err := Open(l.t.Context(), Options{
		Journal: l.dir, Signer: Local(l.key), NodeURL: "http://node", HTTPClient: &http.Client{Transport: direct{l.node}},
		Interval: time.Hour, RetainPlaintext: true, SegmentBytes: 3000, Fsync: FsyncNever,
	})
	if err != nil {
		l.t.Fatalf("open: %v", err)
	}
	l.rec = r
}

func (l *life) record(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "steps") {
		ref, err := l.rec.Record(t.Context(), Step{Kind: "note", Result: l.n})
		if err != nil {
			t.Fatal(err)
		}
		l.refs[ref] = l.n
		l.n++
	}
}

func (l *life) flush(t *rapid.T) {
	l.fault.Store(rapid.SampledFrom([]*testnode.Refusal{nil, nil, {}, {Status: 503}, {Status: 425, Code: "CLOCK_SKEW"}}).Draw(t, "fault"))
	err := l.rec.Flush(t.Context())
	l.fault.Store(nil)
	if err != nil && l.rec.Status().Waiting == 0 && !l.rec.Status().Inflight {
		t.Fatalf("flush = %v, yet nothing waits", err)
	}
}

func (l *life) restart(*rapid.T) {
	closeNow(l.rec)
	l.open()
}

// cut loses the end of the last file.
func (l *life) cut(t *rapid.T) {
	closeNow(l.rec)
	segs, _, err := listSegments(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	path := segs[len(segs)-1].path
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(rapid.IntRange(0, len(data)).Draw(t, "left"))); err != nil {
		t.Fatal(err)
	}
	clear(l.refs)
	l.open()
}

func (l *life) save(t *rapid.T) {
	closeNow(l.rec)
	l.saved = filepath.Join(filepath.Dir(l.dir), "saved")
	if err := os.RemoveAll(l.saved); err != nil {
		t.Fatal(err)
	}
	copyAll(t, l.dir, l.saved)
	l.open()
}

// restore puts a snapshot in place of the journal, sometimes with a guard that
// vouches for it.
func (l *life) restore(t *rapid.T) {
	if l.saved == "" {
		return
	}
	closeNow(l.rec)
	if err := os.RemoveAll(l.dir); err != nil {
		t.Fatal(err)
	}
	copyAll(t, l.saved, l.dir)
	if rapid.Bool().Draw(t, "blind") {
		rd, err := OpenReader(l.dir)
		if err != nil {
			t.Fatal(err)
		}
		last := rd.src.(*segments).last
		if err := writeGuard(l.dir, last.Stream, int64(last.Index)-1); err != nil {
			t.Fatal(err)
		}
	}
	clear(l.refs)
	l.open()
}

func copyAll(t *rapid.T, from, to string) {
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, f.Name()), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// honest fails once the node has seen two histories.
func (l *life) honest(t *rapid.T) {
	for _, e := range l.node.Evidence() {
		t.Fatalf("equivocation %s: batches %d and %d of %s", e.Reason, e.A.Header.Index, e.B.Header.Index, e.A.Header.Stream)
	}
}

// TestLife lets a journal be written, delivered over a bad line, restarted, cut,
// saved and restored in any order. The node must never see two histories; what no
// accident touched must be delivered and open; the journal must be sound.
func TestLife(t *testing.T) {
	key, err := flight.KeyFromBytes(append(make([]byte, 31), 7))
	if err != nil {
		t.Fatal(err)
	}
	tmp := memoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		node, err := testnode.New()
		if err != nil {
			rt.Fatal(err)
		}
		base, err := os.MkdirTemp(tmp, "life")
		if err != nil {
			rt.Fatal(err)
		}
		l := &life{t: rt, key: key, node: node, dir: filepath.Join(base, "journal"), refs: map[Ref]int{}}
		node.After = func(flight.Header) *testnode.Refusal { return l.fault.Load() }
		l.open()
		defer func() { closeNow(l.rec) }()
		rt.Repeat(map[string]func(*rapid.T){
			"record": l.record, "flush": l.flush, "restart": l.restart, "cut": l.cut, "save": l.save, "restore": l.restore, "": l.honest,
		})
		l.end(rt)
	})
}

func (l *life) end(t *rapid.T) {
	if err := l.rec.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.honest(t)
	headers := l.node.Headers()
	for ref, n := range l.refs {
		d, err := l.rec.Disclose(ref.Stream, ref.Seq, "result")
		if err != nil {
			t.Fatalf("step %s/%d: %v", ref.Stream, ref.Seq, err)
		}
		if d.Reveal[0].Value.Num != float64(n) {
			t.Errorf("step %s/%d opens %v, want %d", ref.Stream, ref.Seq, d.Reveal[0].Value.Num, n)
		}
		if !slices.Contains(headers, d.Batch.Header) {
			t.Errorf("the batch of step %s/%d never reached the node", ref.Stream, ref.Seq)
		}
	}
	if rep, err := Check(l.dir); err != nil || len(rep.Problems) > 0 {
		t.Errorf("Check = %+v, %v", rep, err)
	}
}

// FuzzReplay reads any text as a file of a journal: it must not panic, and what it
// accepts must read the same again up to the last whole line.
func FuzzReplay(f *testing.F) {
	head, err := appendSegment(nil, 1, cursor{Stream: "main-00000000"})
	if err != nil {
		f.Fatal(err)
	}
	args := flight.Hash{1}
	s := flight.Step{Stream: "main-00000000", Kind: "note", Status: "ok", Args: &args}
	step := appendStep(nil, &s, s.Hash(), []opening{{"args", flight.Hash{2}, []byte(`"\ud800"`)}})
	f.Add(slices.Concat(head, step))
	f.Add(slices.Concat(head, step[:40]))
	f.Add(slices.Concat(head, appendRaw(nil, "receipt", "receipt", []byte(`{"batchId":"0x00"}`)), step))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := replaySegment("f", 1, data, nil)
		if err != nil {
			return
		}
		again, err := replaySegment("f", 1, data[:r.good], nil)
		if err != nil || again.Seq != r.Seq || again.Prev != r.Prev || len(again.entries) != len(r.entries) || again.torn != 0 {
			t.Errorf("%d whole bytes read again as %+v, %v; want %+v", r.good, again, err, r)
		}
	})
}
