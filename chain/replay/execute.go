package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/misc/eip4844"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"

	"karatum/chain/fork"
)

// A scene is what one execution needs: the block, whose transactions to run, and
// the state before it.
type scene struct {
	rules     rules
	block     *fork.Block
	ancestors *fork.Ancestors
	from, to  int                       // indices of the first and the last transaction to run
	codes     map[common.Address][]byte // by the node's word, see [Seen.codeCalls]
	gas       uint64
	guess     bool // a trial run: nonces and balances may be wrong
	tracer    *tracing.Hooks
}

// An outcome is what one transaction did.
type outcome struct {
	failed    bool
	gasUsed   uint64
	gasBefore uint64 // of the transactions executed before it
	created   *common.Address
	logs      []*types.Log
	l1Fee     *big.Int // nil unless the rules have one
	refusal   error    // it could not be part of a block here; nothing else is set
	bent      bool     // a trial run in which something was let pass, here or before
}

// A stage is a scene being executed.
type stage struct {
	scene
	ctx  context.Context
	sdb  *state.StateDB
	evm  *vm.EVM
	pool *core.GasPool
	bent bool // see outcome
}

// errCut ends an execution whose context is done.
var errCut = errors.New("replay: execution was cut off")

// execute runs the scene's transactions on a state and returns the outcome of
// the last. A transaction that cannot be in a block ends it with its refusal.
func (r *Replayer) execute(ctx context.Context, s scene, reader state.Reader) (outcome, error) {
	sdb, err := state.NewWithReader(types.EmptyRootHash, r.db, reader)
	if err != nil {
		return outcome{}, fmt.Errorf("replay: state: %w", err)
	}
	st := &stage{scene: s, ctx: ctx, sdb: sdb, pool: core.NewGasPool(min(s.block.GasLimit, s.gas))}
	st.evm = r.newEVM(ctx, s, sdb, nil)
	defer func() { st.evm.Release() }()
	stop := context.AfterFunc(ctx, st.evm.Cancel)
	defer func() { stop() }()
	st.systemCalls()
	var gas uint64
	for i := s.from; ; i++ {
		if i == s.to && s.tracer != nil { // the trace is of this transaction alone
			stop()
			st.evm.Release()
			st.evm = r.newEVM(ctx, s, sdb, s.tracer)
			stop = context.AfterFunc(ctx, st.evm.Cancel)
		}
		out := st.apply(i)
		st.bent = st.bent || out.refusal != nil
		out.gasBefore, out.bent = gas, st.bent
		gas += out.gasUsed
		switch {
		case ctx.Err() != nil:
			return out, fmt.Errorf("%w: %w", errCut, context.Cause(ctx))
		case sdb.Error() != nil:
			return out, sdb.Error()
		case s.ancestors.Err() != nil:
			return out, s.ancestors.Err()
		case out.refusal != nil && errors.Is(out.refusal, core.ErrGasLimitReached) && s.gas < s.block.GasLimit:
			return out, fmt.Errorf("%w: more than %d gas", ErrLimit, s.gas)
		case out.refusal != nil && !s.guess, i == s.to:
			if out.refusal != nil && i != s.to {
				out.refusal = fmt.Errorf("earlier transaction %d: %w", i, out.refusal)
			}
			return out, nil
		}
	}
}

// newEVM is the block's environment. A tracer sees transactions only.
func (r *Replayer) newEVM(ctx context.Context, s scene, sdb *state.StateDB, tracer *tracing.Hooks) *vm.EVM {
	h := s.block.Header.Header
	env := vm.BlockContext{
		CanTransfer: core.CanTransfer, Transfer: core.Transfer,
		GetHash:  func(n uint64) common.Hash { return s.ancestors.Hash(ctx, n) },
		Coinbase: h.Coinbase, GasLimit: h.GasLimit, BlockNumber: new(big.Int).Set(h.Number), Time: h.Time,
		Difficulty: new(big.Int).Set(h.Difficulty), BaseFee: h.BaseFee, CostPerStateByte: params.CostPerStateByte,
	}
	if h.Difficulty.Sign() == 0 {
		env.Random = &h.MixDigest
	}
	if h.SlotNumber != nil {
		env.SlotNum = *h.SlotNumber
	}
	if h.ExcessBlobGas != nil && s.rules.config.IsCancun(h.Number, h.Time) {
		env.BlobBaseFee = eip4844.CalcBlobFee(s.rules.config, h)
	}
	cfg := vm.Config{Tracer: tracer}
	if s.rules.op != nil {
		cfg.Tracer = warmP256(s.rules.op, h.Time, sdb, tracer)
	}
	evm := vm.NewEVM(env, sdb, s.rules.config, cfg)
	evm.SetJumpDestCache(r.jumps)
	if s.rules.op != nil {
		evm.SetPrecompiles(s.rules.op.precompiles(evm.GetRules(), h.Time))
	}
	return evm
}

// systemCalls are what happens in a block before its transactions; without the
// system contracts, nothing.
func (s *stage) systemCalls() {
	h := s.block.Header.Header
	if h.ParentBeaconRoot != nil && s.rules.config.IsCancun(h.Number, h.Time) {
		core.ProcessBeaconBlockRoot(*h.ParentBeaconRoot, s.evm, nil)
	}
	if s.rules.config.IsPrague(h.Number, h.Time) {
		core.ProcessParentBlockHash(h.ParentHash, s.evm, nil)
	}
}

