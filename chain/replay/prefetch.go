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
// the transactions name and what a run on suppositions asks for, then what trial
// runs on the state so far ask for in vain. If the last of these ran as the real
// thing would, its outcome counts and done is true.
func (r *Replayer) prefetch(ctx context.Context, s scene, st *fork.State) (out outcome, done bool, err error) {
	need := s.named()
	s.guess, s.tracer = true, nil
	var extra []*chain.BatchCall
	if !st.Knows(need) {
		extra = r.suppose(ctx, s, st, &need)
	}
	for trial := 0; trial < maxTrials && !need.Empty(); trial++ {
		if err := st.Fetch(ctx, need, extra...); err != nil {
			return out, false, err
		}
		g := st.Guess()
		out, err = r.execute(ctx, s, g)
		if err != nil && (ctx.Err() != nil || errors.Is(err, ErrLimit)) {
			return out, false, err
		}
		if g.Missed.Empty() && err == nil && !out.bent {
			return out, true, nil
		}
		need = g.Missed
		for _, call := range extra {
			addAccessList(&need, call)
		}
		extra = nil
	}
	return out, false, nil
}

// supposedGas bounds a run on suppositions, which may take any turn.
const supposedGas = 20e6

// suppose adds to a need what the scene seems to need beyond what it names, by the
// code that came with the block. Where the last transaction goes on to accounts
// that it does not name, the node's own idea of its accesses is asked for.
func (r *Replayer) suppose(ctx context.Context, s scene, st *fork.State, need *fork.Need) []*chain.BatchCall {
	g := st.Suppose(s.codes)
	s.gas = min(s.gas, supposedGas)
	_, _ = r.execute(ctx, s, g) // what it asked for is the outcome
	simple := s.known(s.block.Txs[s.to])
	for addr := range g.Missed.Accounts {
		if _, named := need.Accounts[addr]; !named {
			simple = false
		}
	}
	need.Add(g.Missed)
	if access := s.accessList(); access != nil && !simple {
		return []*chain.BatchCall{access}
	}
	return nil
}

// known reports that the code which a transaction calls is there.
func (s scene) known(tx fork.Tx) bool {
	if tx.Signed == nil || tx.Signed.To() == nil {
		return false
	}
	_, ok := s.codes[*tx.Signed.To()]
	return ok
}

// maxCodes bounds the contracts whose code is asked for with the block.
const maxCodes = 8

// seen is what a receipt says of its place. The transaction surely ran the contract
// that it called and those that logged.
func seen(told chain.Receipt) Seen {
	at := Seen{BlockHash: told.BlockHash, BlockNumber: told.BlockNumber}
	if told.To != nil {
		at.Runs = append(at.Runs, *told.To)
	}
	for _, l := range told.Logs {
		if !slices.Contains(at.Runs, l.Address) && len(at.Runs) < maxCodes {
			at.Runs = append(at.Runs, l.Address)
		}
	}
	return at
}

// codeCalls ask for the code of the contracts that surely run. It comes with the
// block, from the state before it; that it fits is proved later.
func (s Seen) codeCalls() (calls []chain.BatchCall) {
	for _, addr := range s.Runs[:min(len(s.Runs), maxCodes)] {
		calls = append(calls, chain.BatchCall{Method: "eth_getCode", Params: []any{addr, hexutil.Uint64(s.BlockNumber - 1)}})
	}
	return calls
}

// codesOf are the answers to codeCalls, and the code of the system's contracts.
func codesOf(calls []chain.BatchCall, codes *fork.Codes) map[common.Address][]byte {
	out := map[common.Address][]byte{
		params.BeaconRootsAddress:    params.BeaconRootsCode,
		params.HistoryStorageAddress: params.HistoryStorageCode,
	}
	for _, c := range calls {
		var code hexutil.Bytes
		if c.Err == nil && json.Unmarshal(c.Result, &code) == nil {
			out[c.Params[0].(common.Address)] = code
		}
	}
	for addr, code := range out {
		codes.Hint(addr, code)
	}
	return out
}

// named is the state that block and transactions mention.
func (s scene) named() (need fork.Need) {
	need.Account(params.BeaconRootsAddress)
	need.Account(params.HistoryStorageAddress)
	need.Person(params.SystemAddress)
	need.Person(s.block.Coinbase)
	if s.rules.op != nil {
		for _, addr := range []common.Address{l1BlockAddr, baseFeeVault, l1FeeVault, operatorFeeVault} {
			need.Account(addr)
		}
		for _, slot := range l1Slots {
			need.Slot(l1BlockAddr, slot)
		}
	}
	for _, tx := range s.block.Txs[s.from : s.to+1] {
		need.Person(tx.From)
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
