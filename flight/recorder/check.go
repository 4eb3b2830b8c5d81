package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A CheckReport says what a journal holds and what is wrong with it.
type CheckReport struct {
	Segments, Steps, Batches, Receipts, Refused int
	Streams                                     []string // oldest first
	// Nodes are the keys that signed the receipts, oldest first: more than one where
	// the owner followed the node to a new key.
	Nodes    []flight.Address
	Waiting  uint64 // steps of the last stream in no signed batch
	Inflight bool   // a signed batch has no answer yet
	// Torn is how many bytes follow the last whole line: a crash's, or of a line
	// that is being written just now.
	Torn     int
	Problems []error // each wraps ErrDamaged
}

// Check reads the whole journal, without its lock: every checksum, the chain of
// steps, the root and signature of every batch, every receipt's signature, and
// the indexes. Memory is that of one file and of 32 bytes for each unsigned step.
// The error is about reading; damage is listed in the report.
// The file of an SDK counts as one segment.
func Check(dir string) (*CheckReport, error) {
	if isFile(dir) {
		return checkSDKFile(dir)
	}
	segs, torn, err := listSegments(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noJournal(dir)
	}
	if err != nil {
		return nil, err
	}
	if len(segs) == 0 && torn == "" {
		return nil, noJournal(dir)
	}
	c := checker{}
	for i := range segs {
		if err := c.segment(&segs[i], i == len(segs)-1); err != nil {
			return nil, err
		}
	}
	if torn != "" {
		data, err := os.ReadFile(torn)
		if err != nil {
			return nil, err
		}
		c.rep.Torn = len(data)
	}
	return &c.rep, nil
}

// A checker goes through the segments in order.
type checker struct {
	rep    CheckReport
	prev   *cursor       // the state at the end of the segment before, nil where unknown
	stream string        // of pending
	first  uint64        // seq of pending[0]
	hashes []flight.Hash // of the stream's steps in no batch so far
}

func (c *checker) problem(format string, args ...any) {
	c.rep.Problems = append(c.rep.Problems, fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...))
}

func (c *checker) segment(s *segment, last bool) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	c.rep.Segments++
	if c.prev != nil && !s.head.follows(c.prev) {
		c.problem("%s does not follow from the file before it", s.path)
		c.hashes = nil
	}
	if s.head.Stream != c.stream {
		c.rep.Streams = append(c.rep.Streams, s.head.Stream)
		c.stream, c.first, c.hashes = s.head.Stream, s.head.Seq, nil
	}
	if c.hashes == nil {
		c.first = s.head.Seq
	}
	r, err := replaySegment(s.path, s.n, data, func(r *record) error { return c.line(r) })
	if err != nil {
		c.rep.Problems = append(c.rep.Problems, err)
		c.prev, c.hashes = nil, nil
		return nil
	}
	c.prev = &r.cursor
	if last {
		c.rep.Torn = r.torn
		c.rep.Waiting, c.rep.Inflight = r.Seq-r.From, r.Inflight != nil
		return nil
	}
	if r.torn > 0 || r.open {
		c.problem("%s ends in half a line", s.path)
	}
	if raw, err := os.ReadFile(s.indexPath()); err == nil && !bytes.Equal(raw, encodeIndex(r.entries)) {
		c.problem("%s is not the index of %s; delete it, it is made anew", s.indexPath(), s.path)
	}
	return nil
}

// line counts a line and checks what the chain of lines alone does not.
func (c *checker) line(r *record) error {
	switch r.kind {
	case "step":
		c.rep.Steps++
		c.hashes = append(c.hashes, r.hash)
		for _, o := range r.open {
			got, err := flight.CommitValue(o.Value, o.Salt)
			if want := r.step.Commitment(o.Field); err != nil || want == nil || got != *want {
				c.problem("step %s/%d: %s is not what it commits to", r.step.Stream, r.step.Seq, o.Field)
			}
		}
	case "batch":
		c.rep.Batches++
		c.batch(&r.batch)
	case "receipt":
		c.rep.Receipts++
		if n := r.receipt.Node; !slices.Contains(c.rep.Nodes, n) {
			c.rep.Nodes = append(c.rep.Nodes, n)
		}
		if err := r.receipt.Verify(); err != nil {
			c.problem("receipt of batch %s: %w", r.receipt.BatchID, err)
		}
	case "refused":
		c.rep.Refused++
	}
	return nil
}

func (c *checker) batch(b *flight.Batch) {
	h := &b.Header
	if err := b.Verify(); err != nil {
		c.problem("batch %d of %s: %w", h.Index, h.Stream, err)
	}
	if h.ToSeq < c.first {
		return // its steps stand in files that are archived or damaged
	}
	if h.FromSeq >= c.first {
		c.root(b)
	}
	c.hashes = append([]flight.Hash(nil), c.hashes[h.ToSeq-c.first+1:]...)
	c.first = h.ToSeq + 1
}

// root checks the batch against its steps.
func (c *checker) root(b *flight.Batch) {
	h := &b.Header
	steps := c.hashes[h.FromSeq-c.first : h.ToSeq-c.first+1]
	if root, err := merkle.Root(steps); err != nil || root != h.Root || steps[len(steps)-1] != h.Head {
		c.problem("batch %d of %s: its root is not that of its steps", h.Index, h.Stream)
	}
}
