package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"modernc.org/sqlite"
)

// backupPages is how many pages are copied between two commit groups, about a
// millisecond's work.
const backupPages = 256

// Backup writes a copy of the database to file, which must not exist. Writes go
// on meanwhile: the copy is made on the writer's connection in short steps, and
// SQLite carries over what changes in between, so that no snapshot is held that
// would keep the log growing. The copy is one moment's whole state, synced, with
// mode 0600, and takes its name only when it is complete.
func (s *Store) Backup(ctx context.Context, file string) (err error) {
	s.copying.RLock()
	defer s.copying.RUnlock()
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("store: %s: %w", file, os.ErrExist)
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".karatum-backup-") // 0700, so that no file in it is seen
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	part := filepath.Join(dir, "part")
	if err := s.copyTo(ctx, part); err != nil {
		return fmt.Errorf("store: backup: %w", err)
	}
	return publish(part, file)
}

// copyTo copies the database in jobs of the writer.
func (s *Store) copyTo(ctx context.Context, part string) error {
	var b *sqlite.Backup
	err := s.onWriter(ctx, func(w *writer) error {
		return w.conn.Raw(func(c any) (err error) {
			src, ok := c.(interface {
				NewBackup(dst string) (*sqlite.Backup, error)
			})
			if !ok {
				return errors.New("the driver has no backup")
			}
			b, err = src.NewBackup(part)
			return mapErr(err)
		})
	})
	for more := true; err == nil && more; {
		select {
		case <-s.leaving:
			err = ErrClosed
			continue
		default:
		}
		err = s.onWriter(ctx, func(w *writer) error {
			return w.conn.Raw(func(any) (err error) {
				more, err = b.Step(backupPages)
				return mapErr(err)
			})
		})
	}
	if b == nil {
		return err
	}
	finish := s.onWriter(context.WithoutCancel(ctx), func(w *writer) error {
		return w.conn.Raw(func(any) error { return mapErr(b.Finish()) })
	})
	return errors.Join(err, finish)
}

// onWriter runs fn on the writer's goroutine between two groups.
func (s *Store) onWriter(ctx context.Context, fn func(*writer) error) error {
	return s.submit(ctx, &job{ctx: ctx, raw: fn, done: make(chan error, 1)})
}

// publish syncs a finished file and gives it its name, then syncs the directory.
func publish(part, file string) error {
	f, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(part, file); err != nil { // unlike rename, it never replaces
		if errors.Is(err, os.ErrExist) {
			return err
		}
		if err := os.Rename(part, file); err != nil { // a file system without links
			return err
		}
	}
	if runtime.GOOS == "windows" { // where a directory cannot be synced
		return nil
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
