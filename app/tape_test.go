package app

import (
	"testing"

	"karatum/store"
)

// TestTape draws tapes of many lengths from a filled database and compares them
// with what whole lists of batches, gaps and steps say.
func TestTape(t *testing.T) {
	a := filledApp(t, 3000, 300)
	agents, err := a.Agents(t.Context(), Page{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	seen := struct{ cut, gaps, opened, waiting int }{}
	for _, agent := range agents.Items {
		streams, err := a.Streams(t.Context(), agent.Address, Page{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range streams.Items {
			for _, steps := range []uint64{1, 50, 240, 1 << 40} {
				v, err := a.Tape(t.Context(), s.Agent, s.Stream, steps)
				if err != nil {
					t.Fatal(err)
				}
				checkTape(t, a.store, &s, &v, steps)
				seen.gaps, seen.opened = seen.gaps+len(v.Gaps), seen.opened+len(v.Opened)
				if len(v.Batches) == maxTapeBatches {
					seen.cut++
				}
				if !v.Batches[len(v.Batches)-1].Anchored {
					seen.waiting++
				}
			}
		}
	}
	if seen.cut == 0 || seen.gaps == 0 || seen.opened == 0 || seen.waiting == 0 {
		t.Errorf("the tapes show too little: %+v", seen)
	}
}

func checkTape(t *testing.T, st *store.Store, s *StreamView, v *TapeView, steps uint64) {
	t.Helper()
	var batches []store.Batch
	if _, err := walk(t.Context(), st, func(tx *store.ReadTx, p store.Page) ([]store.Batch, string, error) {
		return tx.StreamBatches(t.Context(), s.Agent, s.Stream, p)
	}, func(b store.Batch) { batches = append(batches, b) }); err != nil {
		t.Fatal(err)
	}
	from := s.Head.ToSeq + 1 - min(steps, s.Head.ToSeq+1)
	var want []store.Batch // newest first
	for _, b := range batches[:min(len(batches), maxTapeBatches)] {
		if b.Batch.Header.ToSeq >= from {
			want = append(want, b)
		}
	}
	if len(want) == maxTapeBatches {
		from = max(from, want[len(want)-1].Batch.Header.FromSeq)
	}
	if v.From != from || v.To != s.Head.ToSeq || len(v.Batches) != len(want) {
		t.Fatalf("%d steps of %s: %d to %d with %d batches, want %d to %d with %d", steps, s.Stream, v.From, v.To, len(v.Batches), from, s.Head.ToSeq, len(want))
	}
	for i, b := range v.Batches {
		if b.BatchID != want[len(want)-1-i].ID {
			t.Fatalf("%d steps of %s: batch %d is %s", steps, s.Stream, i, b.BatchID)
		}
	}
	held := uint64(0) // steps of the part that are in batches or in gaps: all of them
	for _, b := range v.Batches {
		held += b.ToSeq + 1 - max(b.FromSeq, from)
	}
	for i, g := range v.Gaps {
		held += g.Seqs[1] + 1 - max(g.Seqs[0], from)
		if i > 0 && v.Gaps[i-1].Seqs[1] >= g.Seqs[0] {
			t.Errorf("gaps of %s are out of order: %v", s.Stream, v.Gaps)
		}
	}
	if held != v.To+1-from {
		t.Errorf("%d steps of %s: batches and gaps hold %d of %d steps", steps, s.Stream, held, v.To+1-from)
	}
	for _, o := range v.Opened {
		if o.Seq < from || o.Seq > v.To {
			t.Errorf("%d steps of %s: step %d is none of %d to %d", steps, s.Stream, o.Seq, from, v.To)
		}
	}
}
