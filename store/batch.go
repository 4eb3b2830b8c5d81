package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"karatum/flight"
)

// A Batch is a stored signed statement. It never changes.
type Batch struct {
	Position   uint64 // storage order, from 1 without a hole
	ID         flight.Hash
	Batch      flight.Batch
	ReceivedAt uint64 // unix ms
	AnchorBy   uint64 // unix seconds, as promised in the receipt
}

const selectBatch = `SELECT b.position, b.id, a.address, s.name, b.idx, b.from_seq, b.to_seq, b.prev_head, b.head, b.root,
	b.created_at, b.scheme, b.signature, b.received_at, b.anchor_by
	FROM batch b CROSS JOIN stream s ON s.id = b.stream_id CROSS JOIN agent a ON a.id = s.agent_id`

// schemes are the stored numbers of the schemes.
var schemes = [...]flight.Scheme{flight.EIP712, flight.EIP191}

func scanBatch(s scanner) (b Batch, err error) {
	h := &b.Batch.Header
	var scheme uint64
	err = s.Scan(num(&b.Position), bytesTo(b.ID[:]), bytesTo(h.Agent[:]), &h.Stream, num(&h.Index), num(&h.FromSeq), num(&h.ToSeq),
		bytesTo(h.PrevHead[:]), bytesTo(h.Head[:]), bytesTo(h.Root[:]), num(&h.CreatedAt), num(&scheme), bytesTo(b.Batch.Signature[:]),
		num(&b.ReceivedAt), num(&b.AnchorBy))
	if err == nil && scheme >= uint64(len(schemes)) {
		err = fmt.Errorf("%w: position %d has scheme %d", ErrDamaged, b.Position, scheme)
	}
	if err == nil {
		b.Batch.Scheme = schemes[scheme]
	}
	return b, err
}

func schemeNumber(s flight.Scheme) int64 {
	if s == flight.EIP191 {
		return 1
	}
	return 0
}

// idKey is what the index over batch ids holds.
func idKey(id flight.Hash) int64 { return int64(binary.BigEndian.Uint64(id[:8])) }

// Batch returns the batch of that id, or [ErrNotFound].
func (r *ReadTx) Batch(ctx context.Context, id flight.Hash) (Batch, error) {
	return first(ctx, r, scanBatch, selectBatch+` WHERE b.id_key = ? AND b.id = ?`, idKey(id), id[:])
}

// BatchAt returns the batch at a position, or [ErrNotFound].
func (r *ReadTx) BatchAt(ctx context.Context, position uint64) (Batch, error) {
	return first(ctx, r, scanBatch, selectBatch+` WHERE b.position = ?`, position)
}

// BatchOfIndex returns the batch of that index of a stream, or [ErrNotFound].
func (r *ReadTx) BatchOfIndex(ctx context.Context, agent flight.Address, stream string, index uint64) (Batch, error) {
	id, err := r.streamID(ctx, agent, stream)
	if err != nil {
		return Batch{}, err
	}
	return first(ctx, r, scanBatch, selectBatch+` WHERE b.stream_id = ? AND b.idx = ?`, id, index)
}

// BatchFrom returns the last batch of a stream that begins at a step or before it, or
// [ErrNotFound]. Where it ends before that step, no stored batch covers the step.
//
// A stream's batches begin in the order of their indexes, and none before the step of
// its own index, so the place is found by halving: one look-up for each bit of the
// highest index.
func (r *ReadTx) BatchFrom(ctx context.Context, agent flight.Address, stream string, seq uint64) (Batch, error) {
	st, err := r.Stream(ctx, agent, stream)
	if err != nil {
		return Batch{}, err
	}
	found, ok := uint64(0), false
	for low, high := uint64(0), min(st.LastIndex, seq); low <= high; {
		middle := low + (high-low)/2
		index, from := uint64(0), uint64(0)
		err := r.one(ctx, []any{num(&index), num(&from)}, `SELECT idx, from_seq FROM batch WHERE stream_id = ? AND idx <= ? ORDER BY idx DESC LIMIT 1`, st.id, middle)
		switch {
		case errors.Is(err, ErrNotFound):
			low = middle + 1
		case err != nil:
			return Batch{}, err
		case from <= seq:
			found, ok, low = index, true, middle+1
		case index == 0: // nothing lies before it
			return Batch{}, ErrNotFound
		default:
			high = index - 1
		}
	}
	if !ok {
		return Batch{}, ErrNotFound
	}
	return r.BatchOfIndex(ctx, agent, stream, found)
}

// Batches lists all batches, the newest first.
func (r *ReadTx) Batches(ctx context.Context, p Page) ([]Batch, string, error) {
	below, err := p.below()
	if err != nil {
		return nil, "", err
	}
	rows, err := list(ctx, r, scanBatch, selectBatch+` WHERE b.position < ? ORDER BY b.position DESC LIMIT ?`, below, p.limit()+1)
	rows, next := page(rows, p.limit(), func(b Batch) string { return cursor(b.Position) })
	return rows, next, err
}

