package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"karatum/flight"
)

func TestReadersCannotWrite(t *testing.T) {
	s := fresh(t)
	put(t, s, testBatch(1, "a", 0))
	for _, text := range []string{"DELETE FROM batch", "INSERT INTO meta VALUES ('a', x'00')", "CREATE TABLE x (a)", "PRAGMA user_version = 9"} {
		if _, err := s.readers.ExecContext(t.Context(), text); err == nil {
			t.Errorf("%s: a reader wrote", text)
		}
	}
	err := s.View(t.Context(), func(tx *ReadTx) error {
		return tx.each(t.Context(), func(scanner) error { return nil }, "DELETE FROM batch RETURNING position")
	})
	if err == nil {
		t.Error("a view wrote")
	}
	read(t, s, func(tx *ReadTx) error { _, err := tx.BatchAt(t.Context(), 1); return err })
}

func TestPragmas(t *testing.T) {
	s := fresh(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "wal_autocheckpoint": "0",
		"mmap_size": "0", "page_size": fmt.Sprint(pageSize), "trusted_schema": "0"} {
		var got string
		err := s.onWriter(t.Context(), func(w *writer) error {
			return w.conn.QueryRowContext(context.Background(), "PRAGMA "+pragma).Scan(&got)
		})
		if err != nil && !errors.Is(err, sql.ErrNoRows) || got != want && pragma != "mmap_size" {
			t.Errorf("%s = %q, %v; want %s", pragma, got, err, want)
		}
	}
}

// TestGroup commits four jobs of which two fail, at different depths, and expects
// one group, one signature, contiguous positions, and no trace of the failures.
func TestGroup(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, options(t, dir))
	put(t, s, testBatch(1, "a", 0))
	before := s.Stats().Groups
	boom := errors.New("boom")
	ctx := t.Context()
	errs := together(t, s,
		func(tx *Tx) error { _, err := insert(ctx, tx, testBatch(1, "a", 1)); return err },
		func(tx *Tx) error { // staged only
			if _, err := insert(ctx, tx, testBatch(3, "c", 0)); err != nil {
				return err
			}
			return boom
		},
		func(tx *Tx) error { // written behind the savepoint
			if _, err := insert(ctx, tx, testBatch(1, "a", 2)); err != nil {
				return err
			}
			if _, err := insert(ctx, tx, testBatch(4, "d", 5)); err != nil { // with a gap
				return err
			}
			if b, err := tx.BatchOfIndex(ctx, testAgent(1), "a", 1); err != nil || b.Position != 2 {
				return fmt.Errorf("earlier job not seen: %v", err)
			}
			return boom
		},
		func(tx *Tx) error { _, err := insert(ctx, tx, testBatch(1, "a", 2)); return err },
		func(tx *Tx) error { _, err := insert(ctx, tx, testBatch(4, "d", 0)); return err },
	)
	for i, want := range []error{nil, boom, boom, nil, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("job %d: %v, want %v", i, errs[i], want)
		}
	}
	if got := s.Stats().Groups - before; got != 1 {
		t.Errorf("%d groups, want 1", got)
	}
	read(t, s, func(tx *ReadTx) error {
		for position := range uint64(4) {
			r, err := tx.Receipt(ctx, position+1)
			if err != nil || r.Verify() != nil {
				t.Errorf("receipt %d: %v, %v", position+1, err, r.Verify())
			}
		}
		if _, err := tx.Agent(ctx, testAgent(3)); !errors.Is(err, ErrNotFound) {
			t.Errorf("agent of a failed job: %v", err)
		}
		gaps, err := tx.Gaps(ctx, testAgent(4), "d", 10)
		if err != nil || len(gaps) != 0 {
			t.Errorf("gaps = %v, %v", gaps, err)
		}
		c, err := tx.Counts(ctx)
		if err != nil || c.Batches != 4 || c.Agents != 2 {
			t.Errorf("counts = %+v, %v", c, err)
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), filepath.Join(dir, FileName)); err != nil {
		t.Error(err)
	}
}

func TestSealFails(t *testing.T) {
	opt := options(t, t.TempDir())
	good := opt.Seal
	opt.Seal = func(rs []*flight.Receipt) error {
		if len(rs) > 1 {
			return errors.New("no key")
		}
		return good(rs)
	}
	s := openStore(t, opt)
	ctx := t.Context()
	for i, err := range together(t, s,
		func(tx *Tx) error { _, err := insert(ctx, tx, testBatch(1, "a", 0)); return err },
		func(tx *Tx) error { _, err := insert(ctx, tx, testBatch(2, "a", 0)); return err }) {
		if err == nil {
			t.Errorf("job %d succeeded without a receipt", i)
		}
	}
	if r := put(t, s, testBatch(2, "a", 0))[0]; r.Position != 1 || r.Verify() != nil {
		t.Errorf("receipt after a failed group = %+v", r)
	}
}

func TestPanicReachesCaller(t *testing.T) {
	s := fresh(t)
	func() {
		defer func() {
			if p := recover(); p != "oops" {
				t.Errorf("recovered %v", p)
			}
		}()
		s.Update(t.Context(), func(tx *Tx) error {
			if _, err := insert(t.Context(), tx, testBatch(1, "a", 0)); err != nil {
				return err
			}
			panic("oops")
		})
		t.Error("Update returned")
	}()
	if r := put(t, s, testBatch(1, "a", 0))[0]; r.Position != 1 {
		t.Errorf("position = %d", r.Position)
	}
}

func TestUpdateContext(t *testing.T) {
	s := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	release, held := make(chan struct{}), make(chan struct{})
	go s.onWriter(context.Background(), func(*writer) error { close(held); <-release; return nil })
	<-held
	ran, waited := false, make(chan error, 1)
	go func() { waited <- s.Update(ctx, func(*Tx) error { ran = true; return nil }) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("Update = %v, want canceled", err)
	}
	close(release)
	// Once it has begun, a cancelled context does not hide the outcome.
	ctx, cancel = context.WithCancel(t.Context())
	err := s.Update(ctx, func(tx *Tx) error {
		cancel()
		_, err := insert(ctx, tx, testBatch(1, "a", 0))
		return err
	})
	if err != nil || ran {
		t.Errorf("Update = %v, abandoned job ran: %v", err, ran)
	}
	read(t, s, func(tx *ReadTx) error { _, err := tx.BatchAt(t.Context(), 1); return err })
}

func TestClosed(t *testing.T) {
	s := fresh(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Close":  s.Close(),
		"Update": s.Update(t.Context(), func(*Tx) error { return nil }),
		"View":   s.View(t.Context(), func(*ReadTx) error { return nil }),
		"Backup": s.Backup(t.Context(), filepath.Join(t.TempDir(), "b")),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", name, err)
		}
	}
}
