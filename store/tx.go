package store

import (
	"context"
	"database/sql"
	"fmt"
)

// A Tx writes, on the writer's goroutine, within [Store.Update]. It carries its
// own time. It must not be kept after the function returns.
//
// The frequent write, a batch that continues its stream, is decided from cached
// rows and staged in memory; the rows of a whole group are written together at
// its end. Any read or other write first writes what is staged, so that all
// methods agree on what they see.
type Tx struct {
	ReadTx
	w   *writer
	now uint64

	savepoint bool // open since the first statement that changes something
	mark      mark
	agents    []agentUndo // rows that this job changed, as they were before
	streams   []streamUndo
	written   []func() // what a rollback of the savepoint makes unwritten again
}

// mark is where the group stood when the job began.
type mark struct {
	receipts, flushed                   int
	nextPosition, nextAgent, nextStream uint64
}

// Now returns the group's time in unix milliseconds.
func (tx *Tx) Now() uint64 { return tx.now }

// runJob runs one job. Its error is the caller's; fatal is the group's.
func (w *writer) runJob(j *job) (err, fatal error) {
	tx := &Tx{w: w, now: w.s.now()}
	tx.q = tx
	tx.mark = mark{len(w.group.receipts), w.group.flushed, w.nextPosition, w.nextAgent, w.nextStream}
	w.group.tx = tx
	defer func() { w.group.tx = nil }()
	err = tx.call(j)
	switch {
	case w.group.broken != nil:
		return err, w.group.broken
	case err == nil:
		return nil, tx.release()
	}
	return err, tx.rollback()
}

// call runs fn and turns a panic into an error; the caller's goroutine raises
// the panic again.
func (tx *Tx) call(j *job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.panicked = p
			err = fmt.Errorf("store: panic in an update: %v", p)
		}
	}()
	return j.fn(tx)
}

func (tx *Tx) release() error {
	if !tx.savepoint {
		return nil
	}
	_, err := tx.w.exec("RELEASE job")
	return err
}

// rollback undoes the job in the database and in memory.
func (tx *Tx) rollback() error {
	w := tx.w
	if tx.savepoint {
		if _, err := w.exec("ROLLBACK TO job"); err != nil {
			return err
		}
		if _, err := w.exec("RELEASE job"); err != nil {
			return err
		}
		w.group.flushed = tx.mark.flushed
	}
	for i := len(tx.written) - 1; i >= 0; i-- {
		tx.written[i]()
	}
	for i := len(tx.agents) - 1; i >= 0; i-- {
		tx.agents[i].restore()
	}
	for i := len(tx.streams) - 1; i >= 0; i-- {
		tx.streams[i].restore()
	}
	w.group.receipts = w.group.receipts[:tx.mark.receipts]
	w.group.staged = w.group.staged[:tx.mark.receipts]
	w.nextPosition, w.nextAgent, w.nextStream = tx.mark.nextPosition, tx.mark.nextAgent, tx.mark.nextStream
	return nil
}

// sync writes what is staged before a statement that would not see it. Whatever
// the job itself has changed goes behind a savepoint.
func (tx *Tx) sync(writes bool) error {
	w := tx.w
	own := writes || len(tx.agents) > 0 || len(tx.streams) > 0
	if own && !tx.savepoint {
		if _, err := w.exec("SAVEPOINT job"); err != nil {
			return err
		}
		tx.savepoint = true
		tx.mark.flushed = w.group.flushed
	}
	return w.flush()
}

// query implements queryer.
func (tx *Tx) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if err := tx.sync(false); err != nil {
		return nil, err
	}
	return tx.w.query(text, args...)
}

func (tx *Tx) fail(err error) error { return tx.w.fail(err) }

// direct is the queryer of the writer's own look-ups, which do not write what is
// staged: they are for rows that are in the caches whenever they are staged.
type direct struct{ w *writer }

func (d direct) fail(err error) error { return d.w.fail(err) }

func (d direct) query(_ context.Context, text string, args ...any) (*sql.Rows, error) {
	return d.w.query(text, args...)
}

// exec changes something, behind the job's savepoint. It returns the number of
// rows that changed.
func (tx *Tx) exec(text string, args ...any) (int64, error) {
	if err := tx.sync(true); err != nil {
		return 0, err
	}
	res, err := tx.w.exec(text, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// must is exec for a statement whose condition is in its WHERE: no row changed
// means [ErrConflict].
func (tx *Tx) must(text string, args ...any) error {
	n, err := tx.exec(text, args...)
	if err == nil && n == 0 {
		err = ErrConflict
	}
	return err
}

// insert is exec that returns the new row's id.
func (tx *Tx) insert(text string, args ...any) (uint64, error) {
	if err := tx.sync(true); err != nil {
		return 0, err
	}
	res, err := tx.w.exec(text, args...)
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	return uint64(id), err
}
