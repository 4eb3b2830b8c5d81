package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"karatum/flight"
)

// FileName is the database's name in the data directory.
const FileName = "karatum.db"

// DevChain is the chain id of the development chain, whose verdicts enter no
// public rating (spec section 8).
const DevChain = 31337

// Options of [Open]. Dir, Schema and Now are required.
type Options struct {
	Dir    string           // data directory; the file is Dir/karatum.db
	Schema string           // the text of schema.sql
	Now    func() time.Time // the clock behind [Tx.Now]
	Logger *slog.Logger     // defaults to one that drops everything

	// MustExist makes a missing database [ErrMissing] instead of a fresh
	// beginning. Set it where the directory already holds keys.
	MustExist bool

	// Seal is called once a group, on the writer's goroutine before COMMIT, with
	// the receipts of all batches inserted in it, in storage order. BatchID,
	// Position, ReceivedAt and AnchorBy are set; Seal fills Node and Signature
	// and, where one signature covers all, Group. Its error fails the group.
	// Without Seal no batch can be inserted.
	Seal func(receipts []*flight.Receipt) error

	// WALLimit is the most bytes that the write-ahead log grows to. Defaults to
	// 64 MB, the minimum is 8 MB.
	WALLimit int64

	// MinFree refuses writes with [ErrDiskFull] while the file system has fewer
	// bytes free. Defaults to 8 MB.
	MinFree uint64
}

// A Store is an open database. Its methods are safe for concurrent use.
type Store struct {
	opt     Options
	path    string
	log     *slog.Logger
	readers *sql.DB
	stmts   sync.Map // query text → *sql.Stmt of readers
	views   views
	places  chan struct{} // one for each snapshot that may be open
	w       *writer

	jobs    chan *job
	closing chan struct{} // closed by Close: no new job is taken
	stopped chan struct{} // closed when the writer has gone
	close   sync.Once
	leaving chan struct{} // closed first, it ends backups
	copying sync.RWMutex  // held for reading by a backup, which needs the writer to its end
	count   counters
}

// counters are what Stats reports; the writer adds to them.
type counters struct {
	groups, jobs, batches, checkpoints, interrupted atomic.Uint64
}

// Stats are for metrics.
type Stats struct {
	FileBytes, WALBytes int64
	Queue               int    // writes that wait for a turn
	Groups, Jobs        uint64 // commit groups, and writes in them
	Batches             uint64 // inserted since Open
	Checkpoints         uint64
	InterruptedViews    uint64 // reads ended to keep the log bounded
}

// readerConns is how many snapshots can be read at once.
const readerConns = 8

