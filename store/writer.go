package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"karatum/flight"
)

// Limits of a commit group and of the queue before it. A group stops taking jobs
// at maxGroupBatches or maxGroupBytes, which bounds how far one transaction can
// carry the write-ahead log past its limit.
const (
	maxQueue        = 1024
	maxGroupJobs    = 512
	maxGroupBatches = 512
	maxGroupBytes   = 4 << 20
	idleAfter       = 20 * time.Second
)

// States of a job: who takes it first, the writer or a caller that gave up.
const (
	jobWaiting int32 = iota
	jobTaken
	jobAbandoned
)

// A job is one caller's function. done has room for its outcome, so the writer
// never waits for a caller.
type job struct {
	ctx      context.Context
	fn       func(*Tx) error
	raw      func(*writer) error // outside of any transaction, instead of fn
	state    atomic.Int32
	done     chan error
	panicked any // set before done is answered
}

// outcome raises on the caller's goroutine what panicked in fn.
func (j *job) outcome(err error) error {
	if j.panicked != nil {
		panic(j.panicked)
	}
	return err
}

// A writer is the only connection that writes. Everything in it belongs to the
// goroutine of loop, which Open starts after it has built the writer.
type writer struct {
	s     *Store
	db    *sql.DB
	conn  *sql.Conn
	stmts stmtCache
	wal   wal
	cache heads

	nextPosition, nextAgent, nextStream uint64 // ids of the next rows
	group                               group
	failing                             bool // the last group failed
}

// A group is the state of the running transaction.
type group struct {
	number   uint64
	tx       *Tx // of the running job
	receipts []*flight.Receipt
	staged   []stagedBatch // rows of the receipts
	flushed  int           // of staged, how many are written
	agents   []*agentRow   // changed and not written
	streams  []*streamRow
	touched  []dropper // every cached row that the group changed
	bytes    int       // of large values
	broken   error     // a failure after which SQLite may have ended the transaction
}

type stagedBatch struct {
	stream uint64
	*Batch
}

// openWriter opens the connection and brings the file up to date.
func openWriter(ctx context.Context, s *Store) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(s.path, writerPragmas))
	if err != nil {
		return nil, mapErr(err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(mapErr(err), db.Close())
	}
	w := &writer{s: s, db: db, conn: conn, stmts: stmtCache{conn: conn, stmts: map[string]*sql.Stmt{}}, cache: newHeads()}
	if err := w.prepare(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *writer) prepare(ctx context.Context) error {
	if err := migrate(ctx, w.conn, w.s.opt.Schema, migrations); err != nil {
		return err
	}
	if err := w.wal.init(w); err != nil {
		return err
	}
	return w.loadNext(ctx)
}

const selectNext = `SELECT (SELECT coalesce(max(position), 0) + 1 FROM batch),
		(SELECT coalesce(max(id), 0) + 1 FROM agent), (SELECT coalesce(max(id), 0) + 1 FROM stream)`

// loadNext reads where the ids go on.
func (w *writer) loadNext(ctx context.Context) error {
	err := w.conn.QueryRowContext(ctx, selectNext).
		Scan(num(&w.nextPosition), num(&w.nextAgent), num(&w.nextStream))
	return mapErr(err)
}

func (w *writer) close() error {
	for _, st := range w.stmts.stmts {
		st.Close() // the connection goes anyway
	}
	return mapErr(errors.Join(w.conn.Close(), w.db.Close()))
}

// exec runs a prepared statement that never waits for a caller's context. After
// a failure that broke the group it runs nothing: what came next would be
// committed by itself.
func (w *writer) exec(text string, args ...any) (sql.Result, error) {
	if w.group.broken != nil {
		return nil, w.group.broken
	}
	st, err := w.stmts.get(text)
	if err != nil {
		return nil, w.fail(err)
	}
	res, err := st.ExecContext(context.Background(), args...)
	return res, w.fail(err)
}

// query is exec for a statement that returns rows.
func (w *writer) query(text string, args ...any) (*sql.Rows, error) {
	if w.group.broken != nil {
		return nil, w.group.broken
	}
	st, err := w.stmts.get(text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...)
}

// fail maps an error. SQLite undoes only the statement when a constraint is
// violated; after a full disk, an I/O error or damage it may have rolled the
// whole transaction back, so the group is broken.
func (w *writer) fail(err error) error {
	err = mapErr(err)
	if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) && w.group.broken == nil {
		w.group.broken = err
	}
	return err
}

// loop runs groups until the store closes and the queue is empty.
func (w *writer) loop() {
	defer close(w.s.stopped)
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	for {
		select {
		case j := <-w.s.jobs:
			w.run(w.collect(j))
			idle.Reset(idleAfter)
		case <-idle.C:
			w.rest()
		case <-w.s.closing:
			select {
			case j := <-w.s.jobs:
				w.run(w.collect(j))
			default:
				w.rest()
				return
			}
		}
	}
}

// collectTurns is how often collect gives others a turn.
const collectTurns = 1

