package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"karatum/flight"
	"karatum/store"
	"karatum/store/storetest"
)

// BackupOptions say what is copied where.
type BackupOptions struct {
	Dir  string // data directory
	File string // the backup
	Out  io.Writer
}

// Backup copies the database of a data directory to a new file, whether or not a
// node has it open, and checks the copy: SQLite's own integrity, and every
// signature, chain of batches, receipt and epoch root recomputed. A copy that is
// not whole is removed, for it would be taken for a backup later.
func Backup(ctx context.Context, o BackupOptions) error {
	if err := store.CopyFile(ctx, o.Dir, o.File); err != nil {
		return err
	}
	if err := checkCopy(ctx, o); err != nil {
		return errors.Join(fmt.Errorf("the copy is not whole and was removed; the database itself may be damaged: %w", err), os.Remove(o.File))
	}
	_, err := fmt.Fprintf(o.Out, "written  %s\nkeys     are not in it; keep copies of %s and %s elsewhere\n", o.File, anchorKeyFile, receiptKeyFile)
	return err
}

// checkCopy opens the backup and recomputes everything that it holds.
func checkCopy(ctx context.Context, o BackupOptions) error {
	if err := store.Check(ctx, o.File); err != nil {
		return err
	}
	batches, streams, err := checkSignatures(ctx, o.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "checked  %d batches in %d streams: integrity, signatures, chains, receipts, epoch roots\n", batches, streams)
	return err
}

// checkSignatures recovers the signer of every batch, on all cores, and compares
// each batch with the one before it in its stream.
func checkSignatures(ctx context.Context, file string) (batches, streams int, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	var last flight.Header
	err = store.EachBatch(ctx, file, func(b *store.Batch) error {
		batches++
		if h := &b.Batch.Header; h.Agent != last.Agent || h.Stream != last.Stream {
			streams++
		} else if why := flight.Conflict(&last, h); why != "" {
			return fmt.Errorf("%w: batches %d and %d of stream %q of %s: %s", store.ErrDamaged, last.Index, h.Index, h.Stream, h.Agent, why)
		}
		last = b.Batch.Header
		signed := b.Batch
		g.Go(func() error {
			if err := signed.Verify(); err != nil {
				return fmt.Errorf("%w: batch %s: %w", store.ErrDamaged, signed.ID(), err)
			}
			return nil
		})
		return nil
	})
	if first := g.Wait(); first != nil { // it ended the walk
		err = first
	}
	return batches, streams, err
}

// Restore puts a backup into a data directory that has no database, after the
// same checks. Key files that are there already stay; without them the node does
// not start, for a new key would disown what the old one signed.
func Restore(ctx context.Context, o BackupOptions) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	lock, err := store.LockDir(o.Dir)
	if err != nil {
		return err
	}
	defer lock.Close() // the process ends anyway
	target := filepath.Join(o.Dir, store.FileName)
	for _, name := range []string{target, target + "-wal", filepath.Join(o.Dir, ChainDir)} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s is there already; restore overwrites nothing, name an empty directory", ErrDataDir, name)
		}
	}
	if err := checkCopy(ctx, o); err != nil {
		return err
	}
	if err := copyFile(o.File, target); err != nil {
		return err
	}
	note := "are there"
	if _, err := os.Stat(filepath.Join(o.Dir, receiptKeyFile)); err != nil {
		note = fmt.Sprintf("are missing: put %s and %s of the old directory there before karatum serve", anchorKeyFile, receiptKeyFile)
	}
	_, err = fmt.Fprintf(o.Out, "restored %s\nkeys     %s\n", target, note)
	return err
}

// copyFile writes a durable copy that has its name only once it is complete.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp, err := os.CreateTemp(filepath.Dir(to), secretTemp) // made with 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	_, err = io.Copy(tmp, in)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// StoreSeeder returns a seeder for [BenchIngest]: it draws the keys of a fresh
// directory, has the store make its file, and fills that directly.
func StoreSeeder(schema string, now func() time.Time) Seeder {
	return func(ctx context.Context, dir string, n int) error {
		if _, err := OpenDir(dir); err != nil {
			return err
		}
		keys, err := LoadKeys(dir, true)
		if err != nil {
			return err
		}
		st, err := store.Open(ctx, store.Options{Dir: dir, Schema: schema, Now: now})
		if err != nil {
			return err
		}
		if err := st.Close(); err != nil {
			return err
		}
		return storetest.Fill(ctx, filepath.Join(dir, store.FileName), storetest.Shape{
			Agents: min(n, seedAgents), Batches: n, Stream: "seeded", ReceivedAt: uint64(now().UnixMilli()), Seal: Sealer(keys),
		})
	}
}

const seedAgents = 1000
