package store

import (
	"context"
	"errors"
	"fmt"

	"karatum/flight"
	"karatum/flight/merkle"
)

// insertReceipts stores what signs the group's receipts: one row for a shared
// signature, one for each receipt signed by itself.
func (w *writer) insertReceipts(rs []*flight.Receipt) error {
	if g := rs[0].Group; g != nil {
		for i, r := range rs {
			if r.Group == nil || r.Group.Root != g.Root || r.Group.Size != uint64(len(rs)) || r.Group.Proof.Index != uint64(i) ||
				r.Signature != rs[0].Signature || r.Node != rs[0].Node {
				return errors.New("store: Seal signed a group that is not the commit group")
			}
		}
		return w.insertReceiptGroup(rs[0], len(rs), g.Root[:])
	}
	for _, r := range rs {
		if r.Group != nil {
			return errors.New("store: Seal mixed single and group signatures")
		}
		if err := w.insertReceiptGroup(r, 1, nil); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) insertReceiptGroup(r *flight.Receipt, size int, root []byte) error {
	_, err := w.exec(`INSERT INTO receipt_group (first_position, size, node, root, signature) VALUES (?, ?, ?, ?, ?)`,
		int64(r.Position), size, r.Node[:], nullable(root, root != nil), r.Signature[:])
	return err
}

// A receiptGroup is a stored row.
type receiptGroup struct {
	first, size uint64
	node        flight.Address
	root        flight.Hash
	grouped     bool // root is set
	signature   flight.Signature
}

func scanReceiptGroup(s scanner) (g receiptGroup, err error) {
	err = s.Scan(num(&g.first), num(&g.size), bytesTo(g.node[:]), bytesTo(g.root[:]), flag(&g.grouped), bytesTo(g.signature[:]))
	return g, err
}

const selectReceiptGroup = `SELECT first_position, size, node, root, root IS NOT NULL, signature FROM receipt_group`

// Receipt rebuilds the receipt of the batch at a position, or returns
// [ErrNotFound]. The proof of a group's receipt is recomputed from the group's
// batches.
func (r *ReadTx) Receipt(ctx context.Context, position uint64) (flight.Receipt, error) {
	g, err := first(ctx, r, scanReceiptGroup, selectReceiptGroup+` WHERE first_position <= ? ORDER BY first_position DESC LIMIT 1`, position)
	if err != nil {
		return flight.Receipt{}, err
	}
	rs, err := r.receiptsOf(ctx, g)
	if err != nil {
		return flight.Receipt{}, err
	}
	i := position - g.first
	if i >= uint64(len(rs)) {
		return flight.Receipt{}, ErrNotFound
	}
	if g.grouped {
		items := make([]flight.Hash, len(rs))
		for k := range rs {
			items[k] = rs[k].Item()
		}
		proof, err := merkle.Prove(items, int(i))
		if err != nil {
			return flight.Receipt{}, err
		}
		rs[i].Group = &flight.ReceiptGroup{Root: g.root, Size: g.size, Proof: proof}
	}
	return rs[i], nil
}

// receiptsOf returns the receipts of a group, without their proofs.
func (r *ReadTx) receiptsOf(ctx context.Context, g receiptGroup) ([]flight.Receipt, error) {
	rs, err := list(ctx, r, func(s scanner) (c flight.Receipt, err error) {
		c.Node, c.Signature = g.node, g.signature
		err = s.Scan(num(&c.Position), bytesTo(c.BatchID[:]), num(&c.ReceivedAt), num(&c.AnchorBy))
		return c, err
	}, `SELECT position, id, received_at, anchor_by FROM batch WHERE position >= ? AND position < ? ORDER BY position`,
		g.first, g.first+g.size)
	if err == nil && uint64(len(rs)) != g.size {
		err = fmt.Errorf("%w: the receipt group at %d has %d of %d batches", ErrDamaged, g.first, len(rs), g.size)
	}
	return rs, err
}

// Receipt returns the receipt of the batch at a position, or [ErrNotFound]. That
// of a batch inserted by the running group is complete only once Update has
// returned nil, as [Tx.InsertBatch] says.
func (tx *Tx) Receipt(ctx context.Context, position uint64) (*flight.Receipt, error) {
	if g := tx.w.group.receipts; len(g) > 0 && position >= g[0].Position {
		if i := position - g[0].Position; i < uint64(len(g)) {
			return g[i], nil
		}
		return nil, ErrNotFound
	}
	c, err := tx.ReadTx.Receipt(ctx, position)
	return &c, err
}
