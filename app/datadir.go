package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"karatum/store"
)

// ChainDir is where the dev chain lives in the data directory.
const ChainDir = "chain"

// ErrDataDir reports a data directory in which a node cannot work.
var ErrDataDir = errors.New("data directory")

// OpenDir makes a data directory ready: it creates one that is absent, with mode
// 0700, and checks that files can be made in it. fresh says that no node has
// written to it yet, which is the only time when keys are drawn. A directory with
// other things in it and no database is refused with [ErrDataDir], for beginning
// a second history beside a lost first one would look like a fresh start.
func OpenDir(dir string) (fresh bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	probe, err := os.CreateTemp(dir, secretTemp)
	if err != nil {
		return false, fmt.Errorf("%w: it cannot be written: %w", ErrDataDir, err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return false, fmt.Errorf("%w: it cannot be written: %w", ErrDataDir, err)
	}
	return freshDir(dir, entries)
}

// mayPrecede are the files that keys new, a start that was refused, and the
// operator leave in a directory before its first database.
var mayPrecede = []string{anchorKeyFile, receiptKeyFile, operatorFile, productionFile, lockName, "lost+found"}

const (
	lockName   = "lock"
	secretTemp = ".secret-*"
)

func freshDir(dir string, entries []fs.DirEntry) (bool, error) {
	strange := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == store.FileName:
			return false, nil
		case slices.Contains(mayPrecede, name), strings.HasPrefix(name, strings.TrimSuffix(secretTemp, "*")):
		default:
			strange = name
		}
	}
	if strange != "" {
		return false, fmt.Errorf("%w: %s holds %s but no %s; name an empty directory, or put the database back (karatum restore)",
			ErrDataDir, dir, strange, store.FileName)
	}
	return true, nil
}

// NewKeys draws the keys of a node before its first start, so that the anchoring
// key can be funded. It refuses a directory that has any.
func NewKeys(dir string) (*Keys, error) {
	fresh, err := OpenDir(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{anchorKeyFile, receiptKeyFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s has keys already; karatum keys show names them", ErrDataDir, dir)
		}
	}
	if !fresh {
		return nil, fmt.Errorf("%w: %s has a database without its keys; restore them from a copy", ErrDataDir, dir)
	}
	return LoadKeys(dir, true)
}

// ShowKeys reads the keys of a data directory and changes nothing.
func ShowKeys(dir string) (*Keys, error) {
	if _, err := os.Stat(filepath.Join(dir, anchorKeyFile)); err != nil {
		return nil, fmt.Errorf("%w: %s has no keys; karatum keys new draws them", ErrDataDir, dir)
	}
	return LoadKeys(dir, false)
}
