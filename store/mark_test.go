package store

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"karatum/flight"
)

// The first opened steps of a range are read, no more than asked for, and all of them
// are counted.
func TestStepMarksAreBounded(t *testing.T) {
	s, agent := fresh(t), testAgent(1)
	put(t, s, testBatch(1, "a", 0), testBatch(1, "a", 1))
	update(t, s, func(tx *Tx) error {
		for seq := uint64(1); seq < 20; seq += 2 {
			if err := tx.UpsertStep(t.Context(), testStep(1, seq, 1, flight.ClaimNative, nil)); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		from, to uint64
		limit    int
		first    uint64
		n        int
		count    uint64
	}{{0, 19, 3, 1, 3, 10}, {0, 19, 10, 1, 10, 10}, {0, 19, 99, 1, 10, 10}, {3, 7, 2, 3, 2, 3}, {4, 4, 9, 0, 0, 0}, {20, 90, 9, 0, 0, 0}} {
		read(t, s, func(tx *ReadTx) error {
			marks, err := tx.StepMarks(t.Context(), agent, "a", c.from, c.to, c.limit)
			count, err2 := tx.CountSteps(t.Context(), agent, "a", c.from, c.to)
			if len(marks) != c.n || count != c.count || c.n > 0 && marks[0].Seq != c.first {
				t.Errorf("%d to %d, %d at most: %v of %d, want %d of %d", c.from, c.to, c.limit, marks, count, c.n, c.count)
			}
			return errors.Join(err, err2)
		})
	}
	read(t, s, func(tx *ReadTx) error {
		n, err := tx.CountSteps(t.Context(), agent, "nowhere", 0, 9)
		if n != 0 {
			t.Errorf("an unknown stream has %d opened steps", n)
		}
		return err
	})
}

// The batch at a step is the one that a walk over all of them finds, whichever of a
// stream's batches are stored and however long they are.
func TestBatchFrom(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	agent := 0
	rapid.Check(t, func(r *rapid.T) {
		agent++
		var stored []flight.Batch
		next := uint64(0)
		for index := range rapid.Uint64Range(1, 24).Draw(r, "batches") {
			b := testBatch(agent, "a", index)
			b.Header.FromSeq = next
			b.Header.ToSeq = next + rapid.Uint64Range(0, 3).Draw(r, "more steps")
			next = b.Header.ToSeq + 1
			if rapid.Bool().Draw(r, "stored") {
				stored = append(stored, b)
			}
		}
		put(t, s, stored...)
		for seq := range next + 2 {
			var want *flight.Batch
			for i := range stored {
				if stored[i].Header.FromSeq <= seq {
					want = &stored[i]
				}
			}
			read(t, s, func(tx *ReadTx) error {
				got, err := tx.BatchFrom(ctx, testAgent(agent), "a", seq)
				if want == nil && !errors.Is(err, ErrNotFound) || want != nil && (err != nil || got.ID != want.ID()) {
					t.Errorf("step %d of %d batches: index %d, %v", seq, len(stored), got.Batch.Header.Index, err)
				}
				return nil
			})
		}
	})
}

func TestGapFrom(t *testing.T) {
	s, agent := fresh(t), testAgent(1)
	put(t, s, testBatch(1, "a", 2), testBatch(1, "a", 5))
	for index, want := range map[uint64]Gap{0: {0, 1, 0, 19}, 3: {3, 4, 30, 49}, 1: {}, 6: {}} {
		read(t, s, func(tx *ReadTx) error {
			got, err := tx.GapFrom(t.Context(), agent, "a", index)
			if got != want || errors.Is(err, ErrNotFound) != (want == Gap{}) {
				t.Errorf("index %d: %v, %v; want %v", index, got, err, want)
			}
			return nil
		})
	}
}
