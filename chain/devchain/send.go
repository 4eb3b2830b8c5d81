package devchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/rpc"
)

// sendAPI takes the place of go-ethereum's calls that send a transaction. Those
// return before the pool counts the transaction, so that a caller who sends one
// after the other could be given the same nonce twice.
type sendAPI struct {
	eth    *eth.Ethereum
	sealer *sealer
	wallet *wallet
	client func() *rpc.Client // in process

	mu sync.Mutex // one nonce at a time
}

var errUnprotected = errors.New("only transactions that are signed for a chain id are taken")

// SendRawTransaction takes a signed transaction into the pool.
func (a *sendAPI) SendRawTransaction(_ context.Context, raw hexutil.Bytes) (common.Hash, error) {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		return common.Hash{}, err
	}
	return a.add(tx)
}

// SendTransaction signs with the account named by from, and takes the transaction
// into the pool. What is not given is filled in as by eth_fillTransaction.
func (a *sendAPI) SendTransaction(ctx context.Context, args json.RawMessage) (common.Hash, error) {
	var named struct {
		From common.Address `json:"from"`
	}
	if err := json.Unmarshal(args, &named); err != nil {
		return common.Hash{}, fmt.Errorf("invalid transaction: %w", err)
	}
	account, err := a.wallet.find(named.From)
	if err != nil {
		return common.Hash{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var filled struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if err := a.client().CallContext(ctx, &filled, "eth_fillTransaction", args); err != nil {
		return common.Hash{}, err
	}
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(filled.Raw); err != nil {
		return common.Hash{}, err
	}
	if tx, err = types.SignTx(tx, types.LatestSigner(a.eth.BlockChain().Config()), account.Key); err != nil {
		return common.Hash{}, err
	}
	return a.add(tx)
}

// add returns once the pool counts the transaction's nonce, or the transaction has to
// wait for another one.
func (a *sendAPI) add(tx *types.Transaction) (common.Hash, error) {
	from, err := types.Sender(types.LatestSigner(a.eth.BlockChain().Config()), tx)
	if err != nil {
		return common.Hash{}, err
	}
	if !tx.Protected() {
		return common.Hash{}, errUnprotected
	}
	pool := a.eth.TxPool()
	done := make(chan error, 1)
	go func() { done <- pool.Add([]*types.Transaction{tx}, true)[0] }()
	select {
	case err := <-done:
		if err != nil {
			return common.Hash{}, err
		}
	case <-a.sealer.dead.blown: // a parked goroutine may hold the pool
		return common.Hash{}, a.sealer.dead.err()
	}
	// What arrives while the pool moves to a new block stays uncounted until the
	// sender's earlier transactions are in a block.
	for pool.PoolNonce(from) <= tx.Nonce() {
		if block, err := a.sealer.seal(false); err != nil || block == nil {
			break
		}
	}
	return tx.Hash(), nil
}
