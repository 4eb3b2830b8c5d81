package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"karatum/flight"
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
	guarded bool            // the guard knows of the batch in flight
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
	if isFile(dir) {
		return nil, fmt.Errorf("%w: %s is a file, maybe of an SDK, which alone can go on with it; name a directory", ErrNotJournal, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("recorder: journal %s: %w", dir, err)
	}
	j := &FileJournal{dir: dir, opt: opt, lock: flock.New(filepath.Join(dir, "lock")), checked: map[uint64]bool{}}
	switch ok, err := j.lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("recorder: journal %s: lock: %w", dir, err)
	case !ok:
		return nil, fmt.Errorf("%w: %s; end that one, or give this recorder a journal of its own", ErrLocked, dir)
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
		return fmt.Errorf("%w: %s is of %s, the key is of %s; use that agent's key, or another directory", ErrAgent, j.dir, j.cur.Agent, j.opt.Agent)
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

// state returns the state so far.
func (j *FileJournal) state() cursor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cur
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
