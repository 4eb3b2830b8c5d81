package devchain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// syncJournals fsyncs the journals of the database in dir: the one in use, and
// during a rotation also the one that is being turned into a table.
func syncJournals(dir string) error {
	journals, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return fmt.Errorf("devchain: %w", err)
	}
	for _, path := range append(journals, dir) { // the directory, for a journal's name
		if err := syncFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("devchain: sync: %w", err)
		}
	}
	return nil
}

// syncFile fsyncs a file through a descriptor of its own. A file that vanished
// meanwhile was a journal whose contents are in a synced table.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
