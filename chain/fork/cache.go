package fork

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"karatum/chain"
)

const (
	cacheVersion  = 1
	cacheSuffix   = ".json.gz"
	maxBlockBytes = 64 << 20          // of answers kept for one block, uncompressed
	maxFileBytes  = 2 * maxBlockBytes // of a file, uncompressed: the keys are escaped there
)

// A Cache keeps the node's answers about blocks on disk, one file a block, so
// that a block can be read again without the node. It holds what the node said,
// not what was concluded: proofs are checked again each time, so that a damaged or
// edited file is found out like a lying node. Several processes may share it.
type Cache struct {
	dir string
	max int64
	mu  sync.Mutex // one eviction at a time
}

// OpenCache makes the directory if needed. The oldest files go when all together
// exceed max bytes.
func OpenCache(dir string, max int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("fork: cache: %w", err)
	}
	return &Cache{dir: dir, max: max}, nil
}

// Block is the answers known about a block of a chain; misses go to c. A nil
// cache remembers nothing beyond the run.
func (k *Cache) Block(chainID uint64, hash common.Hash, c Caller) *Answers {
	a := &Answers{caller: c, known: map[string]json.RawMessage{}}
	if k != nil {
		a.cache = k
		a.path = filepath.Join(k.dir, strconv.FormatUint(chainID, 10), hash.Hex()+cacheSuffix)
		a.load()
	}
	return a
}

// Answers are a [Caller] that knows the answers given before. Every call must be
// about one block, so that its answer never changes.
type Answers struct {
	caller Caller
	cache  *Cache
	path   string

	mu    sync.Mutex // guards what follows
	known map[string]json.RawMessage
	mode  mode // which the answers were got in
	bytes int
	fresh bool // there are answers that the file lacks
	trips int
}

// Trips is how many batches went to the node.
func (a *Answers) Trips() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trips
}

func (a *Answers) forward(ctx context.Context, calls []chain.BatchCall) {
	a.mu.Lock()
	a.trips++
	a.mu.Unlock()
	a.caller.Batch(ctx, calls)
}

type cacheFile struct {
	Version  int                        `json:"version"`
	Plain    bool                       `json:"plain"`    // the node did not prove this state
	ByNumber bool                       `json:"byNumber"` // nor take a block hash
	Answers  map[string]json.RawMessage `json:"answers"`
}

// load reads the file; one that is missing or unreadable is as good as empty.
func (a *Answers) load() {
	var file cacheFile
	if !readFile(a.path, &file) || file.Version != cacheVersion || file.Answers == nil {
		return
	}
	a.known, a.mode = file.Answers, mode{file.Plain, file.ByNumber}
	for key, raw := range file.Answers {
		a.bytes += len(key) + len(raw)
	}
	now := time.Now()
	_ = os.Chtimes(a.path, now, now) // used again; at worst it is evicted early
}

// Batch implements [Caller].
func (a *Answers) Batch(ctx context.Context, calls []chain.BatchCall) {
	if a.cache == nil {
		a.forward(ctx, calls)
		return
	}
	keys := make([]string, len(calls))
	var missing []chain.BatchCall
	var at []int
	for i := range calls {
		keys[i] = callKey(calls[i])
		if raw, ok := a.get(keys[i]); ok {
			calls[i].Result, calls[i].Err = raw, nil
			continue
		}
		missing, at = append(missing, calls[i]), append(at, i)
	}
	if len(missing) == 0 {
		return
	}
	a.forward(ctx, missing)
	for j, i := range at {
		calls[i] = missing[j]
		if calls[i].Err == nil {
			a.put(keys[i], calls[i].Result)
		}
	}
}

func callKey(c chain.BatchCall) string {
	params, err := json.Marshal(c.Params)
	if err != nil { // the call itself will fail on it
		return c.Method
	}
	return c.Method + string(params)
}

func (a *Answers) get(key string) (json.RawMessage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	raw, ok := a.known[key]
	return raw, ok
}

func (a *Answers) put(key string, raw json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.known[key]; ok {
		return
	}
	if n := len(key) + len(raw); a.bytes+n <= maxBlockBytes {
		a.known[key] = raw
		a.bytes += n
		a.fresh = true
	}
}

// remember keeps code that need not be asked for because it is known from
// elsewhere: another process may not know it.
func (a *Answers) remember(call chain.BatchCall, code []byte) {
	if a.cache == nil {
		return
	}
	if raw, err := json.Marshal(hexutil.Bytes(code)); err == nil {
		a.put(callKey(call), raw)
	}
}

// learn remembers how the node lets us read, so that it need not be asked again.
func (a *Answers) learn(m mode) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = m
}

// Save writes new answers to disk, whole or not at all. Call it once they are
// known to be free of contradictions, or the same lie would be told again.
func (a *Answers) Save() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cache == nil || !a.fresh {
		return nil
	}
	if err := writeFile(a.path, cacheFile{cacheVersion, a.mode.plain, a.mode.byNumber, a.known}); err != nil {
		return fmt.Errorf("fork: cache: %w", err)
	}
	a.fresh = false
	return a.cache.evict(a.path)
}

func readFile(path string, v any) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return false
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxFileBytes+1))
	return err == nil && len(raw) <= maxFileBytes && json.Unmarshal(raw, v) == nil
}

func writeFile(path string, v any) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(json.NewEncoder(z).Encode(v), z.Close(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path) // not synced: after a power loss the file may be unreadable, which is as good as missing
}

// staleAfter is when a temporary file is taken for one that a crash left.
const staleAfter = time.Hour

// evict removes the files used longest ago until the rest fits, except keep.
func (k *Cache) evict(keep string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	type entry struct {
		path string
		size int64
		used time.Time
	}
	var files []entry
	var total int64
	err := filepath.WalkDir(k.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process was quicker
		} else if err != nil {
			return err
		}
		switch name := d.Name(); {
		case strings.HasPrefix(name, ".new-"):
			if time.Since(info.ModTime()) > staleAfter {
				return removed(path)
			}
		case strings.HasSuffix(name, cacheSuffix):
			files = append(files, entry{path, info.Size(), info.ModTime()})
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fork: cache: %w", err)
	}
	slices.SortFunc(files, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, f := range files {
		if total <= k.max {
			break
		}
		if f.path == keep {
			continue
		}
		if err := removed(f.path); err != nil {
			return fmt.Errorf("fork: cache: %w", err)
		}
		total -= f.size
	}
	return nil
}

// removed removes a file, which another process may have done before.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (k *Cache) receiptPath(chainID uint64, tx common.Hash) string {
	return filepath.Join(k.dir, strconv.FormatUint(chainID, 10), "tx-"+tx.Hex()+cacheSuffix)
}

// SaveReceipt remembers a transaction's receipt, which names its block.
func (k *Cache) SaveReceipt(chainID uint64, tx common.Hash, receipt json.RawMessage) error {
	if k == nil {
		return nil
	}
	if known, ok := k.Receipt(chainID, tx); ok && string(known) == string(receipt) {
		return nil
	}
	if err := writeFile(k.receiptPath(chainID, tx), receipt); err != nil {
		return fmt.Errorf("fork: cache: %w", err)
	}
	return nil
}

// Receipt is what [Cache.SaveReceipt] was last given. It may be of a block that
// has left the chain since.
func (k *Cache) Receipt(chainID uint64, tx common.Hash) (receipt json.RawMessage, ok bool) {
	if k == nil {
		return nil, false
	}
	ok = readFile(k.receiptPath(chainID, tx), &receipt)
	return receipt, ok
}
