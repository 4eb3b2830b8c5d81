package store

import (
	"context"
	"fmt"
	"time"

	"modernc.org/sqlite"
)

// Pages of the database, and what each takes in the log.
const (
	pageSize  = 4096
	frameSize = pageSize + 24
)

// checkpointPages is how many pages are written between two checkpoints. More of
// them means that a page which is changed often is copied less often.
const checkpointPages = 4000

// readerAge is how old a snapshot gets before it is ended for the log's sake.
const readerAge = time.Second

// lowDisk is how much room is kept besides what the log could need in the
// database. Below it the log is emptied after every group: on a full disk what
// waits in the log could no longer be copied back, and the log's own room would
// be lost to it.
const lowDisk = 1 << 20

// A wal keeps the write-ahead log bounded. The log grows at its end as long as
// any snapshot still reads from it; only when none does can it begin anew.
// SQLite's own checkpoint at every commit is off: it never waits for a reader,
// so a stalled one, or many that overlap, would let the log grow for ever.
type wal struct {
	soft, hard int64 // bytes
	log        int64 // pages in the log after the last checkpoint, at most
	since      int64 // pages written since
	free       int64 // bytes of the file system, before the last group
}

// init folds in what the last process left.
func (l *wal) init(w *writer) error {
	l.soft, l.hard = w.s.opt.WALLimit*3/8, w.s.opt.WALLimit*3/4
	_, err := l.checkpoint(w, "TRUNCATE")
	return err
}

// bytes returns how long the log can be now.
func (l *wal) bytes() int64 { return (l.log + l.since) * frameSize }

// tend is called after each group. It copies pages back when enough were
// written, and makes the log begin anew when it gets long.
func (l *wal) tend(w *writer) {
	n, err := l.written(w)
	if err != nil {
		w.s.log.Error("log not measured", "err", err)
		return
	}
	l.since += n
	if l.bytes() > 0 && l.free < 2*l.bytes()+lowDisk {
		l.truncate(w, readerAge)
		return
	}
	if l.since < min(checkpointPages, l.soft/frameSize) && l.bytes() < l.hard {
		return
	}
	if _, err := l.checkpoint(w, "PASSIVE"); err != nil {
		w.s.log.Warn("checkpoint failed, it will be tried again", "err", err)
	}
	if l.bytes() > l.soft {
		l.truncate(w, readerAge)
	}
}

// admit refuses a group that could carry the log past its limit.
func (l *wal) admit(w *writer) error {
	if l.bytes() < l.hard {
		return nil
	}
	l.truncate(w, readerAge)
	if l.bytes() >= l.hard {
		return fmt.Errorf("%w: the write-ahead log cannot be emptied, it has %d bytes", ErrBusy, l.bytes())
	}
	return nil
}

// truncate empties the log. It keeps new snapshots out, waits for those that are
// open and, where age is not 0, ends those older than age; all of them where the
// log is near its limit.
func (l *wal) truncate(w *writer, age time.Duration) {
	wait := 2 * readerAge
	if age == 0 {
		age, wait = viewLife, readerAge/10
	}
	if l.bytes() >= l.hard {
		age = 0
	}
	reopen := w.s.views.shut()
	defer reopen()
	w.s.count.interrupted.Add(uint64(w.s.views.drain(age, wait)))
	emptied, err := l.checkpoint(w, "TRUNCATE")
	if err != nil && !w.failing {
		w.s.log.Warn("checkpoint failed, it will be tried again", "err", err)
	} else if err == nil && !emptied && age < viewLife {
		w.s.log.Warn("the write-ahead log is still being read", "bytes", l.bytes())
	}
}

// checkpoint copies pages from the log into the database and reports whether all
// were copied.
func (l *wal) checkpoint(w *writer, mode string) (all bool, err error) {
	var busy, log, copied int64
	err = w.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &log, &copied)
	if err != nil {
		return false, mapErr(err)
	}
	l.log, l.since = max(log, 0), 0
	w.s.count.checkpoints.Add(1)
	return busy == 0 && log == copied, nil
}

// written returns how many pages went into the log since it was last asked.
func (l *wal) written(w *writer) (n int64, err error) {
	err = w.conn.Raw(func(c any) error {
		pages, _, err := c.(sqlite.DBStatus).Status(sqlite.DBStatusCacheWrite, true)
		n = int64(pages)
		return err
	})
	return n, err
}
