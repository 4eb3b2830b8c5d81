package recorder

import (
	"slices"
	"strings"
	"testing"
	"time"

	"karatum/flight"
	"karatum/flight/canon"
)

// benchStep has 1 KiB of values.
func benchStep() Step {
	return Step{
		Kind: "tool", Name: "search",
		Args:   map[string]any{"query": strings.Repeat("where is the invoice? ", 10), "limit": 20, "exact": true},
		Result: map[string]any{"text": strings.Repeat("line of an answer; ", 38), "score": 0.25, "ids": []any{1.0, 2.0, 3.0}},
	}
}

// bare is what no recorder can avoid: the step's commitments and its hash.
func bare(b *testing.B, s *Step, rec *flight.Step) {
	for i, x := range []any{s.Args, s.Result} {
		v, err := canon.From(x)
		if err != nil {
			b.Fatal(err)
		}
		raw, err := v.Canonical()
		if err != nil {
			b.Fatal(err)
		}
		set(rec, []string{"args", "result"}[i], flight.Commit(raw, flight.Hash{1}))
	}
	rec.Prev = rec.Hash()
	rec.Seq++
}

func bareStep() flight.Step {
	return flight.Step{Stream: "main-01234567", At: 1700000000000, Kind: "tool", Status: "ok", Name: "search"}
}

func benchRecorder(b *testing.B) *Recorder {
	key, err := flight.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(b.Context(), Options{Journal: b.TempDir(), Signer: Local(key), RetainPlaintext: true, Interval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closeNow(r) })
	return r
}

func BenchmarkBare(b *testing.B) {
	s, rec := benchStep(), bareStep()
	for b.Loop() {
		bare(b, &s, &rec)
	}
}

func BenchmarkRecord(b *testing.B) {
	s, r := benchStep(), benchRecorder(b)
	for b.Loop() {
		if _, err := r.Record(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRatio runs both by turns, so that a busy machine slows both, and reports
// the median of Record over bare. It must not be above 1.5.
func BenchmarkRatio(b *testing.B) {
	s, rec, r := benchStep(), bareStep(), benchRecorder(b)
	var ratios []float64
	for b.Loop() {
		start := time.Now()
		for range 100 {
			bare(b, &s, &rec)
		}
		middle := time.Now()
		for range 100 {
			if _, err := r.Record(b.Context(), s); err != nil {
				b.Fatal(err)
			}
		}
		ratios = append(ratios, float64(time.Since(middle))/float64(middle.Sub(start)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "record/bare")
}
