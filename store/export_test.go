package store

import (
	"errors"
	"slices"
	"testing"

	"karatum/flight"
)

func TestReadUpToAMark(t *testing.T) {
	s := fresh(t)
	ctx, agent := t.Context(), testAgent(1)
	put(t, s, testBatch(1, "b", 0), testBatch(1, "a", 0), testBatch(1, "a", 2), testBatch(2, "c", 0))
	var m Mark
	read(t, s, func(tx *ReadTx) (err error) { m, err = tx.Mark(ctx); return err })
	put(t, s, testBatch(1, "a", 1), testBatch(1, "a", 3), testBatch(1, "d", 0))
	if m != (Mark{Position: 4}) {
		t.Fatalf("mark %+v, want position 4", m)
	}
	read(t, s, func(tx *ReadTx) error {
		var names []string
		for name := ""; ; {
			next, err := tx.StreamAfter(ctx, agent, name)
			if errors.Is(err, ErrNotFound) {
				break
			}
			if err != nil {
				return err
			}
			names, name = append(names, next), next
		}
		if want := []string{"a", "b", "d"}; !slices.Equal(names, want) {
			t.Errorf("streams %v, want %v", names, want)
		}
		for _, c := range []struct {
			stream string
			from   uint64
			limit  int
			want   []uint64
		}{{"a", 0, 9, []uint64{0, 2}}, {"a", 1, 9, []uint64{2}}, {"a", 0, 1, []uint64{0}}, {"a", 3, 9, nil}, {"d", 0, 9, nil}} {
			rows, err := tx.StreamFrom(ctx, agent, c.stream, c.from, m, c.limit)
			var got []uint64
			for _, b := range rows {
				got = append(got, b.Batch.Header.Index)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s from %d: %v, %v; want %v", c.stream, c.from, got, err, c.want)
			}
		}
		return nil
	})
}

func TestReceiptGroup(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	put(t, s, testBatch(1, "a", 0))
	update(t, s, func(tx *Tx) error { // one commit group
		var err error
		for i := uint64(1); i < 5 && err == nil; i++ {
			_, err = insert(ctx, tx, testBatch(1, "a", i))
		}
		return err
	})
	read(t, s, func(tx *ReadTx) error {
		for position := uint64(1); position <= 5; position++ {
			rs, err := tx.ReceiptGroup(ctx, position)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(rs, func(r flight.Receipt) bool { return r.Position == position })
			want, err := tx.Receipt(ctx, position)
			if err != nil || i < 0 || rs[i].BatchID != want.BatchID || rs[i].Signature != want.Signature || (rs[i].Group == nil) != (want.Group == nil) {
				t.Errorf("position %d: %+v, %v; want %+v", position, rs, err, want)
			}
			if g := want.Group; g != nil && (rs[i].Group.Root != g.Root || !slices.Equal(rs[i].Group.Proof.Siblings, g.Proof.Siblings)) {
				t.Errorf("position %d: %+v, want %+v", position, rs[i].Group, g)
			}
		}
		if _, err := tx.ReceiptGroup(ctx, 6); !errors.Is(err, ErrNotFound) {
			t.Errorf("a position that is not stored: %v", err)
		}
		return nil
	})
}
