package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
)

// lookAtFile judges the file before SQLite opens it: SQLite would make a missing
// one, and its messages do not say what to do.
func lookAtFile(path string, mustExist bool) error {
	info, err := os.Stat(path)
	logged := fileSize(path+"-wal") > 0
	switch {
	case errors.Is(err, fs.ErrNotExist) && (mustExist || logged):
		return fmt.Errorf("%w: %s", ErrMissing, path)
	case errors.Is(err, fs.ErrNotExist):
		return makeEmpty(path)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%w: %s is a directory", ErrDamaged, path)
	case info.Size() == 0 && (mustExist || logged):
		return fmt.Errorf("%w: %s is empty", ErrDamaged, path)
	case info.Size() == 0: // a first start that ended at once
		return nil
	}
	return lookAtHeader(path, info.Size(), logged)
}

// makeEmpty makes an empty file, which is an empty database, so that it and the
// log beside it, which takes over its mode, are the owner's only.
func makeEmpty(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// lookAtHeader reads the first 100 bytes, see the SQLite file format, section 1.3.
func lookAtHeader(path string, size int64, logged bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	var h [100]byte
	if _, err := io.ReadFull(f, h[:]); err != nil {
		return fmt.Errorf("%w: %s is cut off at %d bytes", ErrDamaged, path, size)
	}
	if string(h[:16]) != "SQLite format 3\x00" {
		return fmt.Errorf("%w: %s does not begin like a database", ErrDamaged, path)
	}
	page := int64(binary.BigEndian.Uint16(h[16:]))
	if page == 1 {
		page = 65536
	}
	if page < 512 || page&(page-1) != 0 {
		return fmt.Errorf("%w: %s has pages of %d bytes", ErrDamaged, path, page)
	}
	// While pages wait in the log, the file may be shorter than its header says.
	if want := int64(binary.BigEndian.Uint32(h[28:])) * page; !logged && size < want {
		return fmt.Errorf("%w: %s is cut off at %d of %d bytes", ErrDamaged, path, size, want)
	}
	return nil
}

// probeRows is how many rows the quick look at an existing file reads.
const probeRows = 48

// probe takes a quick look: the tables are those of the schema, what tables say of
// each other agrees at their ends, and batches spread over the file are what
// their ids say.
func (s *Store) probe(ctx context.Context) error {
	want, err := wantSchema(ctx, s.opt.Schema)
	if err != nil {
		return fmt.Errorf("store: schema.sql: %w", err)
	}
	got, err := readSchema(ctx, s.w.conn)
	if err != nil {
		return err
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("%w: its tables are not those of this version", ErrDamaged)
	}
	r := &ReadTx{q: direct{s.w}}
	c, err := r.Counts(ctx)
	if err != nil {
		return err
	}
	if err := r.checkEnds(ctx, c); err != nil {
		return err
	}
	for i := range min(uint64(probeRows), c.Batches) {
		if err := r.checkBatch(ctx, 1+i*(c.Batches-1)/max(min(probeRows, c.Batches)-1, 1)); err != nil {
			return err
		}
	}
	return nil
}

// checkEnds compares the last rows of tables that follow each other.
func (r *ReadTx) checkEnds(ctx context.Context, c Counts) error {
	if c.Anchored > c.Batches {
		return fmt.Errorf("%w: epochs reach position %d, batches end at %d", ErrDamaged, c.Anchored, c.Batches)
	}
	g, err := first(ctx, r, scanReceiptGroup, selectReceiptGroup+` ORDER BY first_position DESC LIMIT 1`)
	if errors.Is(err, ErrNotFound) {
		g, err = receiptGroup{first: 1}, nil
	}
	if err != nil {
		return err
	}
	if g.first+g.size-1 != c.Batches {
		return fmt.Errorf("%w: receipts reach position %d, batches end at %d", ErrDamaged, g.first+g.size-1, c.Batches)
	}
	return nil
}

// checkBatch reads one batch by its position and again by its id and its place in
// the stream, and recomputes the id.
func (r *ReadTx) checkBatch(ctx context.Context, position uint64) error {
	b, err := r.BatchAt(ctx, position)
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: no batch at position %d", ErrDamaged, position)
	}
	if err != nil {
		return err
	}
	h := &b.Batch.Header
	if b.ID != h.ID() {
		return fmt.Errorf("%w: the batch at position %d is not what its id says", ErrDamaged, position)
	}
	byID, err := r.Batch(ctx, b.ID)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	byIndex, err := r.BatchOfIndex(ctx, h.Agent, h.Stream, h.Index)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	if byID.Position != position || byIndex.Position != position {
		return fmt.Errorf("%w: an index does not have the batch at position %d", ErrDamaged, position)
	}
	return nil
}
