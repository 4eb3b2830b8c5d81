package recorder

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
)

// drawStream returns a name that no other journal has, not even this one's past.
func (j *FileJournal) drawStream() string {
	var b [4]byte
	rand.Read(b[:]) // never fails: it ends the process where the system has no randomness
	return fmt.Sprintf("%s-%x", j.opt.Name, b)
}

// leave begins a new stream because the old one may not be continued.
func (j *FileJournal) leave(why string, from uint64) (*StreamChange, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return nil, err
	}
	return j.newStream(why, from)
}

// newStream begins a stream that repeats the old one's steps from seq from on. A
// crash after the guard is written costs one more new stream at the next open.
func (j *FileJournal) newStream(why string, from uint64) (*StreamChange, error) {
	old := &j.cur
	head := cursor{Agent: old.Agent, Stream: j.drawStream(), Node: old.Node, Inflight: bytes.Clone(old.Inflight)}
	if n := old.Seq - from; n > 0 {
		head.Moved = &moved{Stream: old.Stream, From: from, Count: n}
	}
	change := &StreamChange{Old: old.Stream, New: head.Stream, Why: why, Moved: old.Seq - from}
	if err := writeGuard(j.dir, head.Stream, -1); err != nil {
		return nil, err
	}
	if err := j.rotate(head); err != nil {
		return nil, err
	}
	return change, j.copyMoved()
}

// copyMoved records the steps that go along into a new stream, from where an
// earlier run was interrupted. Nothing else is recorded before they are complete.
func (j *FileJournal) copyMoved() error {
	m := j.cur.Moved
	if m == nil || j.cur.Seq >= m.Count {
		return nil
	}
	segs := j.segs
	for i := range segs {
		s := &segs[i]
		if s.head.Stream != m.Stream || i+1 < len(segs) && segs[i+1].head.Stream == m.Stream && segs[i+1].head.Seq <= m.From+j.cur.Seq {
			continue
		}
		if err := j.copySegment(s, m); err != nil {
			return err
		}
	}
	if j.cur.Seq < m.Count {
		return fmt.Errorf("%w: steps of %s are missing", ErrDamaged, m.Stream)
	}
	return nil
}

func (j *FileJournal) copySegment(s *segment, m *moved) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	_, err = replaySegment(s.path, s.n, data, func(r *record) error {
		if r.kind != "step" || r.step.Seq != m.From+j.cur.Seq || j.cur.Seq >= m.Count {
			return nil
		}
		step := r.step
		_, err := j.append(&step, canonicalOpenings(r.open))
		return err
	})
	return err
}
