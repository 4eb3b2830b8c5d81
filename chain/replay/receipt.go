package replay

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
)

// receipt is the outcome in the form of the chain's receipt. Log positions are
// only known if the whole block before was executed.
func (c *current) receipt(out outcome) chain.Receipt {
	tx := &c.block.Txs[c.told.Index]
	r := chain.Receipt{
		TxHash: tx.Hash, Type: tx.Type, From: tx.From, BlockHash: c.block.Hash, BlockNumber: c.block.Number.Uint64(),
		Index: c.told.Index, GasUsed: out.gasUsed, ContractAddress: out.created, L1Fee: out.l1Fee,
	}
	if !out.failed && out.refusal == nil {
		r.Status = 1
	}
	switch {
	case tx.Signed != nil:
		r.To = tx.Signed.To()
		r.EffectiveGasPrice = effectivePrice(tx.Signed, c.block.BaseFee)
	case tx.Deposit != nil:
		r.To = tx.Deposit.To
		r.EffectiveGasPrice = new(big.Int)
	}
	for _, l := range out.logs {
		r.Logs = append(r.Logs, chain.Log{Address: l.Address, Topics: append([]common.Hash{}, l.Topics...), Data: append([]byte{}, l.Data...), Index: uint64(l.Index)})
	}
	return r
}

// tx is the transaction in the block.
func (c *current) tx() chain.Tx {
	t := &c.block.Txs[c.told.Index]
	out := chain.Tx{
		Hash: t.Hash, Type: t.Type, From: t.From, BlockHash: c.block.Hash, BlockNumber: c.block.Number.Uint64(),
		Index: c.told.Index, Mined: true,
	}
	switch {
	case t.Signed != nil:
		out.To, out.Nonce, out.Value, out.Input = t.Signed.To(), t.Signed.Nonce(), t.Signed.Value(), t.Signed.Data()
	case t.Deposit != nil:
		out.To, out.Value, out.Input = t.Deposit.To, t.Deposit.Value, t.Deposit.Data
	}
	return out
}

func (c *current) header() chain.Header {
	h := c.block.Header
	return chain.Header{Number: h.Number.Uint64(), Hash: h.Hash, ParentHash: h.ParentHash, StateRoot: h.Root, Time: h.Time, BaseFee: h.BaseFee}
}
