package app

import (
	"errors"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/store"
)

// TestSealedStep asks for the steps at the edges of the batches and gaps of a filled
// database and compares the answers with what whole lists of batches say.
func TestSealedStep(t *testing.T) {
	a := filledApp(t, 1000, 200)
	agents, err := a.Agents(t.Context(), Page{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, agent := range agents.Items {
		streams, err := a.Streams(t.Context(), agent.Address, Page{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range streams.Items {
			checkSealed(t, a, &s, seen)
		}
	}
	for _, what := range []string{"first", "last", "inside", NeighborOpened, NeighborSealed, NeighborMissing, "gap", "past"} {
		if seen[what] == 0 {
			t.Errorf("no answer was of the kind %q: %v", what, seen)
		}
	}
}

func checkSealed(t *testing.T, a *App, s *StreamView, seen map[string]int) {
	t.Helper()
	var batches []store.Batch // the highest index first
	if _, err := walk(t.Context(), a.store, func(tx *store.ReadTx, p store.Page) ([]store.Batch, string, error) {
		return tx.StreamBatches(t.Context(), s.Agent, s.Stream, p)
	}, func(b store.Batch) { batches = append(batches, b) }); err != nil {
		t.Fatal(err)
	}
	asked := map[uint64]bool{}
	for _, b := range batches {
		h := &b.Batch.Header
		for _, seq := range []uint64{h.FromSeq - min(h.FromSeq, 1), h.FromSeq, (h.FromSeq + h.ToSeq) / 2, h.ToSeq, h.ToSeq + 1} {
			if !asked[seq] {
				asked[seq] = true
				checkSealedStep(t, a, s, batches, seq, seen)
			}
		}
	}
}

func checkSealedStep(t *testing.T, a *App, s *StreamView, batches []store.Batch, seq uint64, seen map[string]int) {
	t.Helper()
	covers := func(seq uint64) *store.Batch {
		for i := range batches {
			if h := &batches[i].Batch.Header; h.FromSeq <= seq && seq <= h.ToSeq {
				return &batches[i]
			}
		}
		return nil
	}
	v, err := a.SealedStep(t.Context(), s.Agent, s.Stream, seq)
	b := covers(seq)
	if b == nil {
		what, words := "gap", "in a gap"
		if seq > s.Head.ToSeq {
			what, words = "past", "no batch that reaches"
		}
		seen[what]++
		var e *Error
		if !errors.As(err, &e) || e.Code != ErrUnknownStep.Code || !strings.Contains(e.Message, words) {
			t.Errorf("step %d of %s: %v, want %s", seq, s.Stream, err, what)
		}
		return
	}
	if err != nil {
		t.Fatalf("step %d of %s: %v", seq, s.Stream, err)
	}
	h := &b.Batch.Header
	if v.Batch.BatchID != b.ID || v.Index != seq-h.FromSeq || v.Size != h.ToSeq-h.FromSeq+1 || !v.Sealed || v.Batch.Receipt == nil || v.Batch.Receipt.Position != b.Position {
		t.Errorf("step %d of %s: place %d of %d in %s, want batch %s", seq, s.Stream, v.Index, v.Size, v.Batch.BatchID, b.ID)
	}
	if last := seq == h.ToSeq; last != (v.StepHash != nil) || last && *v.StepHash != h.Head {
		t.Errorf("step %d of %s: hash %v, the head of its batch %s", seq, s.Stream, v.StepHash, h.Head)
	}
	if first := seq == h.FromSeq; first != (v.Prev != nil) || first && *v.Prev != h.PrevHead {
		t.Errorf("step %d of %s: hash of the step before %v, the batch's %s", seq, s.Stream, v.Prev, h.PrevHead)
	}
	seen[map[bool]string{true: "first"}[v.Prev != nil]]++
	seen[map[bool]string{true: "last"}[v.StepHash != nil]]++
	seen[map[bool]string{true: "inside"}[v.Prev == nil && v.StepHash == nil]]++
	var beside []SealedNeighbor
	for _, at := range []uint64{seq - min(seq, 1), seq + 1} {
		if at == seq || at > s.Head.ToSeq {
			continue
		}
		n := SealedNeighbor{Seq: at, Known: NeighborSealed}
		if step, err := a.StepAt(t.Context(), s.Agent, s.Stream, at); err == nil {
			n.Known, n.Verdict = NeighborOpened, string(step.Verdict.State)
		} else if covers(at) == nil {
			n.Known = NeighborMissing
		}
		seen[n.Known]++
		beside = append(beside, n)
	}
	if len(beside) != len(v.Neighbors) {
		t.Fatalf("step %d of %s: neighbours %v, want %v", seq, s.Stream, v.Neighbors, beside)
	}
	for i := range beside {
		if beside[i] != v.Neighbors[i] {
			t.Errorf("step %d of %s: neighbour %v, want %v", seq, s.Stream, v.Neighbors[i], beside[i])
		}
	}
}

// A batch's opened steps are read up to a limit, and counted.
func TestBatchSteps(t *testing.T) {
	r := newRig(t, nil)
	author := newAuthor(t, "main")
	author.fill(t, 6)
	b := author.batch(t, flight.EIP712)
	r.mustIngest(b)
	for seq := range uint64(4) {
		if _, err := r.app.Disclose(t.Context(), author.disclose(t, b, seq+1), false); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int]int{1: 1, 3: 3, 4: 4, 9: 4} {
		got, err := r.app.BatchSteps(t.Context(), b.ID(), limit)
		if err != nil || len(got.Steps) != want || got.Count != 4 || got.Steps[0].Seq != 1 {
			t.Errorf("%d at most: %v, %v; want %d of 4", limit, got, err, want)
		}
	}
	if _, err := r.app.BatchSteps(t.Context(), flight.Hash{}, 9); !errors.Is(err, ErrUnknownBatch) {
		t.Errorf("an unknown batch: %v", err)
	}
}
