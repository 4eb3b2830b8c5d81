package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrLocked reports a data directory that another process uses.
var ErrLocked = errors.New("store: the data directory is in use")

// lockName is the file in the data directory that carries the lock.
const lockName = "lock"

// A DirLock is the exclusive lock on a data directory, held until Close or the
// end of the process.
type DirLock struct {
	file   *os.File
	holder holder
	// Warning is not empty where the directory is on a network file system, whose
	// locks and syncs cannot be relied on.
	Warning string
}

// holder is what the lock file says of the process that holds it.
type holder struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // RFC 3339
	Listen  string `json:"listen,omitempty"`
}

func (h holder) String() string {
	s := fmt.Sprintf("process %d, started %s", h.PID, h.Started)
	if h.Listen != "" {
		s += ", serving " + h.Listen
	}
	return s
}

// LockDir takes the lock on a data directory, which must exist. The error wraps
// [ErrLocked] and names the holder where another process has it.
func LockDir(dir string) (*DirLock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		if errors.Is(err, errWouldBlock) {
			return nil, fmt.Errorf("%w: %s is held by %s", ErrLocked, path, readHolder(path))
		}
		return nil, fmt.Errorf("store: lock %s: %w", path, err)
	}
	l := &DirLock{file: f, holder: holder{PID: os.Getpid(), Started: time.Now().UTC().Format(time.RFC3339)}}
	if name := networkFS(dir); name != "" {
		l.Warning = fmt.Sprintf("%s is on a network file system (%s), where locks and syncs cannot be relied on; use a local disk", dir, name)
	}
	if err := l.write(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func readHolder(path string) string {
	text, err := os.ReadFile(path)
	var h holder
	if err != nil || json.Unmarshal(text, &h) != nil {
		return "another process"
	}
	return h.String()
}

// Describe adds to the lock file where the holder serves, for the message that a
// second process gets.
func (l *DirLock) Describe(listen string) error {
	l.holder.Listen = listen
	return l.write()
}

func (l *DirLock) write() error {
	text, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err = l.file.WriteAt(append(text, '\n'), 0)
	return err
}

// Close gives the lock up. The file stays: removing it would let two processes
// lock two files of one name.
func (l *DirLock) Close() error { return l.file.Close() }