// Open opens the database in opt.Dir, creates it where there is none, and brings
// an older one up to date. It takes a quick look for damage, well under 50 ms on
// any size of file; [Check] is the thorough one. The errors are [ErrDamaged],
// [ErrMissing], [ErrNewer], [ErrDiskFull], or of the file system. The caller
// holds the directory's lock, see [LockDir].
func Open(ctx context.Context, opt Options) (*Store, error) {
	if err := opt.defaults(); err != nil {
		return nil, err
	}
	s := &Store{
		opt: opt, path: filepath.Join(opt.Dir, FileName), log: opt.Logger,
		places: make(chan struct{}, readerConns), jobs: make(chan *job, maxQueue), leaving: make(chan struct{}), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.views.init()
	if err := lookAtFile(s.path, opt.MustExist); err != nil {
		return nil, err
	}
	var err error
	if s.w, err = openWriter(ctx, s); err != nil {
		return nil, err
	}
	if s.readers, err = sql.Open("sqlite", dsn(s.path, readerPragmas)); err != nil {
		return nil, errors.Join(mapErr(err), s.w.close())
	}
	s.readers.SetMaxOpenConns(readerConns + 1) // one to prepare a statement on while all snapshots are taken
	s.readers.SetMaxIdleConns(2)
	s.readers.SetConnMaxIdleTime(time.Minute)
	if err := s.probe(ctx); err != nil {
		return nil, errors.Join(err, s.readers.Close(), s.w.close())
	}
	go s.w.loop()
	return s, nil
}

func (o *Options) defaults() error {
	if o.Dir == "" || o.Schema == "" || o.Now == nil {
		return errors.New("store: Options needs Dir, Schema and Now")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.WALLimit == 0 {
		o.WALLimit = 64 << 20
	}
	o.WALLimit = max(o.WALLimit, 8<<20)
	if o.MinFree == 0 {
		o.MinFree = 8 << 20
	}
	return nil
}

// Close lets the writes that were taken finish, ends all reads, and closes the
// file. The log is folded into the database.
func (s *Store) Close() error {
	err := ErrClosed
	s.close.Do(func() {
		close(s.leaving)
		s.copying.Lock()
		defer s.copying.Unlock()
		close(s.closing)
		<-s.stopped
		s.views.cancelAll()
		err = errors.Join(s.readers.Close(), s.w.close())
	})
	return err
}

// Stats returns what is known now; it reads no table.
func (s *Store) Stats() Stats {
	return Stats{
		FileBytes: fileSize(s.path), WALBytes: fileSize(s.path + "-wal"), Queue: len(s.jobs),
		Groups: s.count.groups.Load(), Jobs: s.count.jobs.Load(), Batches: s.count.batches.Load(),
		Checkpoints: s.count.checkpoints.Load(), InterruptedViews: s.count.interrupted.Load(),
	}
}

// Path returns the database file's path.
func (s *Store) Path() string { return s.path }

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// now returns the clock in unix milliseconds.
func (s *Store) now() uint64 { return uint64(max(s.opt.Now().UnixMilli(), 0)) }

// Update runs fn on the writer's goroutine and commits what it wrote, together
// with what concurrent callers wrote: they share one transaction and one fsync,
// and Update returns only after it. fn sees what earlier functions of its group
// wrote. An error of fn, which Update returns, undoes fn's own writes only. ctx
// ends the wait for a turn; once fn has begun, Update waits for the outcome. fn
// must be quick: no network, no heavy hashing, no other call of the store.
//
// Any other error means that nothing of fn is stored: [ErrDiskFull],
// [ErrDamaged], [ErrBusy], [ErrClosed], or what Options.Seal returned.
func (s *Store) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return s.submit(ctx, &job{ctx: ctx, fn: fn, done: make(chan error, 1)})
}

func (s *Store) submit(ctx context.Context, j *job) error {
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	select {
	case s.jobs <- j:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closing:
		return ErrClosed
	}
	select {
	case err := <-j.done:
		return j.outcome(err)
	case <-s.stopped: // the writer has gone; it may have answered before
	case <-ctx.Done():
		if j.state.CompareAndSwap(jobWaiting, jobAbandoned) {
			return context.Cause(ctx)
		}
		return j.outcome(<-j.done)
	}
	select {
	case err := <-j.done:
		return j.outcome(err)
	default:
		return ErrClosed
	}
}

// View runs fn on a snapshot. It ends the snapshot after 5 s, when ctx ends, or
// earlier when the write-ahead log could not be kept bounded otherwise; fn's
// reads then fail and View returns an error that wraps [ErrBusy]. fn must call
// neither Update nor View.
func (s *Store) View(ctx context.Context, fn func(tx *ReadTx) error) error {
	ctx, v, err := s.views.enter(ctx, s.closing)
	if err != nil {
		return err
	}
	defer s.views.leave(v)
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return viewErr(ctx, err)
	}
	defer tx.Rollback() // it only read; after a cancelled ctx it is rolled back already
	return viewErr(ctx, fn(&ReadTx{q: &snapshot{s: s, tx: tx}}))
}

// viewErr names why a view was ended, where it was.
func viewErr(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return mapErr(err)
}

// snapshot is the queryer of a view. Statements are prepared once a connection.
type snapshot struct {
	s  *Store
	tx *sql.Tx
}

func (q *snapshot) fail(err error) error { return mapErr(err) }

func (q *snapshot) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	st, ok := q.s.stmts.Load(text)
	if !ok {
		fresh, err := q.s.readers.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		var raced bool
		if st, raced = q.s.stmts.LoadOrStore(text, fresh); raced {
			fresh.Close()
		}
	}
	return q.tx.StmtContext(ctx, st.(*sql.Stmt)).QueryContext(ctx, args...)
}
