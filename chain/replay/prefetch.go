package replay

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"karatum/chain"
	"karatum/chain/fork"
)

// maxTrials bounds the trial runs; what is still missing then is read one by one.
const maxTrials = 24

// prefetch reads the state that the scene will need in few batches: first what
// the transactions name, with the node's own idea of the last one's accesses, then
// what trial runs on the state so far ask for in vain.
func (r *Replayer) prefetch(ctx context.Context, s scene, st *fork.State) error {
	need := s.named()
	access := s.accessList()
	var extra []*chain.BatchCall
	if access != nil {
		extra = append(extra, access)
	}
	s.guess, s.tracer = true, nil
	for trial := 0; trial < maxTrials && !need.Empty(); trial++ {
		if err := st.Fetch(ctx, need, extra...); err != nil {
			return err
		}
		g := st.Guess()
		if _, err := r.execute(ctx, s, g); err != nil && (ctx.Err() != nil || errors.Is(err, ErrLimit)) {
			return err
		}
		need = g.Missed
		for _, call := range extra {
			addAccessList(&need, call)
		}
		extra = nil
	}
	return nil
}

// named is the state that block and transactions mention.
func (s scene) named() (need fork.Need) {
	for _, addr := range []common.Address{s.block.Coinbase, params.BeaconRootsAddress, params.HistoryStorageAddress, params.SystemAddress} {
		need.Account(addr)
	}
	if s.rules.op != nil {
		for _, addr := range []common.Address{l1BlockAddr, baseFeeVault, l1FeeVault, operatorFeeVault} {
			need.Account(addr)
		}
		for _, slot := range l1Slots {
			need.Slot(l1BlockAddr, slot)
		}
	}
	for _, tx := range s.block.Txs[s.from : s.to+1] {
		need.Account(tx.From)
		switch {
		case tx.Deposit != nil && tx.Deposit.To != nil:
			need.Account(*tx.Deposit.To)
		case tx.Signed != nil:
			nameSigned(&need, tx)
		}
	}
	return need
}

func nameSigned(need *fork.Need, tx fork.Tx) {
	if to := tx.Signed.To(); to != nil {
		need.Account(*to)
	} else {
		need.Account(crypto.CreateAddress(tx.From, tx.Signed.Nonce()))
	}
	addTuples(need, tx.Signed.AccessList())
	for _, auth := range tx.Signed.SetCodeAuthorizations() {
		need.Account(auth.Address)
		if authority, err := auth.Authority(); err == nil {
			need.Account(authority)
		}
	}
}

// maxTuples bounds how much of a node's access list is believed.
const maxTuples = 2000

func addTuples(need *fork.Need, list types.AccessList) {
	for _, t := range list[:min(len(list), maxTuples)] {
		need.Account(t.Address)
		for _, slot := range t.StorageKeys[:min(len(t.StorageKeys), maxTuples)] {
			need.Slot(t.Address, slot)
		}
	}
}

// accessList asks the node which state the last transaction touches. Nodes may
// not know, or be wrong: it only saves trips.
func (s scene) accessList() *chain.BatchCall {
	tx := s.block.Txs[s.to]
	if tx.Signed == nil || len(tx.Signed.Data()) == 0 {
		return nil
	}
	args := map[string]any{"from": tx.From, "value": (*hexutil.Big)(tx.Signed.Value()), "input": hexutil.Bytes(tx.Signed.Data())}
	if to := tx.Signed.To(); to != nil {
		args["to"] = to
	}
	return &chain.BatchCall{Method: "eth_createAccessList", Params: []any{args, hexutil.Uint64(s.block.Number.Uint64() - 1)}}
}

func addAccessList(need *fork.Need, call *chain.BatchCall) {
	if call.Err != nil {
		return
	}
	var told struct {
		AccessList types.AccessList `json:"accessList"`
	}
	if json.Unmarshal(call.Result, &told) == nil {
		addTuples(need, slices.Clip(told.AccessList))
	}
}
