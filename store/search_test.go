package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"karatum/flight"
)

// digits returns the range of the hashes that begin with the first n hex digits of h.
func digits(h flight.Hash, n int) HashRange {
	r := HashRange{h, h}
	for i := n; i < 64; i++ {
		shift := 4 * (1 - i%2)
		r.Low[i/2] &^= 0xf << shift
		r.High[i/2] |= 0xf << shift
	}
	return r
}

// Each thing is found by its whole hash and by prefixes of any length, and nothing by
// a neighbour.
func TestSearchByHash(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	put(t, s, testBatch(1, "a", 0), testBatch(2, "a", 0), testBatch(1, "a", 1))
	args, tx1, sent := testHash("args"), testHash("tx"), testHash("sent")
	step := testStep(1, 3, 8453, "", &tx1)
	step.Record = json.RawMessage(fmt.Sprintf(`{"args":"%s","result":"%s","v":"karatum.fr.v1"}`, args, testHash("result")))
	second := testStep(1, 4, 1, "", &tx1)
	update(t, s, func(tx *Tx) error {
		return errors.Join(tx.UpsertStep(ctx, step), tx.UpsertStep(ctx, second), nextEpoch(ctx, tx), tx.AddEpochTx(ctx, EpochTx{EpochID: 1, Hash: sent, Raw: []byte{1}}))
	})
	var root flight.Hash
	read(t, s, func(tx *ReadTx) error { e, err := tx.Epoch(ctx, 1); root = e.Root; return err })
	b := testBatch(1, "a", 1)
	for _, c := range []struct {
		name string
		hash flight.Hash
		n    int
		find func(tx *ReadTx, h HashRange) (int, error)
	}{
		{"batch", b.ID(), 1, func(tx *ReadTx, h HashRange) (int, error) { v, err := tx.BatchesIn(ctx, h, 9); return len(v), err }},
		{"step", step.Hash, 1, func(tx *ReadTx, h HashRange) (int, error) { v, err := tx.StepsIn(ctx, h, 9); return len(v), err }},
		{"transaction", tx1, 2, func(tx *ReadTx, h HashRange) (int, error) { v, err := tx.StepsOfTxIn(ctx, h, 9); return len(v), err }},
		{"commitment", args, 1, func(tx *ReadTx, h HashRange) (int, error) {
			v, _, err := tx.StepsOfCommitment(ctx, h, 9)
			return len(v), err
		}},
		{"epoch", root, 1, func(tx *ReadTx, h HashRange) (int, error) { v, err := tx.EpochsIn(ctx, h, 9); return len(v), err }},
		{"anchor", sent, 1, func(tx *ReadTx, h HashRange) (int, error) { v, err := tx.EpochTxsIn(ctx, h, 9); return len(v), err }},
	} {
		read(t, s, func(tx *ReadTx) error {
			for n := 6; n <= 64; n++ {
				if got, err := c.find(tx, digits(c.hash, n)); err != nil || got != c.n {
					t.Errorf("%s by %d digits: %d found, %v; want %d", c.name, n, got, err, c.n)
				}
				other := c.hash
				other[(n-1)/2] ^= 1 << (4 * (n % 2))
				if got, err := c.find(tx, digits(other, n)); err != nil || got != 0 {
					t.Errorf("%s by %d digits of another hash: %d found, %v", c.name, n, got, err)
				}
			}
			return nil
		})
	}
	agent := testAgent(1)
	read(t, s, func(tx *ReadTx) error {
		low, high := agent, agent
		low[19], high[19] = 0, 0xff
		got, err := tx.AgentsIn(ctx, low, high, 9)
		if err != nil || len(got) == 0 {
			t.Errorf("agents: %d, %v", len(got), err)
		}
		got, err = tx.AgentsIn(ctx, agent, agent, 9)
		if len(got) != 1 || got[0].Address != agent {
			t.Errorf("agent: %v", got)
		}
		return err
	})
}

func TestBatchesSince(t *testing.T) {
	clk := newClock()
	opt := options(t, t.TempDir())
	opt.Now = clk.now
	s := openStore(t, opt)
	read(t, s, func(tx *ReadTx) error {
		n, err := tx.BatchesSince(t.Context(), 0)
		if n != 0 {
			t.Errorf("an empty node counts %d", n)
		}
		return err
	})
	var at []uint64
	for i := range uint64(20) {
		put(t, s, testBatch(1, "a", i))
	}
	read(t, s, func(tx *ReadTx) error {
		for i := range uint64(20) {
			b, err := tx.BatchAt(t.Context(), i+1)
			if err != nil {
				return err
			}
			at = append(at, b.ReceivedAt)
		}
		for _, since := range append(at, 0, at[19]+1) {
			want := uint64(0)
			for _, a := range at {
				if a >= since {
					want++
				}
			}
			if got, err := tx.BatchesSince(t.Context(), since); err != nil || got != want {
				t.Errorf("since %d: %d, %v; want %d", since, got, err, want)
			}
		}
		return nil
	})
}
