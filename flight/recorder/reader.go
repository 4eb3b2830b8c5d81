package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A Reader reads a journal without its lock, also while a recorder writes to it. It
// sees the lines that were whole when it was opened.
type Reader struct {
	segs []segment
	last *replay // of the last segment
}

// OpenReader reads the heads of a journal's files and its last file. The error is
// fs.ErrNotExist where there is no journal, or wraps [ErrDamaged].
func OpenReader(dir string) (*Reader, error) {
	segs, _, err := listSegments(dir)
	if err != nil {
		return nil, err
	}
	if len(segs) == 0 {
		return nil, fmt.Errorf("recorder: no journal in %s: %w", dir, fs.ErrNotExist)
	}
	s := &segs[len(segs)-1]
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	r := &Reader{segs: segs}
	r.last, err = replaySegment(s.path, s.n, data, nil)
	return r, err
}

// Streams returns the names of the journal's streams, oldest first.
func (r *Reader) Streams() []string {
	var names []string
	for i := range r.segs {
		if s := r.segs[i].head.Stream; !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return names
}

var drawn = regexp.MustCompile(`^-[0-9a-f]{8}$`)

// resolve finds the stream of a full name, or of the name before the random part
// where only one stream has it.
func (r *Reader) resolve(name string) (string, error) {
	names := r.Streams()
	if slices.Contains(names, name) {
		return name, nil
	}
	var found []string
	for _, s := range names {
		if rest, ok := strings.CutPrefix(s, name); ok && drawn.MatchString(rest) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: stream %q; it has %s", ErrNotFound, name, strings.Join(names, ", "))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%w: several streams are called %q, name one: %s", ErrNotFound, name, strings.Join(found, ", "))
}

// index returns the lines of the i-th segment.
func (r *Reader) index(i int) ([]entry, error) {
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
func (r *Reader) line(i int, off uint64) (record, error) {
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
func (r *Reader) at(stream string, seq uint64, measure func(*cursor) uint64) int {
	found := -1
	for i := range r.segs {
		if h := &r.segs[i].head; h.Stream == stream && measure(h) <= seq {
			found = i
		}
	}
	return found
}

func (r *Reader) step(stream string, seq uint64) (record, error) {
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
func (r *Reader) batch(stream string, seq uint64) (flight.Batch, error) {
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
func (r *Reader) hashes(h *flight.Header) ([]flight.Hash, error) {
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

// Disclose builds the disclosure that opens the named fields of a step, in the
// order of [flight.Fields]; with no field it shows that the step is in the signed
// batch and opens nothing. stream is a full name, or the part before the random
// one where that is unambiguous. A step that was repeated in a later stream
// before it was signed is disclosed from there. The result passes
// [flight.Disclosure.Verify]. Errors wrap [ErrNotFound], [ErrNotSigned] or
// [ErrDamaged].
func (r *Reader) Disclose(stream string, seq uint64, fields ...string) (*flight.Disclosure, error) {
	name, err := r.resolve(stream)
	if err != nil {
		return nil, err
	}
	for next, at, ok := r.moved(name, seq); ok; next, at, ok = r.moved(name, seq) {
		name, seq = next, at
	}
	rec, err := r.step(name, seq)
	if err != nil {
		return nil, err
	}
	batch, err := r.batch(name, seq)
	if err != nil {
		return nil, fmt.Errorf("%w: %s/%d", err, name, seq)
	}
	d := &flight.Disclosure{Step: rec.step.Value(), Batch: batch}
	if d.Reveal, err = rec.reveal(fields); err != nil {
		return nil, err
	}
	hashes, err := r.hashes(&batch.Header)
	if err != nil {
		return nil, err
	}
	if d.Proof, err = merkle.Prove(hashes, int(seq-batch.Header.FromSeq)); err != nil {
		return nil, err
	}
	if err := d.Verify().Err(); err != nil {
		return nil, fmt.Errorf("%w: %s/%d: %w", ErrDamaged, name, seq, err)
	}
	return d, nil
}

// moved returns where a later stream repeats the step.
func (r *Reader) moved(stream string, seq uint64) (string, uint64, bool) {
	for i := range r.segs {
		if m := r.segs[i].head.Moved; m != nil && m.Stream == stream && seq >= m.From && seq-m.From < m.Count {
			return r.segs[i].head.Stream, seq - m.From, true
		}
	}
	return "", 0, false
}

func (r *record) reveal(fields []string) ([]flight.Opening, error) {
	for _, f := range fields {
		if !slices.Contains(flight.Fields, f) {
			return nil, fmt.Errorf("%w: field %q; a step has %s", ErrNotFound, f, strings.Join(flight.Fields, ", "))
		}
	}
	var out []flight.Opening
	for _, f := range flight.Fields {
		if !slices.Contains(fields, f) {
			continue
		}
		i := slices.IndexFunc(r.open, func(o flight.Opening) bool { return o.Field == f })
		switch {
		case i >= 0:
			out = append(out, r.open[i])
		case r.step.Commitment(f) != nil:
			return nil, fmt.Errorf("%w: the plaintext of %s was not retained", ErrNotFound, f)
		default:
			return nil, fmt.Errorf("%w: step %s/%d has no %s", ErrNotFound, r.step.Stream, r.step.Seq, f)
		}
	}
	return out, nil
}
