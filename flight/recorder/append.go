package recorder

import (
	"errors"
	"fmt"
	"os"
	"time"

	"karatum/flight"
)

// begin makes the segment and goes on in it. The file becomes durable with the next
// flush; without it the one before is simply the last.
func (j *FileJournal) begin(n uint64, head cursor) error {
	path := segmentPath(j.dir, n)
	line, err := appendSegment(nil, n, head)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".tmp", line, 0o600); err != nil {
		return fmt.Errorf("recorder: begin %s: %w", path, errors.Join(err, os.Remove(path+".tmp")))
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if j.f != nil {
		j.f.Close() // its content is flushed
	}
	j.f, j.size, j.entries, j.cur = f, int64(len(line)), nil, head
	j.dirty, j.newDir, j.sealing = true, true, writing
	j.segs = append(j.segs, segment{n: n, path: path, head: head})
	return nil
}

// rotate seals the active segment and begins the next one with the given state.
func (j *FileJournal) rotate(head cursor) error {
	if err := j.flush(); err != nil {
		return err
	}
	last := &j.segs[len(j.segs)-1]
	if err := os.WriteFile(last.indexPath(), encodeIndex(j.entries), 0o600); err != nil {
		return fmt.Errorf("recorder: seal %s: %w", last.path, err)
	}
	n := last.n
	if err := j.begin(n+1, head); err != nil {
		return err
	}
	j.checked[n] = true
	return nil
}

// write appends the line in j.buf, or changes nothing: a line that the disk took in
// part is cut off, and where even that fails the next write goes over it. The
// caller advances j.cur once it has returned nil.
func (j *FileJournal) write(e entry) error {
	if _, err := j.f.WriteAt(j.buf, j.size); err != nil {
		return fmt.Errorf("recorder: append to %s: %w", j.f.Name(), errors.Join(err, j.f.Truncate(j.size)))
	}
	e.off = uint64(j.size)
	j.size += int64(len(j.buf))
	j.entries = append(j.entries, e)
	if cap(j.buf) > 1<<20 {
		j.buf = nil // one large step should not hold memory for good
	}
	if !j.armed && j.opt.Fsync == FsyncInterval {
		j.arm()
	}
	j.dirty = true
	return nil
}

// sealing says how far an overfull segment is.
type sealing int

const (
	writing  sealing = iota // not full yet
	flushing                // its bulk goes to disk while more lines are appended
	flushed                 // the next line begins a new segment
)

// room begins the next segment where n more bytes would overfill this one. A full
// segment must be durable before the next one exists, and flushing it takes long:
// that happens in the background, and only the rest is waited for.
func (j *FileJournal) room(n int) error {
	over := j.size + int64(n) - j.opt.SegmentBytes
	switch {
	case len(j.entries) == 0 || over <= 0:
		return nil
	case j.sealing == writing:
		j.sealing = flushing
		go j.flushBehind(j.f)
		return nil
	case j.sealing == flushing && over < j.opt.SegmentBytes:
		return nil
	}
	return j.rotate(j.cur)
}

// flushBehind flushes a file outside the lock. A sealed file was flushed before it
// was closed.
func (j *FileJournal) flushBehind(f *os.File) {
	err := f.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err != nil && !errors.Is(err, os.ErrClosed) && j.failed == nil:
		j.failed = fmt.Errorf("%w: %s: %w", ErrJournal, f.Name(), err)
	case f == j.f && j.sealing == flushing:
		j.sealing = flushed
	}
}

// usable returns why nothing may be written, and finishes what an earlier failure
// left half done.
func (j *FileJournal) usable() error {
	if j.failed != nil {
		return j.failed
	}
	return j.copyMoved()
}

// record chains the step and appends it with what opens it. It fills in Agent,
// Stream, Seq and Prev and returns the step's hash.
func (j *FileJournal) record(s *flight.Step, open []opening) (flight.Hash, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.usable(); err != nil {
		return flight.Hash{}, err
	}
	hash, err := j.append(s, open)
	if err == nil && j.opt.Fsync == FsyncAlways {
		err = j.flush()
	}
	return hash, err
}

func (j *FileJournal) append(s *flight.Step, open []opening) (flight.Hash, error) {
	s.Agent, s.Stream, s.Seq, s.Prev = j.cur.Agent, j.cur.Stream, j.cur.Seq, j.cur.Prev
	if err := s.Check(); err != nil {
		return flight.Hash{}, fmt.Errorf("%w: %w", ErrStep, err)
	}
	hash := s.Hash()
	j.buf = appendStep(j.buf[:0], s, hash, open)
	if err := j.room(len(j.buf)); err != nil {
		return flight.Hash{}, err
	}
	if err := j.write(entry{kind: 's', num: s.Seq, hash: hash}); err != nil {
		return flight.Hash{}, err
	}
	j.cur.Seq, j.cur.Prev = s.Seq+1, hash
	return hash, nil
}

// flush forces the active segment to disk. A failed flush is final: the system may
// have dropped the pages and would report success the next time.
func (j *FileJournal) flush() error {
	if j.failed != nil || !j.dirty {
		return j.failed
	}
	err := j.f.Sync()
	if err == nil && j.newDir {
		err = syncDir(j.dir)
	}
	if err != nil {
		j.failed = fmt.Errorf("%w: %s: %w", ErrJournal, j.f.Name(), err)
		return j.failed
	}
	j.dirty, j.newDir = false, false
	return nil
}

// arm starts the timer that flushes the lines written from now on. The flush
// itself happens outside the lock, so that Record does not wait for it.
func (j *FileJournal) arm() {
	j.armed = true
	if j.timer != nil {
		j.timer.Reset(fsyncEvery)
		return
	}
	j.timer = time.AfterFunc(fsyncEvery, func() {
		j.mu.Lock()
		f := j.f
		j.armed = false
		j.mu.Unlock()
		j.flushBehind(f)
	})
}
