package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A Reader reads a journal without its lock, also while a recorder writes to it: a
// directory of this package's, or the file of a single-file SDK. It sees the lines
// that were whole when it was opened.
type Reader struct{ src source }

// A source is a journal as a [Reader] sees it.
type source interface {
	streams() []string // oldest first
	// moved returns where a later stream repeats the step.
	moved(stream string, seq uint64) (string, uint64, bool)
	step(stream string, seq uint64) (record, error)
	// batch returns the signed batch that holds the step, or ErrNotSigned.
	batch(stream string, seq uint64) (flight.Batch, error)
	hashes(h *flight.Header) ([]flight.Hash, error) // of a batch's steps
	batches(each func(*signed) error) error         // oldest first
}

// OpenReader reads the heads of a journal's files and its last file, or the whole
// of an SDK's. The error is fs.ErrNotExist where there is no journal, or wraps
// [ErrNotJournal] or [ErrDamaged].
func OpenReader(path string) (*Reader, error) {
	if isFile(path) {
		f, err := openSDKFile(path)
		if err != nil {
			return nil, err
		}
		return &Reader{f}, nil
	}
	segs, _, err := listSegments(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noJournal(path)
	}
	if err != nil {
		return nil, err
	}
	if len(segs) == 0 {
		return nil, noJournal(path)
	}
	s := &segs[len(segs)-1]
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	last, err := replaySegment(s.path, s.n, data, nil)
	if err != nil {
		return nil, err
	}
	return &Reader{&segments{segs, last}}, nil
}

func noJournal(path string) error {
	return fmt.Errorf("recorder: no journal in %s: %w", path, fs.ErrNotExist)
}

// Streams returns the names of the journal's streams, oldest first.
func (r *Reader) Streams() []string { return r.src.streams() }

var drawn = regexp.MustCompile(`^-[0-9a-f]{8}$`)

// resolve finds the stream of a full name, or of the name before the random part
// where only one stream has it.
func (r *Reader) resolve(name string) (string, error) {
	names := r.src.streams()
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
	for range r.src.streams() { // at most: streams that repeat each other in a circle are nobody's
		next, at, ok := r.src.moved(name, seq)
		if !ok {
			break
		}
		name, seq = next, at
	}
	rec, err := r.src.step(name, seq)
	if err != nil {
		return nil, err
	}
	batch, err := r.src.batch(name, seq)
	if err != nil {
		return nil, fmt.Errorf("%w: %s/%d", err, name, seq)
	}
	d := &flight.Disclosure{Step: rec.step.Value(), Batch: batch}
	if d.Reveal, err = rec.reveal(fields); err != nil {
		return nil, err
	}
	hashes, err := r.src.hashes(&batch.Header)
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
