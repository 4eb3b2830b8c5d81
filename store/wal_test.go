package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// TestWALBound writes as fast as it can, from many callers on one stream of which
// half offer what is stored already, while readers page through the data and one
// reader stalls for ever. The log must stay below its limit, the writers must
// not fail, and the stalled reader must be ended. KARATUM_SOAK sets how long it
// runs, else it stops when the log has begun anew several times.
func TestWALBound(t *testing.T) {
	opt := options(t, t.TempDir())
	opt.WALLimit = 8 << 20
	soak := 0 * time.Second
	if v := os.Getenv("KARATUM_SOAK"); v != "" {
		opt.WALLimit = 0 // the default
		var err error
		if soak, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, opt)
	limit := s.opt.WALLimit
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var next, worst atomic.Int64
	locks := NewKeyLocks()
	for n := range 64 {
		wg.Go(func() { soakWriter(ctx, t, s, locks, n, &next) })
	}
	for range 4 {
		wg.Go(func() { soakReader(ctx, t, s) })
	}
	stalled := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		stalled <- s.View(context.Background(), func(tx *ReadTx) error {
			if _, err := tx.Counts(context.Background()); err != nil {
				return err
			}
			close(started)
			<-ctx.Done() // ignores its own context, as a stuck client does
			_, err := tx.Counts(context.Background())
			return err
		})
	}()
	<-started
	deadline := time.Now().Add(soak)
	for s.Stats().InterruptedViews == 0 || s.count.checkpoints.Load() < 6 || time.Now().Before(deadline) {
		worst.Store(max(worst.Load(), fileSize(s.path+"-wal")))
		time.Sleep(2 * time.Millisecond)
		if t.Context().Err() != nil || t.Failed() {
			break
		}
	}
	stop()
	wg.Wait()
	if err := <-stalled; !errors.Is(err, ErrBusy) {
		t.Errorf("the stalled reader ended with %v, want ErrBusy", err)
	}
	if got := worst.Load(); got > limit {
		t.Errorf("the log grew to %d bytes, the limit is %d", got, limit)
	}
	t.Logf("%d batches, log at most %.1f of %.1f MB, %+v", s.Stats().Batches, float64(worst.Load())/1e6, float64(limit)/1e6, s.Stats())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(context.Background(), filepath.Join(opt.Dir, FileName)); err != nil {
		t.Error(err)
	}
}

// soakWriter appends to the one stream, or offers a fork of what is stored and
// keeps the note of it, a page of data each.
func soakWriter(ctx context.Context, t *testing.T, s *Store, locks *KeyLocks, n int, next *atomic.Int64) {
	note := make([]byte, 4000)
	for round := 0; ctx.Err() == nil; round++ {
		binary.BigEndian.PutUint64(note, uint64(round)) // SQLite skips writing what is there
		index, unlock := uint64(next.Load()), func() {}
		fork := n%2 == 1 && index > 0
		if fork {
			index--
		} else {
			unlock = locks.Lock(StreamKey{testAgent(1), "soak"})
			index = uint64(next.Load())
		}
		b := testBatch(1, "soak", index)
		err := s.Update(ctx, func(tx *Tx) error {
			same, _, _, err := tx.Around(ctx, b.Header.Agent, b.Header.Stream, b.Header.Index)
			if err != nil {
				return err
			}
			if fork != (same != nil) {
				return fmt.Errorf("index %d: stored %v", index, same != nil)
			}
			if fork {
				return tx.SetMeta(ctx, fmt.Sprint("fork", n, round%200), note)
			}
			_, err = insert(ctx, tx, b)
			return err
		})
		if err == nil && !fork {
			next.Add(1)
		}
		unlock()
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrBusy) {
			t.Errorf("writer %d: %v", n, err)
			return
		}
	}
}

func soakReader(ctx context.Context, t *testing.T, s *Store) {
	for ctx.Err() == nil {
		err := s.View(ctx, func(tx *ReadTx) error {
			rows, _, err := tx.Batches(ctx, Page{Limit: 50})
			for i, b := range rows {
				if i > 0 && b.Position+1 != rows[i-1].Position {
					return fmt.Errorf("positions %d, %d", rows[i-1].Position, b.Position)
				}
			}
			return err
		})
		if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, context.Canceled) {
			t.Errorf("reader: %v", err)
			return
		}
		time.Sleep(time.Millisecond) // readers that never pause would have all of a small machine
	}
}

