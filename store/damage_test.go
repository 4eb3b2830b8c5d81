package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"karatum/store/storetest"
)

// filled makes a closed store with some data and returns its directory.
func filled(t *testing.T, batches int) string {
	t.Helper()
	dir := t.TempDir()
	opt := options(t, dir)
	s := openStore(t, opt)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err := storetest.Fill(t.Context(), filepath.Join(dir, FileName), storetest.Shape{
		Agents: 50, Batches: batches, Stream: "s", ReceivedAt: 1_700_000_000_000, Seal: opt.Seal})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFilledIsWhole(t *testing.T) {
	dir := filled(t, 1300)
	if err := Check(t.Context(), filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, options(t, dir))
	put(t, s, testBatch(1, "a", 0))
}

func execFile(t *testing.T, path, script string) {
	t.Helper()
	makeFile(t, filepath.Dir(path), script)
}

// TestOpenDamaged breaks a file in one way at a time and expects an error of the
// right kind that says what to do.
func TestOpenDamaged(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		must  bool
		want  error
		say   string
	}{
		{"missing beside keys", func(t *testing.T, p string) { os.Remove(p) }, true, ErrMissing, "restore"},
		{"missing beside its log", func(t *testing.T, p string) {
			os.Remove(p)
			os.WriteFile(p+"-wal", []byte("log"), 0o600)
		}, false, ErrMissing, "restore"},
		{"empty beside keys", func(t *testing.T, p string) { os.Truncate(p, 0) }, true, ErrDamaged, "is empty"},
		{"cut in the header", func(t *testing.T, p string) { os.Truncate(p, 60) }, false, ErrDamaged, "cut off at 60"},
		{"cut in the middle", func(t *testing.T, p string) { os.Truncate(p, fileSize(p)/2) }, false, ErrDamaged, "cut off"},
		{"cut by one page", func(t *testing.T, p string) { os.Truncate(p, fileSize(p)-pageSize) }, false, ErrDamaged, "cut off"},
		{"not a database", func(t *testing.T, p string) { os.WriteFile(p, bytes.Repeat([]byte("text"), 5000), 0o600) }, false, ErrDamaged, "does not begin"},
		{"a directory", func(t *testing.T, p string) { os.Remove(p); os.Mkdir(p, 0o700) }, false, ErrDamaged, "directory"},
		{"garbage in the first page", func(t *testing.T, p string) { scribble(t, p, 100, pageSize) }, false, ErrDamaged, "restore"},
		{"garbage in all but the first page", func(t *testing.T, p string) { scribble(t, p, pageSize, int(fileSize(p))) }, false, ErrDamaged, "restore"},
		{"another application's", func(t *testing.T, p string) { execFile(t, p, "PRAGMA application_id = 7") }, false, ErrDamaged, "another application"},
		{"of a newer version", func(t *testing.T, p string) { execFile(t, p, "PRAGMA user_version = 99") }, false, ErrNewer, "newer version"},
		{"a table gone", func(t *testing.T, p string) { execFile(t, p, "DROP TABLE cron_run") }, false, ErrDamaged, "tables"},
		{"a column more", func(t *testing.T, p string) { execFile(t, p, "ALTER TABLE agent ADD COLUMN note TEXT") }, false, ErrDamaged, "tables"},
		{"last batch gone", func(t *testing.T, p string) { execFile(t, p, "DELETE FROM batch WHERE position = 1300") }, false, ErrDamaged, "receipts reach"},
		{"first batch gone", func(t *testing.T, p string) { execFile(t, p, "DELETE FROM batch WHERE position = 1") }, false, ErrDamaged, "position 1"},
		{"a batch edited", func(t *testing.T, p string) { execFile(t, p, "UPDATE batch SET to_seq = to_seq + 1") }, false, ErrDamaged, "not what its id says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filled(t, 1300)
			c.spoil(t, filepath.Join(dir, FileName))
			opt := options(t, dir)
			opt.MustExist = c.must
			s, err := Open(t.Context(), opt)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "karatum restore") {
				t.Errorf("Open = %v, want %v saying %q", err, c.want, c.say)
			}
		})
	}
}

