package recorder

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"karatum/flight"
	"karatum/flight/merkle"
)

// nextHeader returns the header of the next batch, over at most
// [flight.MaxSpan] waiting steps, or false where none wait. Only the sender calls
// it and appendBatch, so nothing moves the batch's first step meanwhile.
func (j *FileJournal) nextHeader(now time.Time) (h flight.Header, ok bool, err error) {
	j.mu.Lock()
	c, segs, entries := j.cur, j.segs, j.entries
	err = j.usable()
	j.mu.Unlock()
	if err != nil || c.Seq == c.From {
		return flight.Header{}, false, err
	}
	to := min(c.Seq, c.From+flight.MaxSpan) - 1
	hashes, err := j.hashes(segs, entries, c.Stream, c.From, to)
	if err != nil {
		return flight.Header{}, false, err
	}
	root, err := merkle.Root(hashes)
	return flight.Header{
		Agent: c.Agent, Stream: c.Stream, Index: c.Index, FromSeq: c.From, ToSeq: to,
		PrevHead: c.PrevHead, Head: hashes[len(hashes)-1], Root: root, CreatedAt: uint64(now.Unix()),
	}, true, err
}

// hashes returns the hashes of the stream's steps from to to. Sealed segments are
// read through at their first use, so that no damaged one is ever signed.
func (j *FileJournal) hashes(segs []segment, active []entry, stream string, from, to uint64) ([]flight.Hash, error) {
	out := make([]flight.Hash, 0, to-from+1)
	for i := range segs {
		s, last := &segs[i], i == len(segs)-1
		if s.head.Stream != stream || s.head.Seq > to || !last && segs[i+1].head.Stream == stream && segs[i+1].head.Seq <= from {
			continue
		}
		entries := active
		if !last {
			var err error
			if entries, err = j.sealed(s, &segs[i+1].head); err != nil {
				return nil, err
			}
		}
		for _, e := range entries {
			if e.kind == 's' && e.num >= from && e.num <= to {
				out = append(out, e.hash)
			}
		}
	}
	if uint64(len(out)) != to-from+1 {
		return nil, fmt.Errorf("%w: steps %d to %d of %s are not all there", ErrDamaged, from, to, stream)
	}
	return out, nil
}

// sealed returns the lines of a sealed segment, which it reads through at first
// use.
func (j *FileJournal) sealed(s *segment, next *cursor) ([]entry, error) {
	j.mu.Lock()
	known := j.checked[s.n]
	j.mu.Unlock()
	if known {
		if raw, err := os.ReadFile(s.indexPath()); err == nil {
			if entries, ok := decodeIndex(raw); ok {
				return entries, nil
			}
		}
	}
	r, err := s.check(next, true)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.checked[s.n] = true
	j.mu.Unlock()
	return r.entries, nil
}

// appendBatch journals a signed batch and makes it, its steps and the guard
// durable. When it returns the bytes to send, no other content will ever be signed
// under the index.
func (j *FileJournal) appendBatch(b *flight.Batch) ([]byte, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return nil, err
	}
	next, h := j.cur, &b.Header
	if err := next.apply(&record{kind: "batch", batch: *b, body: body}); err != nil {
		return nil, err
	}
	j.buf = appendRaw(j.buf[:0], "batch", "batch", body)
	if err := j.write(entry{kind: 'b', num: h.ToSeq, hash: h.ID()}); err != nil {
		return nil, err
	}
	j.cur, j.guarded = next, false
	return body, j.secure(h)
}

// secureBatch is called before the batch in flight is sent: it makes durable what
// appendBatch, or the run before, could not.
func (j *FileJournal) secureBatch(h *flight.Header) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.secure(h)
}

func (j *FileJournal) secure(h *flight.Header) error {
	if err := j.flush(); err != nil {
		return err
	}
	if j.guarded || h.Stream != j.cur.Stream { // a stream that was left is never continued
		return nil
	}
	err := writeGuard(j.dir, h.Stream, int64(h.Index))
	j.guarded = err == nil
	return err
}

// settle journals the node's definitive answer to the batch in flight: its receipt,
// or nil where it was refused for good.
func (j *FileJournal) settle(batchID flight.Hash, receipt *flight.Receipt) error {
	kind, key, doc, tag := "receipt", "receipt", any(receipt), byte('r')
	r := record{kind: kind, batchID: batchID}
	if receipt == nil {
		kind, key, doc, tag = "refused", "batchId", batchID, 'x'
		r.kind = kind
	} else {
		r.receipt = *receipt
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return err
	}
	next := j.cur
	if err := next.apply(&r); err != nil {
		return err
	}
	j.buf = appendRaw(j.buf[:0], kind, key, raw)
	if err := j.write(entry{kind: tag, hash: batchID}); err != nil {
		return err
	}
	j.cur = next
	return nil
}