func TestViewIsOneSnapshot(t *testing.T) {
	s := fresh(t)
	put(t, s, testBatch(1, "a", 0))
	read(t, s, func(tx *ReadTx) error {
		before, err := tx.Counts(t.Context())
		if err != nil {
			return err
		}
		put(t, s, testBatch(1, "a", 1))
		after, err := tx.Counts(t.Context())
		if before != after {
			t.Errorf("counts moved from %+v to %+v", before, after)
		}
		return err
	})
}

// TestLogShrinks expects an empty log after a rest, and a store that was closed
// to leave one file.
func TestLogShrinks(t *testing.T) {
	s := fresh(t)
	put(t, s, testBatch(1, "a", 0))
	if s.Stats().WALBytes == 0 {
		t.Fatal("nothing in the log")
	}
	if err := s.onWriter(t.Context(), func(w *writer) error { w.rest(); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats().WALBytes; got != 0 {
		t.Errorf("the log has %d bytes after a rest", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fileSize(s.path + "-wal"); got != 0 {
		t.Errorf("the log has %d bytes after Close", got)
	}
}

// TestViewsPrepare has as many views as there can be, all with a snapshot, run a
// statement that no connection knows yet, while as many wait for their turn.
func TestViewsPrepare(t *testing.T) {
	s := fresh(t)
	put(t, s, testBatch(1, "a", 0))
	var wg, ready sync.WaitGroup
	ready.Add(readerConns)
	for n := range 2 * readerConns {
		started := make(chan struct{})
		wg.Go(func() {
			err := s.View(t.Context(), func(tx *ReadTx) error {
				close(started)
				if n < readerConns {
					ready.Done()
				}
				ready.Wait()
				return tx.one(t.Context(), []any{new(int)}, fmt.Sprintf("SELECT %d FROM batch", n))
			})
			if err != nil {
				t.Errorf("view %d: %v", n, err)
			}
		})
		if n < readerConns {
			<-started
		}
	}
	wg.Wait()
}

// TestViewEnds expects the reads of a view that is too old to fail, though the
// function does not look at its context, and the snapshot to be gone by then.
func TestViewEnds(t *testing.T) {
	s := fresh(t)
	put(t, s, testBatch(1, "a", 0))
	s.views.life = 20 * time.Millisecond
	err := s.View(t.Context(), func(tx *ReadTx) error {
		for {
			if _, err := tx.Counts(context.Background()); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("View = %v, want ErrBusy", err)
	}
	s.views.life = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	err = s.View(ctx, func(tx *ReadTx) error {
		cancel()
		_, err := tx.Counts(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("View = %v, want canceled", err)
	}
	read(t, s, func(tx *ReadTx) error { _, err := tx.BatchAt(t.Context(), 1); return err })
}

// TestMode expects files that only the owner can read.
func TestMode(t *testing.T) {
	s := fresh(t)
	put(t, s, testBatch(1, "a", 0))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s%s: %v, %v", FileName, suffix, info.Mode(), err)
		}
	}
}

func TestCodes(t *testing.T) {
	for code, want := range map[int]error{
		sqlite3.SQLITE_FULL: ErrDiskFull, sqlite3.SQLITE_IOERR_WRITE: ErrDiskFull, sqlite3.SQLITE_IOERR_FSYNC: ErrDiskFull,
		sqlite3.SQLITE_IOERR_SHMSIZE: ErrDiskFull, sqlite3.SQLITE_IOERR_READ: ErrDamaged, sqlite3.SQLITE_IOERR_SHORT_READ: ErrDamaged,
		sqlite3.SQLITE_CORRUPT: ErrDamaged, sqlite3.SQLITE_CORRUPT_INDEX: ErrDamaged, sqlite3.SQLITE_NOTADB: ErrDamaged,
		sqlite3.SQLITE_CONSTRAINT_UNIQUE: ErrConflict, sqlite3.SQLITE_BUSY_SNAPSHOT: ErrBusy, sqlite3.SQLITE_INTERRUPT: ErrBusy,
		sqlite3.SQLITE_ERROR: nil, sqlite3.SQLITE_MISUSE: nil,
	} {
		if got := codeKind(code); got != want {
			t.Errorf("code %d = %v, want %v", code, got, want)
		}
	}
}
