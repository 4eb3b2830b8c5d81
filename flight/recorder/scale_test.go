package recorder

import (
	"runtime"
	"testing"
	"time"
)

// TestManySteps writes a long stream over many files: what the recorder keeps in
// memory must not grow with it, opening must read the last file only, and old steps
// must be found and delivered. The times are printed, not judged.
func TestManySteps(t *testing.T) {
	steps := manySteps
	if cutEvery > 1 {
		steps = 20_000
	}
	s := newSetup(t)
	opt := s.options()
	opt.NodeURL = "" // offline while it grows
	opt.SegmentBytes = 4 << 20
	r, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var early uint64
	for i := range steps {
		if _, err := r.Record(t.Context(), Step{Kind: "note", Result: i}); err != nil {
			t.Fatal(err)
		}
		if i == steps/5 {
			early = heap()
		}
	}
	late := heap()
	t.Logf("%d steps in %v, heap %d KiB after a fifth, %d KiB at the end", steps, time.Since(start), early>>10, late>>10)
	if late > early+8<<20 {
		t.Errorf("heap grew from %d to %d KiB", early>>10, late>>10)
	}
	closeNow(r)

	start = time.Now()
	r = s.open()
	t.Logf("reopened in %v", time.Since(start))
	flush(t, r)
	t.Logf("delivered after %v", time.Since(start))
	if got, want := len(s.node.Headers()), (steps+65535)/65536; got != want {
		t.Errorf("the node holds %d batches, want %d merged ones", got, want)
	}
	checkNode(t, s.node)
	for _, seq := range []uint64{0, uint64(steps / 2), uint64(steps - 1)} {
		start = time.Now()
		d, err := r.Disclose("main", seq, "result")
		if err != nil {
			t.Fatal(err)
		}
		if d.Reveal[0].Value.Num != float64(seq) {
			t.Errorf("step %d opens %v", seq, d.Reveal[0].Value)
		}
		t.Logf("step %d disclosed in %v", seq, time.Since(start))
	}
	if rep, err := Check(s.dir); err != nil || len(rep.Problems) > 0 || rep.Steps != steps {
		t.Errorf("Check = %+v, %v", rep, err)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
