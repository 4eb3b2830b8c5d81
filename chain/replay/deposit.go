package replay

import (
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"karatum/chain/fork"
)

// settleOP gives back what the operator did not earn, and pays the vaults.
func (s *stage) settleOP(from common.Address, o l1Oracle, advance *uint256.Int, l1Fee *big.Int, gasUsed uint64) {
	operator := o.operatorFee(gasUsed)
	due := wei(new(big.Int).Add(l1Fee, operator))
	pay := func(to common.Address, v *uint256.Int) {
		s.sdb.AddBalance(to, v, tracing.BalanceIncreaseRewardTransactionFee)
	}
	pay(from, new(uint256.Int).Sub(advance, due))
	pay(l1FeeVault, wei(l1Fee))
	pay(operatorFeeVault, wei(operator))
	if s.block.BaseFee != nil {
		pay(baseFeeVault, wei(new(big.Int).Mul(s.block.BaseFee, new(big.Int).SetUint64(gasUsed))))
	}
}

// oracle reads the fee parameters from the state, as the block's first deposit
// left them.
func (s *stage) oracle() (l1Oracle, bool) {
	if s.rules.op == nil {
		return l1Oracle{}, false
	}
	get := func(slot common.Hash) common.Hash { return s.sdb.GetState(l1BlockAddr, slot) }
	return l1Oracle{s.rules.op, s.block.Time, get}, true
}

// deposit runs an OP-stack deposit: it mints first, pays no gas, and is part of
// the block even if it cannot run; then only its nonce and the mint remain, and
// all its gas counts as used.
func (s *stage) deposit(tx *fork.Tx) (out outcome) {
	d := tx.Deposit
	nonce := s.sdb.GetNonce(d.From)
	s.sdb.AddBalance(d.From, wei(d.Mint), tracing.BalanceChangeUnspecified)
	before := s.sdb.Snapshot()
	zero := new(uint256.Int)
	msg := &core.Message{
		From: d.From, To: d.To, Nonce: nonce, Value: wei(d.Value), GasLimit: d.Gas, Data: d.Data,
		GasPrice: zero, GasFeeCap: zero, GasTipCap: zero,
	}
	msg.SkipNonceCheck().SkipEOACheck().SkipGasLimitCapCheck()
	s.evm.Config.NoBaseFee = true
	s.traceStart(nil, d.From)
	result, err := core.ApplyMessage(s.evm, msg, s.pool)
	s.evm.Config.NoBaseFee = false
	if errors.Is(err, core.ErrGasLimitReached) {
		return outcome{refusal: err}
	}
	if d.To == nil {
		addr := crypto.CreateAddress(d.From, nonce)
		out.created = &addr
	}
	if err != nil {
		s.sdb.RevertToSnapshot(before)
		s.sdb.SetNonce(d.From, nonce+1, tracing.NonceChangeUnspecified)
		out.failed, out.gasUsed = true, d.Gas
		return out
	}
	out.failed, out.gasUsed = result.Failed(), result.UsedGas
	return out
}