// collect takes the jobs that wait already: those that came while the group
// before was being synced. Then it gives the callers that are ready to run a
// turn, for they may be about to add a job: that costs an idle node nothing and
// spares a busy one many small groups, each with its fsync.
func (w *writer) collect(first *job) []*job {
	jobs, turns := []*job{first}, 0
	for first.raw == nil && len(jobs) < maxGroupJobs {
		select {
		case j := <-w.s.jobs:
			jobs = append(jobs, j)
			if j.raw != nil {
				return jobs
			}
		default:
			if turns++; turns > collectTurns {
				return jobs
			}
			runtime.Gosched()
		}
	}
	return jobs
}

// run commits the jobs in as few groups as their size allows, then looks after
// the write-ahead log, when every caller has its answer.
func (w *writer) run(jobs []*job) {
	for len(jobs) > 0 {
		if raw := jobs[0].raw; raw != nil {
			if jobs[0].state.CompareAndSwap(jobWaiting, jobTaken) {
				jobs[0].done <- raw(w)
			}
			jobs = jobs[1:]
			continue
		}
		jobs = w.commit(jobs)
		w.group.broken = nil
		w.wal.tend(w)
	}
}

// commit runs one group and returns the jobs that it left for the next. The
// errors of jobs stay theirs; an error of the group is everyone's.
func (w *writer) commit(jobs []*job) (rest []*job) {
	var done []*job
	errs := []error{}
	err := w.begin()
	for len(jobs) > 0 && jobs[0].raw == nil && !w.full() {
		j := jobs[0]
		jobs = jobs[1:]
		if !j.state.CompareAndSwap(jobWaiting, jobTaken) {
			continue
		}
		var jobErr error
		if err == nil {
			jobErr, err = w.runJob(j)
		}
		done, errs = append(done, j), append(errs, jobErr)
	}
	batches := len(w.group.receipts)
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		w.abort()
	}
	w.s.count.groups.Add(1)
	w.s.count.jobs.Add(uint64(len(done)))
	for i, j := range done {
		if err != nil && errs[i] == nil {
			errs[i] = err
		}
		j.done <- errs[i]
	}
	if err == nil {
		w.s.count.batches.Add(uint64(batches))
	}
	w.report(err)
	return jobs
}

// report logs when groups begin to fail and when they succeed again, not each of
// a thousand failures on a full disk.
func (w *writer) report(err error) {
	switch {
	case err != nil && !w.failing:
		w.s.log.Error("writes fail", "err", err)
	case err == nil && w.failing:
		w.s.log.Info("writes succeed again")
	}
	w.failing = err != nil
}

func (w *writer) full() bool {
	return len(w.group.receipts) >= maxGroupBatches || w.group.bytes >= maxGroupBytes
}

// begin takes the write lock. Without room, or with a log that could not be
// bounded, nothing is begun.
func (w *writer) begin() error {
	w.group = group{
		number: w.group.number + 1, receipts: w.group.receipts[:0], staged: w.group.staged[:0],
		agents: w.group.agents[:0], streams: w.group.streams[:0], touched: w.group.touched[:0],
	}
	if err := w.wal.admit(w); err != nil {
		return err
	}
	free, err := freeBytes(w.s.opt.Dir)
	if err != nil { // it cannot be told: the disk is full when a write says so
		free = math.MaxInt64
	}
	w.wal.free = int64(min(free, math.MaxInt64))
	if free < w.s.opt.MinFree {
		return fmt.Errorf("%w: %d bytes are free, the minimum is %d", ErrDiskFull, free, w.s.opt.MinFree)
	}
	_, err = w.exec("BEGIN IMMEDIATE")
	return err
}

// finish writes what is staged, has the receipts sealed and commits.
func (w *writer) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if w.group.broken != nil {
		return w.group.broken
	}
	if len(w.group.receipts) > 0 {
		if err := w.s.opt.Seal(w.group.receipts); err != nil {
			return fmt.Errorf("store: seal %d receipts: %w", len(w.group.receipts), err)
		}
		if err := w.insertReceipts(w.group.receipts); err != nil {
			return err
		}
	}
	if _, err := w.exec("COMMIT"); err != nil {
		return err
	}
	w.cache.age()
	clear(w.group.receipts) // let go of what the callers own
	clear(w.group.staged)
	return nil
}

// abort undoes the whole group: the transaction, and what the caches took over
// from it. A transaction that SQLite has ended by itself cannot be rolled back;
// the error of that is of no interest.
func (w *writer) abort() {
	w.group.broken = nil
	w.exec("ROLLBACK")
	w.group.broken = nil
	for _, row := range w.group.touched {
		row.drop(&w.cache)
	}
	w.group.receipts = w.group.receipts[:0]
	if err := w.loadNext(context.Background()); err != nil {
		w.s.log.Error("ids not read after a rollback", "err", err)
	}
}

// rest is called when nothing was written for a while, and at the end: it empties
// the log and gives memory back.
func (w *writer) rest() {
	w.group.broken = nil
	w.wal.truncate(w, 0)
	if _, err := w.exec("PRAGMA shrink_memory"); err != nil {
		w.s.log.Warn("memory not given back", "err", err)
	}
}