// apply runs one transaction.
func (s *stage) apply(i int) outcome {
	tx := &s.block.Txs[i]
	s.sdb.SetTxContext(tx.Hash, i, uint32(i+1))
	var out outcome
	switch {
	case tx.Deposit != nil:
		out = s.deposit(tx)
	case tx.Signed != nil:
		out = s.signed(tx)
	default:
		return outcome{refusal: fmt.Errorf("%w: transaction type %#x", ErrUnsupported, tx.Type)}
	}
	s.sdb.Finalise(s.evm.GetRules())
	if out.refusal == nil {
		out.logs = s.sdb.GetLogs(tx.Hash, s.block.Number.Uint64(), s.block.Hash, s.block.Time)
	}
	return out
}

// signed runs an ordinary transaction. On the OP stack it pays for its bytes on
// L1 and the operator as well, before it runs, so that it sees its balance
// without them.
func (s *stage) signed(tx *fork.Tx) (out outcome) {
	msg, err := message(tx, s.block.BaseFee)
	if err != nil {
		return outcome{refusal: err}
	}
	if s.guess {
		s.bend(msg)
	}
	oracle, hasL1 := s.oracle()
	before := s.sdb.Snapshot()
	var advance *uint256.Int
	if hasL1 {
		out.l1Fee = oracle.l1Fee(tx.Encoded())
		advance = wei(new(big.Int).Add(out.l1Fee, oracle.operatorFee(msg.GasLimit)))
		if s.sdb.GetBalance(msg.From).Lt(advance) {
			return outcome{refusal: fmt.Errorf("%w for the L1 fee", core.ErrInsufficientFunds)}
		}
		s.sdb.SubBalance(msg.From, advance, tracing.BalanceDecreaseGasBuy)
	}
	s.traceStart(tx.Signed, msg.From)
	result, err := core.ApplyMessage(s.evm, msg, s.pool)
	if err != nil {
		s.sdb.RevertToSnapshot(before)
		return outcome{refusal: err}
	}
	if hasL1 {
		s.settleOP(msg.From, oracle, advance, out.l1Fee, result.UsedGas)
	}
	out.failed, out.gasUsed = result.Failed(), result.UsedGas
	if msg.To == nil {
		addr := crypto.CreateAddress(msg.From, tx.Signed.Nonce())
		out.created = &addr
	}
	return out
}

// bend lets a transaction of a trial run pass whose sender is not read yet. Whether
// that changed anything is noted: if not, the run is as good as a real one.
func (s *stage) bend(msg *core.Message) {
	msg.SkipNonceCheck().SkipEOACheck()
	hash := s.sdb.GetCodeHash(msg.From)
	if s.sdb.GetNonce(msg.From) != msg.Nonce || msg.Nonce == math.MaxUint64 || hash != (common.Hash{}) && hash != types.EmptyCodeHash {
		s.bent = true
	}
	if s.sdb.GetBalance(msg.From).IsZero() {
		s.bent = true
		s.sdb.AddBalance(msg.From, new(uint256.Int).Lsh(uint256.NewInt(1), 128), tracing.BalanceChangeUnspecified)
	}
}

// traceStart hands the tracer the state, which it reads refunds from.
func (s *stage) traceStart(tx *types.Transaction, from common.Address) {
	if hooks := s.evm.Config.Tracer; hooks != nil && hooks.OnTxStart != nil {
		hooks.OnTxStart(s.evm.GetVMContext(), tx, from)
	}
}

// message is a signed transaction as go-ethereum executes it, with the price
// that it pays in a block of this base fee.
func message(tx *fork.Tx, baseFee *big.Int) (*core.Message, error) {
	t := tx.Signed
	price := effectivePrice(t, baseFee)
	amounts := make([]*uint256.Int, 0, 5)
	for _, v := range []*big.Int{t.Value(), price, t.GasFeeCap(), t.GasTipCap(), t.BlobGasFeeCap()} {
		if v == nil {
			amounts = append(amounts, nil)
			continue
		}
		u, overflow := uint256.FromBig(v)
		if overflow || v.Sign() < 0 {
			return nil, fmt.Errorf("%w: an amount of the transaction is not in 256 bits", ErrUnsupported)
		}
		amounts = append(amounts, u)
	}
	return &core.Message{
		From: tx.From, To: t.To(), Nonce: t.Nonce(), GasLimit: t.Gas(), Data: t.Data(), AccessList: t.AccessList(),
		Value: amounts[0], GasPrice: amounts[1], GasFeeCap: amounts[2], GasTipCap: amounts[3], BlobGasFeeCap: amounts[4],
		BlobHashes: t.BlobHashes(), SetCodeAuthorizations: t.SetCodeAuthorizations(),
	}, nil
}

// effectivePrice is base fee and tip, at most the fee cap.
func effectivePrice(t *types.Transaction, baseFee *big.Int) *big.Int {
	if baseFee == nil {
		return t.GasPrice()
	}
	price := new(big.Int).Add(baseFee, t.GasTipCap())
	return slices.MinFunc([]*big.Int{price, t.GasFeeCap()}, (*big.Int).Cmp)
}
