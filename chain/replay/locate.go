package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"karatum/chain"
)

// A place is what a node said of a transaction before: its receipt, which names
// its block. Whether it still is in that block only the node can say, unless the
// block was final by its own word; then it need not be asked again. A node is asked
// what is final only when a transaction is replayed again, and before it is asked
// for the receipt, so that the receipt is of the chain that became final. Places are
// kept in memory only, each for one client: what one node called final is not passed
// off as the word of another, nor of the same one after a restart.
type place struct {
	chainID uint64
	raw     json.RawMessage
	final   bool
}

// A placeKey says whose word a place is, and of what.
type placeKey struct {
	client  *chain.Client
	chainID uint64 // as in the job
	tx      common.Hash
}

// Places kept: some hundred, without those whose receipt is huge.
const (
	keptPlaces  = 256
	keptReceipt = 64 << 10 // bytes
)

// locate reads the receipt, and the chain id if it is not given. If the node does
// not answer, a receipt that was read before serves, and the result says so.
func (r *Replayer) locate(ctx context.Context, c *current) error {
	key := placeKey{c.job.Client, c.job.ChainID, c.job.Tx}
	known, again := r.places.Get(key)
	if !again || !known.final {
		var err error
		if known, err = r.askPlace(ctx, c, again); err != nil {
			return err
		}
	}
	c.job.ChainID, c.rawTold = known.chainID, known.raw
	var err error
	if c.told, err = chain.ParseReceipt(known.raw, c.job.Tx); err != nil {
		return err
	}
	if len(c.notes) == 0 && len(known.raw) <= keptReceipt {
		r.places.Add(key, known)
	}
	return nil
}

// askPlace asks the node for the receipt, and what is final if it is asked again.
func (r *Replayer) askPlace(ctx context.Context, c *current, again bool) (p place, err error) {
	calls := []chain.BatchCall{{Method: "eth_getTransactionReceipt", Params: []any{c.job.Tx}}}
	if c.job.ChainID == 0 {
		calls = append(calls, chain.BatchCall{Method: "eth_chainId"})
	}
	if again {
		calls = append([]chain.BatchCall{{Method: "eth_getBlockByNumber", Params: []any{chain.Finalized, false}}}, calls...)
	}
	c.job.Client.Batch(ctx, calls)
	var final uint64
	if again {
		final, calls = finalNumber(calls[0]), calls[1:]
	}
	if p.chainID = c.job.ChainID; p.chainID == 0 {
		if p.chainID, err = chainID(calls[1]); err != nil {
			return p, err
		}
	}
	p.raw, err = calls[0].Result, calls[0].Err
	switch {
	case err == nil:
		p.final = again && isFinal(p.raw, c.job.Tx, final)
		return p, nil
	case errors.Is(err, chain.ErrUnavailable), errors.Is(err, chain.ErrTimeout):
		if known, ok := r.cache.Receipt(p.chainID, c.job.Tx); ok {
			c.notes = append(c.notes, "the node does not answer: receipt and block are as it had them before, and may have left the chain since")
			p.raw, err = known, nil
		}
	case errors.Is(err, chain.ErrNotFound):
		err = fmt.Errorf("%w: %s: %w", ErrNotMined, c.job.Tx, err)
	}
	return p, err
}

func isFinal(raw json.RawMessage, tx common.Hash, final uint64) bool {
	told, err := chain.ParseReceipt(raw, tx)
	return err == nil && told.BlockNumber <= final
}

// finalNumber is the number of the newest final block. The genesis block, which
// has no transactions, stands for a node that does not know any.
func finalNumber(call chain.BatchCall) uint64 {
	var head struct {
		Number hexutil.Uint64 `json:"number"`
	}
	if call.Err != nil || json.Unmarshal(call.Result, &head) != nil {
		return 0
	}
	return uint64(head.Number)
}

func chainID(call chain.BatchCall) (uint64, error) {
	if call.Err != nil {
		return 0, call.Err
	}
	var id hexutil.Uint64
	if err := json.Unmarshal(call.Result, &id); err != nil {
		return 0, fmt.Errorf("replay: chain id: %w: %.100q", chain.ErrMalformed, err.Error())
	}
	return uint64(id), nil
}
