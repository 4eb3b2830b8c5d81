package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"karatum/flight"
)

// segments is the source of a journal in a directory: every file's head, and the
// last file's lines.
type segments struct {
	segs []segment
	last *replay // of the last segment
}

// index returns the lines of the i-th segment.
func (r *segments) index(i int) ([]entry, error) {
	if i == len(r.segs)-1 {
		return r.last.entries, nil
	}
	s := &r.segs[i]
	if raw, err := os.ReadFile(s.indexPath()); err == nil {
		if entries, ok := decodeIndex(raw); ok {
			return entries, nil
		}
	}
	rep, err := s.check(&r.segs[i+1].head, false)
	if err != nil {
		return nil, err
	}
	return rep.entries, nil
}

// line reads the line at the offset of the i-th segment.
func (r *segments) line(i int, off uint64) (record, error) {
	f, err := os.Open(r.segs[i].path)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	var buf bytes.Buffer
	src := io.NewSectionReader(f, int64(off), 1<<62-int64(off))
	for chunk := int64(4 << 10); ; chunk *= 4 {
		n, err := io.CopyN(&buf, src, chunk)
		if end := bytes.IndexByte(buf.Bytes()[buf.Len()-int(n):], '\n'); end >= 0 {
			buf.Truncate(buf.Len() - int(n) + end)
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return record{}, err
		}
	}
	rec, err := parseLine(buf.Bytes())
	if err != nil {
		return record{}, fmt.Errorf("%w: %s, byte %d: %w", ErrDamaged, r.segs[i].path, off, err)
	}
	return rec, nil
}

// at returns the last segment of the stream whose head has not passed seq by the
// given measure, or -1.
func (r *segments) at(stream string, seq uint64, measure func(*cursor) uint64) int {
	found := -1
	for i := range r.segs {
		if h := &r.segs[i].head; h.Stream == stream && measure(h) <= seq {
			found = i
		}
	}
	return found
}

func (r *segments) step(stream string, seq uint64) (record, error) {
	i := r.at(stream, seq, func(c *cursor) uint64 { return c.Seq })
	if i < 0 {
		return record{}, fmt.Errorf("%w: step %s/%d", ErrNotFound, stream, seq)
	}
	entries, err := r.index(i)
	if err != nil {
		return record{}, err
	}
	for _, e := range entries {
		if e.kind == 's' && e.num == seq {
			return r.line(i, e.off)
		}
	}
	return record{}, fmt.Errorf("%w: step %s/%d", ErrNotFound, stream, seq)
}

// batch returns the signed batch that holds the step, or ErrNotSigned. A batch
// stands in the last file whose head still counts the step as unsigned.
func (r *segments) batch(stream string, seq uint64) (flight.Batch, error) {
	i := r.at(stream, seq, func(c *cursor) uint64 { return c.From })
	if i < 0 {
		return flight.Batch{}, ErrNotSigned
	}
	entries, err := r.index(i)
	if err != nil {
		return flight.Batch{}, err
	}
	for _, e := range entries {
		if e.kind != 'b' || e.num < seq {
			continue
		}
		rec, err := r.line(i, e.off)
		return rec.batch, err
	}
	return flight.Batch{}, ErrNotSigned
}

// hashes returns the hashes of a batch's steps.
func (r *segments) hashes(h *flight.Header) ([]flight.Hash, error) {
	var out []flight.Hash
	for i := max(r.at(h.Stream, h.FromSeq, func(c *cursor) uint64 { return c.Seq }), 0); i < len(r.segs); i++ {
		if r.segs[i].head.Stream != h.Stream || r.segs[i].head.Seq > h.ToSeq {
			break
		}
		entries, err := r.index(i)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.kind == 's' && e.num >= h.FromSeq && e.num <= h.ToSeq {
				out = append(out, e.hash)
			}
		}
	}
	if uint64(len(out)) != h.Span() {
		return nil, fmt.Errorf("%w: steps %d to %d of %s are not all there", ErrDamaged, h.FromSeq, h.ToSeq, h.Stream)
	}
	return out, nil
}

func (r *segments) moved(stream string, seq uint64) (string, uint64, bool) {
	for i := range r.segs {
		if m := r.segs[i].head.Moved; m != nil && m.Stream == stream && seq >= m.From && seq-m.From < m.Count {
			return r.segs[i].head.Stream, seq - m.From, true
		}
	}
	return "", 0, false
}

func (r *segments) streams() []string {
	var names []string
	for i := range r.segs {
		if s := r.segs[i].head.Stream; !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

func (r *segments) batches(each func(*signed) error) error {
	for i := range r.segs {
		batches, err := r.segs[i].batches()
		if err != nil {
			return err
		}
		for k := range batches {
			if err := each(&batches[k]); err != nil {
				return err
			}
		}
	}
	return nil
}
