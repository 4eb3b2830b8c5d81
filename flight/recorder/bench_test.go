package recorder

import (
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

// BenchmarkBare is what no recorder can avoid: the step's commitments and its hash.
func BenchmarkBare(b *testing.B) {
	s := benchStep()
	rec := flight.Step{Stream: "main-01234567", At: 1700000000000, Kind: s.Kind, Status: "ok", Name: s.Name}
	salt := flight.Hash{1}
	for b.Loop() {
		for field, x := range map[string]any{"args": s.Args, "result": s.Result} {
			v, err := canon.From(x)
			if err != nil {
				b.Fatal(err)
			}
			raw, err := v.Canonical()
			if err != nil {
				b.Fatal(err)
			}
			set(&rec, field, flight.Commit(raw, salt))
		}
		rec.Prev = rec.Hash()
		rec.Seq++
	}
}

// BenchmarkRecord must cost at most 1.5 times BenchmarkBare.
func BenchmarkRecord(b *testing.B) {
	key, err := flight.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	r, err := Open(b.Context(), Options{Journal: b.TempDir(), Signer: Local(key), RetainPlaintext: true, Interval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	s := benchStep()
	for b.Loop() {
		if _, err := r.Record(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