// scribble overwrites a range of a file with noise.
func scribble(t *testing.T, path string, from, to int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := testHash("noise")
	for i := from; i < to; i++ {
		text[i] = h[i%32] ^ byte(i>>5)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamageWhileRunning meets a damaged page that the look at the start did not
// read.
func TestDamageWhileRunning(t *testing.T) {
	dir := filled(t, 5000)
	path := filepath.Join(dir, FileName)
	s := openStore(t, options(t, dir))
	hit := 0
	scribble(t, path, 4*pageSize, int(fileSize(path)))
	for position := uint64(1); position <= 5000; position += 7 {
		err := s.View(t.Context(), func(tx *ReadTx) error { _, err := tx.BatchAt(t.Context(), position); return err })
		if err != nil {
			hit++
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("position %d: %v, want ErrDamaged", position, err)
			}
		}
	}
	if hit == 0 {
		t.Error("nothing damaged was read")
	}
	err := s.Update(t.Context(), func(tx *Tx) error { _, err := tx.BatchAt(t.Context(), 4001); return err })
	if err != nil && !errors.Is(err, ErrDamaged) {
		t.Errorf("Update = %v, want ErrDamaged", err)
	}
}

// TestCheckFinds changes one thing that the look at the start does not see.
func TestCheckFinds(t *testing.T) {
	for script, say := range map[string]string{
		"DELETE FROM batch WHERE position = 700; UPDATE batch SET position = 700 WHERE position = 701":                                                   "position 70",
		"UPDATE batch SET head = prev_head WHERE position = 777":                                                                                         "not what its id says",
		"UPDATE batch SET received_at = received_at + 1 WHERE position = 500":                                                                            "root is another",
		"UPDATE receipt_group SET signature = zeroblob(65) WHERE first_position = 1":                                                                     "receipts at position 1",
		"UPDATE receipt_group SET node = zeroblob(20) WHERE first_position = 257":                                                                        "signed by",
		"UPDATE stream SET missing = 1 WHERE id = 3":                                                                                                     "stream: 3",
		"UPDATE agent SET steps = steps + 1 WHERE id = 4":                                                                                                "agent: 4",
		"INSERT INTO gap VALUES (5, 1, 1, 1, 1)":                                                                                                         "gap: 5",
		"INSERT INTO stream VALUES (51, 99, 'x', 0, 0, 0)":                                                                                               "foreign key",
		"INSERT INTO epoch (root, first_position, last_position, created_at, chain_id, state, state_at) VALUES (zeroblob(32), 1, 9, 0, 1, 'pending', 0)": "epoch 1",
		"INSERT INTO tally VALUES (1, 0, '', 1, 0, 0, 0, 0, 0, 0)":                                                                                       "tally: 1",
	} {
		dir := filled(t, 1300)
		path := filepath.Join(dir, FileName)
		execFile(t, path, "PRAGMA foreign_keys = OFF; "+script)
		if err := Check(t.Context(), path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: Check = %v, want ErrDamaged saying %q", script, err, say)
		}
	}
}

// TestBackup copies a store while it is written and expects a whole copy with all
// that was acknowledged before, and nothing left over.
func TestBackup(t *testing.T) {
	dir := filled(t, 1300)
	s := openStore(t, options(t, dir))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		var err error
		for i := uint64(0); err == nil && ctx.Err() == nil; i++ {
			err = s.Update(context.Background(), func(tx *Tx) error { _, err := insert(ctx, tx, testBatch(1, "load", i)); return err })
		}
		done <- err
	}()
	for s.Stats().Batches == 0 {
		if len(done) > 0 {
			t.Fatal(<-done)
		}
	}
	before := s.Stats().Batches
	target := t.TempDir()
	file := filepath.Join(target, "copy.db")
	if err := s.Backup(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := s.Backup(t.Context(), file); !errors.Is(err, os.ErrExist) {
		t.Errorf("second backup = %v, want ErrExist", err)
	}
	if err := os.Rename(file, filepath.Join(target, FileName)); err != nil {
		t.Fatal(err)
	}
	read(t, openStore(t, options(t, target)), func(tx *ReadTx) error {
		c, err := tx.Counts(t.Context())
		if c.Batches < 1300+before {
			t.Errorf("the copy has %d batches, %d were acknowledged", c.Batches, 1300+before)
		}
		return err
	})
}
