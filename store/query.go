package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// A queryer runs a read: on a reader's snapshot, or on the writer's connection
// after what the running group has staged was written.
type queryer interface {
	query(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	fail(err error) error // maps an error of query or of its rows
}

// A ReadTx reads. Within [Store.View] all reads see one snapshot; within
// [Store.Update] they see what was written before them.
type ReadTx struct{ q queryer }

// A scanner is a row that can be scanned.
type scanner interface{ Scan(dst ...any) error }

// each runs scan for every row. The error is mapped.
func (r *ReadTx) each(ctx context.Context, scan func(scanner) error, text string, args ...any) error {
	rows, err := r.q.query(ctx, text, args...)
	if err != nil {
		return r.q.fail(err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(mapErr(err), rows.Close())
		}
	}
	return r.q.fail(errors.Join(rows.Err(), rows.Close()))
}

// one scans the only row into dst, or returns [ErrNotFound].
func (r *ReadTx) one(ctx context.Context, dst []any, text string, args ...any) error {
	found := false
	err := r.each(ctx, func(s scanner) error {
		found = true
		return s.Scan(dst...)
	}, text, args...)
	if err == nil && !found {
		return ErrNotFound
	}
	return err
}

// list collects rows.
func list[T any](ctx context.Context, r *ReadTx, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	var out []T
	err := r.each(ctx, func(s scanner) error {
		v, err := scan(s)
		out = append(out, v)
		return err
	}, text, args...)
	return out, err
}

// first returns the first row, or [ErrNotFound].
func first[T any](ctx context.Context, r *ReadTx, scan func(scanner) (T, error), text string, args ...any) (T, error) {
	rows, err := list(ctx, r, scan, text, args...)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		var zero T
		return zero, err
	}
	return rows[0], nil
}

// bytesTo scans a BLOB of exactly len(dst) bytes; NULL leaves dst alone.
type bytesTo []byte

// Scan implements [sql.Scanner].
func (b bytesTo) Scan(src any) error {
	if src == nil {
		return nil
	}
	v, ok := src.([]byte)
	if !ok || len(v) != len(b) {
		return fmt.Errorf("%w: a value of %d bytes is not there", ErrDamaged, len(b))
	}
	copy(b, v)
	return nil
}

// uintTo scans a non-negative INTEGER; NULL leaves it alone.
type uintTo struct{ dst *uint64 }

// Scan implements [sql.Scanner].
func (u uintTo) Scan(src any) error {
	if src == nil {
		return nil
	}
	v, ok := src.(int64)
	if !ok || v < 0 {
		return fmt.Errorf("%w: a count is not there", ErrDamaged)
	}
	*u.dst = uint64(v)
	return nil
}

func num(dst *uint64) uintTo { return uintTo{dst} }

// flagTo scans a 0 or 1; NULL leaves it alone.
type flagTo struct{ dst *bool }

// Scan implements [sql.Scanner].
func (f flagTo) Scan(src any) error {
	if v, ok := src.(int64); ok {
		*f.dst = v != 0
	}
	return nil
}

func flag(dst *bool) flagTo { return flagTo{dst} }

// nullable returns nil for an empty value, so that NULL is stored.
func nullable(b []byte, is bool) any {
	if !is {
		return nil
	}
	return b
}

// present scans a column that may be NULL and notes whether it was not.
type present struct {
	dst interface{ Scan(src any) error }
	is  *bool
}

// Scan implements [sql.Scanner].
func (p present) Scan(src any) error {
	*p.is = src != nil
	return p.dst.Scan(src)
}
