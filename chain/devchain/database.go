package devchain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/leveldb"
)

// marker is a file beside the database that says that there must be a chain. A
// damaged or deleted database would otherwise pass for a new one: go-ethereum
// then starts again at genesis, and LevelDB "recovers" to nothing.
const marker = "initialized"

// prepareDB checks the database in dir before go-ethereum sees it, and repairs
// what a crash can leave. It opens LevelDB alone, without the freezer, which
// refuses one of the states that are repaired.
func prepareDB(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && isInitialized(dir) {
		return fmt.Errorf("%w: %s is missing", ErrCorrupt, dir)
	}
	kv, err := leveldb.New(dir, 16, 64, "", false)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, dir, err)
	}
	db := rawdb.NewDatabase(kv)
	if err := prepare(db, isInitialized(dir)); err != nil {
		return errors.Join(fmt.Errorf("%w: %s: %w", ErrCorrupt, dir, err), db.Close())
	}
	return db.Close()
}

func prepare(db ethdb.Database, initialized bool) error {
	// All transactions of an empty chain are indexed. Without this go-ethereum
	// answers receipts with "indexing is in progress" until the first block.
	if rawdb.ReadTxIndexTail(db) == nil {
		rawdb.WriteTxIndexTail(db, 0)
	}
	hash := rawdb.ReadHeadBlockHash(db)
	if hash == (common.Hash{}) {
		if initialized {
			return errors.New("no head block")
		}
		return nil
	}
	number, ok := rawdb.ReadHeaderNumber(db, hash)
	if !ok {
		return fmt.Errorf("head %s has no header", hash)
	}
	block := rawdb.ReadBlock(db, hash, number)
	if block == nil || number > 0 && !rawdb.HasReceipts(db, hash, number) {
		return fmt.Errorf("head block %d is incomplete", number)
	}
	if !rawdb.HasLegacyTrieNode(db, block.Root()) {
		return fmt.Errorf("head block %d has no state", number)
	}
	// The process died between persistHead and SetCanonical: the block is the
	// head, but in no index yet.
	if rawdb.ReadCanonicalHash(db, number) != hash {
		rawdb.WriteCanonicalHash(db, hash, number)
		rawdb.WriteTxLookupEntriesByBlock(db, block)
	}
	return nil
}

func isInitialized(dir string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(dir), marker))
	return err == nil
}

// markInitialized makes genesis durable, then the marker.
func markInitialized(dir string) error {
	if isInitialized(dir) {
		return nil
	}
	if err := syncJournals(dir); err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(dir), marker)
	if err := os.WriteFile(path, []byte("The database beside this file holds a chain. A start without it is an error.\n"), 0o600); err != nil {
		return fmt.Errorf("devchain: %w", err)
	}
	if err := syncFile(path); err != nil {
		return fmt.Errorf("devchain: sync: %w", err)
	}
	return syncDir(filepath.Dir(path))
}
