package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

// CopyFile writes a copy of the database in dir to file, which must not exist, as
// [Store.Backup] does, but from outside: a node in another process may have the
// database open and go on writing. The copy is one moment's state, read from one
// snapshot; while it is made, that node cannot empty its write-ahead log and
// refuses writes with [ErrBusy] if the log reaches its limit first.
func CopyFile(ctx context.Context, dir, file string) (err error) {
	path := filepath.Join(dir, FileName)
	if err := lookAtFile(path, true); err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return fmt.Errorf("store: %s: %w", file, os.ErrExist)
	}
	db, err := sql.Open("sqlite", dsn(path, readerPragmas))
	if err != nil {
		return mapErr(err)
	}
	defer func() { err = errors.Join(err, mapErr(db.Close())) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return mapErr(err)
	}
	defer conn.Close()                                               // gives it back to db
	tmp, err := os.MkdirTemp(filepath.Dir(file), ".karatum-backup-") // 0700, so that no file in it is seen
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	part := filepath.Join(tmp, "part")
	if err := conn.Raw(func(c any) error { return copyWhole(c, part) }); err != nil {
		return fmt.Errorf("store: copy %s: %w", path, mapErr(err))
	}
	return publish(part, file)
}

// copyWhole copies the database of a driver connection in one step.
func copyWhole(c any, part string) error {
	src, ok := c.(interface {
		NewBackup(dst string) (*sqlite.Backup, error)
	})
	if !ok {
		return errors.New("the driver has no backup")
	}
	b, err := src.NewBackup(part)
	if err != nil {
		return err
	}
	_, err = b.Step(-1)
	return errors.Join(err, b.Finish())
}

// EachBatch calls fn with every batch of a database that no process writes, stream
// by stream, each stream by index. An error of fn ends it.
func EachBatch(ctx context.Context, file string, fn func(b *Batch) error) (err error) {
	if err := lookAtFile(file, true); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(file, readerPragmas))
	if err != nil {
		return mapErr(err)
	}
	defer func() { err = errors.Join(err, mapErr(db.Close())) }()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return mapErr(err)
	}
	defer tx.Rollback() // it only reads
	r := ReadTx{q: plainTx{tx}}
	return r.each(ctx, func(s scanner) error {
		b, err := scanBatch(s)
		if err != nil {
			return err
		}
		return fn(&b)
	}, selectBatch+` ORDER BY b.stream_id, b.idx`)
}
