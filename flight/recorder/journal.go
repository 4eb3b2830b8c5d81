package recorder

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A Fsync policy says when steps are flushed to disk. Batches always are, with
// their steps, before they are sent.
type Fsync string

// The policies. A step is with the operating system when Record returns, so a
// killed process loses nothing under any of them; they differ in what a power
// failure may take.
const (
	FsyncAlways   Fsync = "always"   // nothing: each Record waits for the disk
	FsyncInterval Fsync = "interval" // the last second
	FsyncNever    Fsync = "never"    // whatever the system had not yet written
)

const (
	fsyncEvery     = time.Second
	defaultSegment = 16 << 20
)

// JournalOptions configure [OpenJournal].
type JournalOptions struct {
	Agent flight.Address // whose steps it holds
	// Name begins the stream name NAME-<8 random hex>, drawn when the journal is
	// created. Defaults to "main".
	Name string
	// Fsync defaults to FsyncInterval.
	Fsync Fsync
	// SegmentBytes is the size from which a file is sealed. Defaults to 16 MiB.
	SegmentBytes int64
}

// A FileJournal is the append-only log of one recorder: a directory of JSON lines
// under an exclusive lock (spec section 10). Its methods may be called from any
// goroutine.
type FileJournal struct {
	dir     string
	opt     JournalOptions
	lock    *flock.Flock
	repairs []error // what Open put right

	// mu covers everything below. It is never held across the network, only across
	// the disk, so Record waits for the disk at most.
	mu      sync.Mutex
	cur     cursor
	segs    []segment       // the last one is active
	checked map[uint64]bool // sealed segments read through, or sealed by this process
	f       *os.File        // active segment
	size    int64           // of its whole lines
	entries []entry         // of its lines
	buf     []byte          // scratch of one line
	dirty   bool            // lines may be written that no flush covers yet
	timer   *time.Timer     // flushes them under FsyncInterval
	armed   bool            // the timer runs
	newDir  bool            // a file was made that no flush of the directory covers yet
	sealing sealing         // of the active segment
	failed  error           // set by a failed flush, for good
}

// OpenJournal opens or creates the journal in dir, repairs a torn end and begins a
// new stream where the old one might not be continued safely; [FileJournal.Repairs]
// tells. Errors wrap [ErrLocked], [ErrDamaged] or [ErrAgent].
func OpenJournal(dir string, opt JournalOptions) (*FileJournal, error) {
	if opt.Name == "" {
		opt.Name = "main"
	}
	if opt.Fsync == "" {
		opt.Fsync = FsyncInterval
	}
	if opt.SegmentBytes <= 0 {
		opt.SegmentBytes = defaultSegment
	}
	if opt.Fsync != FsyncAlways && opt.Fsync != FsyncInterval && opt.Fsync != FsyncNever {
		return nil, fmt.Errorf("recorder: fsync policy is %q; it is always, interval or never", opt.Fsync)
	}
	if err := flight.CheckStream(opt.Name + "-00000000"); err != nil {
		return nil, fmt.Errorf("recorder: stream name %q: %w", opt.Name, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &FileJournal{dir: dir, opt: opt, lock: flock.New(filepath.Join(dir, "lock")), checked: map[uint64]bool{}}
	if ok, err := j.lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(ErrLocked, err)
	}
	if err := j.open(); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// Repairs returns what OpenJournal put right: [ErrTorn], [*StreamChange].
func (j *FileJournal) Repairs() []error { return j.repairs }

func (j *FileJournal) open() error {
	j.mu.Lock() // files that fill up while steps are moved are flushed behind
	defer j.mu.Unlock()
	segs, torn, err := listSegments(j.dir)
	if err != nil {
		return err
	}
	if torn != "" {
		j.repairs = append(j.repairs, fmt.Errorf("%w: %s held no whole line", ErrTorn, torn))
		if err := os.Remove(torn); err != nil {
			return err
		}
	}
	if j.segs = segs; len(segs) == 0 {
		return j.create()
	}
	if err := j.load(&segs[len(segs)-1]); err != nil {
		return err
	}
	if j.cur.Agent != j.opt.Agent {
		return fmt.Errorf("%w: %s, not %s", ErrAgent, j.cur.Agent, j.opt.Agent)
	}
	why, err := checkGuard(j.dir, &j.cur)
	if err != nil || why == "" {
		return errors.Join(err, j.copyMoved())
	}
	change, err := j.newStream(why, j.cur.From)
	if err == nil {
		j.repairs = append(j.repairs, change)
	}
	return err
}

// create begins a journal: its first stream and its first file.
func (j *FileJournal) create() error {
	head := cursor{Agent: j.opt.Agent, Stream: j.drawStream()}
	if err := writeGuard(j.dir, head.Stream, -1); err != nil {
		return err
	}
	return j.begin(1, head)
}

// drawStream returns a name that no other journal has, not even this one's past.
func (j *FileJournal) drawStream() string {
	var b [4]byte
	rand.Read(b[:]) // never fails: it ends the process where the system has no randomness
	return fmt.Sprintf("%s-%x", j.opt.Name, b)
}

// load reads the last segment and cuts off its torn end.
func (j *FileJournal) load(s *segment) error {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	r, err := replaySegment(s.path, s.n, data, nil)
	if err != nil {
		return err
	}
	if j.f, err = os.OpenFile(s.path, os.O_RDWR, 0o600); err != nil {
		return err
	}
	j.cur, j.entries, j.size = r.cursor, r.entries, int64(r.good)
	if r.torn > 0 {
		j.repairs = append(j.repairs, fmt.Errorf("%w: %d bytes of %s", ErrTorn, r.torn, s.path))
	}
	if r.open {
		if _, err := j.f.WriteAt([]byte{'\n'}, j.size); err != nil {
			return err
		}
		j.size++
	}
	return errors.Join(j.f.Truncate(j.size), j.f.Sync())
}

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

// state returns the state so far.
func (j *FileJournal) state() cursor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cur
}

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
	j.cur = next
	if err := j.flush(); err != nil {
		return nil, err
	}
	return body, writeGuard(j.dir, h.Stream, int64(h.Index))
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
	head := cursor{Agent: old.Agent, Stream: j.drawStream(), Inflight: bytes.Clone(old.Inflight)}
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

// Close flushes and closes the journal and frees its lock.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.failed, ErrClosed) {
		return nil
	}
	if j.timer != nil {
		j.timer.Stop()
	}
	var err error
	if j.f != nil {
		err = errors.Join(j.flush(), j.f.Close())
	}
	j.failed = ErrClosed
	return errors.Join(err, j.lock.Close())
}
