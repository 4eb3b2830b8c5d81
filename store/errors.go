package store

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors that a caller can act on. The store decides by SQLite's result codes
// only, never by the text of a message.
var (
	// ErrNotFound reports that no such row exists.
	ErrNotFound = errors.New("store: not found")
	// ErrConflict reports a write whose condition no longer holds: a state that
	// has moved on, a row that exists.
	ErrConflict = errors.New("store: conflict")
	// ErrCursor reports a page cursor that this list did not give out.
	ErrCursor = errors.New("store: invalid cursor")
	// ErrDiskFull reports that a write found no room, or that the file system
	// has less than Options.MinFree left. Nothing of the write is stored, reads
	// go on, and writes work again once there is room.
	ErrDiskFull = errors.New("store: disk full")
	// ErrDamaged reports a file that is not, or no longer, a sound database. Stop
	// the node and restore a backup.
	ErrDamaged = errors.New("store: the database is damaged; stop the node and restore the last backup with `karatum restore`")
	// ErrMissing reports that the database file is not where it should be.
	ErrMissing = errors.New("store: the database file is missing; put it back or restore the last backup with `karatum restore`")
	// ErrNewer reports a file that a newer version of Karatum wrote.
	ErrNewer = errors.New("store: the database was written by a newer version of karatum; use that version")
	// ErrClosed reports a call after Close.
	ErrClosed = errors.New("store: closed")
	// ErrBusy reports a read that took too long and was ended so that the
	// write-ahead log stays bounded, or a write that had to wait for such a read
	// too long. Trying again helps.
	ErrBusy = errors.New("store: busy")
)

// mapErr turns a driver error into one of the package's, keeping the original
// in the chain. It is the only reader of driver codes.
func mapErr(err error) error {
	var se *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return ErrNotFound
	case !errors.As(err, &se):
		return err
	}
	if kind := codeKind(se.Code()); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	return err
}

func codeKind(code int) error {
	switch code {
	case sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS, sqlite3.SQLITE_IOERR_DATA:
		return ErrDamaged
	}
	switch code & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR:
		return ErrDiskFull
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrDamaged
	case sqlite3.SQLITE_CONSTRAINT:
		return ErrConflict
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT:
		return ErrBusy
	}
	return nil
}