// StreamBatches lists the batches of a stream, the highest index first. A stream
// without batches is an empty list.
func (r *ReadTx) StreamBatches(ctx context.Context, agent flight.Address, stream string, p Page) ([]Batch, string, error) {
	below, err := p.below()
	if err != nil {
		return nil, "", err
	}
	id, err := r.streamID(ctx, agent, stream)
	if errors.Is(err, ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	rows, err := list(ctx, r, scanBatch,
		selectBatch+` WHERE b.stream_id = ? AND b.idx < ? ORDER BY b.idx DESC LIMIT ?`, id, below, p.limit()+1)
	rows, next := page(rows, p.limit(), func(b Batch) string { return cursor(b.Batch.Header.Index) })
	return rows, next, err
}

// Around returns the stored batch of an index of a stream and its nearest
// neighbours by index; nil where there is none. No scan: each is one look-up, and
// for an index past the last one not even that.
func (tx *Tx) Around(ctx context.Context, agent flight.Address, stream string, index uint64) (same, before, after *Batch, err error) {
	a, err := tx.w.agent(ctx, agent)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := tx.w.stream(ctx, a, stream)
	if err != nil || s.id == 0 {
		return nil, nil, nil, err
	}
	if last := s.last.Batch.Header.Index; index > last {
		return nil, s.last, nil, nil
	} else if index == last && index == 0 {
		return s.last, nil, nil, nil
	}
	for _, b := range []struct {
		dst  **Batch
		text string
	}{
		{&same, ` WHERE b.stream_id = ? AND b.idx = ?`},
		{&before, ` WHERE b.stream_id = ? AND b.idx < ? ORDER BY b.idx DESC LIMIT 1`},
		{&after, ` WHERE b.stream_id = ? AND b.idx > ? ORDER BY b.idx LIMIT 1`},
	} {
		found, err := first(ctx, &tx.ReadTx, scanBatch, selectBatch+b.text, s.id, index)
		if err == nil {
			*b.dst = &found
		} else if !errors.Is(err, ErrNotFound) {
			return nil, nil, nil, err
		}
	}
	return same, before, after, nil
}

// InsertBatch appends a batch whose place in its stream the caller has judged by
// [Tx.Around], and keeps the counters of stream and agent and the list of gaps.
// The receipt is complete, signature included, once Update has returned nil. The
// error is [ErrConflict] where the index is taken.
func (tx *Tx) InsertBatch(ctx context.Context, b flight.Batch, id flight.Hash, receivedAt, anchorBy uint64) (*flight.Receipt, error) {
	w, h := tx.w, &b.Header
	if w.s.opt.Seal == nil {
		return nil, errors.New("store: opened without Seal, it takes no batches")
	}
	if max(h.Index, h.ToSeq, h.CreatedAt, receivedAt, anchorBy) > math.MaxInt64 {
		return nil, errors.New("store: an integer of the batch is out of range")
	}
	same, before, after, err := tx.Around(ctx, h.Agent, h.Stream, h.Index)
	if err != nil {
		return nil, err
	}
	if same != nil {
		return nil, fmt.Errorf("%w: index %d of the stream is stored", ErrConflict, h.Index)
	}
	a, err := tx.touchAgent(ctx, h.Agent)
	if err != nil {
		return nil, err
	}
	s, err := tx.touchStream(ctx, a, h.Stream)
	if err != nil {
		return nil, err
	}
	row := &Batch{Position: w.nextPosition, ID: id, Batch: b, ReceivedAt: receivedAt, AnchorBy: anchorBy}
	w.nextPosition++
	a.add(s, row)
	if s.add(row) {
		s.spoil(&w.group)
	}
	receipt := &flight.Receipt{BatchID: id, Position: row.Position, ReceivedAt: receivedAt, AnchorBy: anchorBy}
	w.group.receipts = append(w.group.receipts, receipt)
	w.group.staged = append(w.group.staged, stagedBatch{s.id, row})
	return receipt, tx.moveGaps(s.id, h, before, after)
}

// add counts a batch that s does not hold yet.
func (a *agentRow) add(s *streamRow, b *Batch) {
	had := uint64(0)
	if s.last != nil {
		had = s.last.Batch.Header.ToSeq + 1
	}
	a.steps += max(b.Batch.Header.ToSeq+1, had) - had
	a.batches++
	a.lastSeen = max(a.lastSeen, b.ReceivedAt)
}

// add takes a batch over and reports whether what is written of the row changed.
func (s *streamRow) add(b *Batch) (changed bool) {
	index, next := b.Batch.Header.Index, uint64(0)
	if s.last != nil {
		next = s.last.Batch.Header.Index + 1
	}
	if index < next {
		s.missing--
		s.filledAt = max(s.filledAt, b.ReceivedAt)
		return true
	}
	s.last = b
	s.missing += index - next
	return index > next
}

// moveGaps replaces the gap that the batch lies in, if any, by what remains of it
// to the left and to the right.
func (tx *Tx) moveGaps(stream uint64, h *flight.Header, before, after *Batch) error {
	left := Gap{FirstIndex: 0, LastIndex: h.Index - 1, FirstSeq: 0, LastSeq: h.FromSeq - 1}
	if before != nil {
		left.FirstIndex, left.FirstSeq = before.Batch.Header.Index+1, before.Batch.Header.ToSeq+1
	}
	if after != nil {
		if _, err := tx.exec(`DELETE FROM gap WHERE stream_id = ? AND first_index = ?`, stream, left.FirstIndex); err != nil {
			return err
		}
	}
	if left.FirstIndex < h.Index {
		if err := tx.putGap(stream, left); err != nil {
			return err
		}
	}
	if after == nil || after.Batch.Header.Index == h.Index+1 {
		return nil
	}
	n := &after.Batch.Header
	return tx.putGap(stream, Gap{h.Index + 1, n.Index - 1, h.ToSeq + 1, n.FromSeq - 1})
}

func (tx *Tx) putGap(stream uint64, g Gap) error {
	_, err := tx.exec(`INSERT INTO gap (stream_id, first_index, last_index, first_seq, last_seq) VALUES (?, ?, ?, ?, ?)`,
		stream, g.FirstIndex, g.LastIndex, g.FirstSeq, g.LastSeq)
	return err
}
