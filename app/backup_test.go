package app

import (
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"karatum/app/load"
	"karatum/flight"
	"karatum/store"
)

// fillDir makes a closed data directory with n batches in two streams.
func fillDir(t *testing.T, n int) (dir string) {
	t.Helper()
	r := newRig(t, nil)
	for _, name := range []string{"one", "two"} {
		key, err := flight.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		s := load.NewStream(key, name, uint64(time.Now().Unix()))
		for range n / 2 {
			if _, err := r.app.Ingest(t.Context(), mustJSON(t, s.Sign())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	return r.dir
}

func TestBackupAndRestore(t *testing.T) {
	dir := fillDir(t, 20)
	file := filepath.Join(t.TempDir(), "copy.db")
	var out strings.Builder
	if err := Backup(t.Context(), BackupOptions{Dir: dir, File: file, Out: &out}); err != nil {
		t.Fatal(err)
	}
	if want := "checked  20 batches in 2 streams"; !strings.Contains(out.String(), want) {
		t.Errorf("backup says %q, want %q in it", out.String(), want)
	}
	if err := Backup(t.Context(), BackupOptions{Dir: dir, File: file, Out: io.Discard}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second backup to the same file: %v, want it refused", err)
	}
	target := filepath.Join(t.TempDir(), "new")
	if err := Restore(t.Context(), BackupOptions{Dir: target, File: file, Out: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context(), filepath.Join(target, store.FileName)); err != nil {
		t.Error(err)
	}
	if err := Restore(t.Context(), BackupOptions{Dir: target, File: file, Out: io.Discard}); !errors.Is(err, ErrDataDir) {
		t.Errorf("restore over a database: %v, want ErrDataDir", err)
	}
}

// Whatever an editor of the file changes about a batch, the backup notices and
// leaves no file that could be taken for one.
func TestBackupOfTamperedDatabase(t *testing.T) {
	for _, c := range []struct{ name, edit string }{
		{"signature", `UPDATE batch SET signature = zeroblob(65) WHERE position = 3`},
		{"signature of another batch", `UPDATE batch SET signature = (SELECT signature FROM batch WHERE position = 4) WHERE position = 3`},
		{"header", `UPDATE batch SET created_at = created_at + 1 WHERE position = 3`},
		{"scheme", `UPDATE batch SET scheme = 1 WHERE position = 3`},
		{"promise", `UPDATE batch SET anchor_by = anchor_by + 3600 WHERE position = 3`},
		{"last batch dropped", `DELETE FROM batch WHERE position = (SELECT max(position) FROM batch)`},
		{"counter", `UPDATE agent SET batches = batches + 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fillDir(t, 8)
			db, err := sql.Open("sqlite", filepath.Join(dir, store.FileName))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), c.edit); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "copy.db")
			if err := Backup(t.Context(), BackupOptions{Dir: dir, File: file, Out: io.Discard}); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("backup: %v, want store.ErrDamaged", err)
			}
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the copy is still there: %v", err)
			}
		})
	}
}

func TestOpenDir(t *testing.T) {
	base := t.TempDir()
	for _, c := range []struct {
		name  string
		files []string
		fresh bool
		fails bool
	}{
		{"absent", nil, true, false},
		{"keys only", []string{anchorKeyFile, receiptKeyFile, operatorFile, lockName}, true, false},
		{"leftover of a crash", []string{".secret-123"}, true, false},
		{"used", []string{store.FileName, "lock", anchorKeyFile}, false, false},
		{"foreign", []string{"thesis.doc"}, false, true},
		{"database lost", []string{anchorKeyFile, store.FileName + "-wal"}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(base, c.name)
			for _, f := range c.files {
				if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, f), nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			fresh, err := OpenDir(dir)
			if fresh != c.fresh || (err != nil) != c.fails || err != nil && !errors.Is(err, ErrDataDir) {
				t.Errorf("OpenDir = %v, %v; want fresh %v, an error %v", fresh, err, c.fresh, c.fails)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("mode of the directory: %v, %v", info.Mode(), err)
			}
		})
	}
}
