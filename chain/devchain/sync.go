package devchain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// The database is LevelDB, not Pebble, for what each does when a write fails:
// Pebble panics, in whatever goroutine it happens to be, which ends the
// process; LevelDB returns the error, and go-ethereum then logs at level Crit,
// which logging.go catches.
//
// LevelDB hands each write to the kernel before it returns, so a killed process
// loses nothing. Against a power cut its journal files must be fsynced, and
// go-ethereum has no call for that: SyncKeyValue is empty for this engine. The
// tables and the manifest are fsynced by LevelDB itself.

// journals lists the journal files of the database in dir.
func journals(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("devchain: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".log" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// syncJournals fsyncs the journals of the database in dir: the one in use, and
// during a rotation also the one that is being turned into a table. A journal
// that vanishes meanwhile is in a synced table.
func syncJournals(dir string) error {
	paths, err := journals(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := syncFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("devchain: sync: %w", err)
		}
	}
	return syncDir(dir) // a new journal's name
}

// syncFile fsyncs a file through a descriptor of its own.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // Windows syncs only what it may write
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncDir makes the names in a directory durable. Windows cannot be asked to.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("devchain: sync: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("devchain: sync: %w", err)
	}
	return nil
}
