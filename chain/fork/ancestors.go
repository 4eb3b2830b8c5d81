package fork

import (
	"context"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"karatum/chain"
)

// blockhashDepth is how far the BLOCKHASH instruction reaches.
const blockhashDepth = 256

// Ancestors are the hashes of the blocks before one, each proved by the header
// above it as far as headers can be hashed.
type Ancestors struct {
	caller Caller
	number uint64 // of the block whose ancestors these are

	mu       sync.Mutex // guards what follows
	hashes   []common.Hash
	unproved string
	err      error
}

// NewAncestors starts with what is known of a block and its parent.
func NewAncestors(c Caller, b *Block, parent Header) *Ancestors {
	return &Ancestors{caller: c, number: b.Number.Uint64(), hashes: []common.Hash{b.ParentHash, parent.ParentHash}}
}

// Unproved says why a hash is only as told, "" if all are proved.
func (a *Ancestors) Unproved() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unproved
}

// Err is the first failure to fetch; the hashes asked for then are zero.
func (a *Ancestors) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Hash is the hash of the block with that number, zero beyond the reach of
// BLOCKHASH. Headers that are missing are fetched in one batch.
func (a *Ancestors) Hash(ctx context.Context, number uint64) common.Hash {
	a.mu.Lock()
	defer a.mu.Unlock()
	if number >= a.number || a.number-number > blockhashDepth {
		return common.Hash{}
	}
	depth := int(a.number - number) // 1 = parent
	if depth > len(a.hashes) && a.err == nil {
		a.err = a.fetch(ctx, depth)
	}
	if depth > len(a.hashes) {
		return common.Hash{}
	}
	return a.hashes[depth-1]
}

// fetch reads the headers whose parent hashes are missing. The header at depth d
// must have the hash known for depth d, and names the one at d+1.
func (a *Ancestors) fetch(ctx context.Context, depth int) error {
	var calls []chain.BatchCall
	for d := len(a.hashes); d < depth; d++ {
		calls = append(calls, chain.BatchCall{Method: "eth_getBlockByNumber", Params: []any{hexutil.Uint64(a.number - uint64(d)), false}})
	}
	a.caller.Batch(ctx, calls)
	for _, call := range calls {
		if call.Err != nil {
			return fmt.Errorf("fork: ancestor header: %w", call.Err)
		}
		h, err := parseHeader(call.Result)
		if err != nil {
			return err
		}
		if want := a.hashes[len(a.hashes)-1]; h.Hash != want {
			return contradiction("block %d is %s, its child says %s", h.Number, h.Hash, want)
		}
		if a.unproved == "" {
			a.unproved = h.Unproved
		}
		a.hashes = append(a.hashes, h.ParentHash)
	}
	return nil
}
