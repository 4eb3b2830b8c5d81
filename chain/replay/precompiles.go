package replay

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto/secp256r1"
	"github.com/ethereum/go-ethereum/params"
)

// p256Addr is the precompile for signatures on P-256, which the OP stack had
// before Ethereum, and cheaper.
var p256Addr = common.BytesToAddress([]byte{1, 0})

// precompiles is Ethereum's set with the stack's additions and limits.
func (f *opForks) precompiles(r params.Rules, time uint64) vm.PrecompiledContracts {
	set := vm.ActivePrecompiledContracts(r)
	if time >= f.fjord && !r.IsOsaka {
		set[p256Addr] = p256Verify{}
	}
	limit := func(last byte, bytes int) {
		addr := common.BytesToAddress([]byte{last})
		if inner, ok := set[addr]; ok {
			set[addr] = limited{inner, bytes}
		}
	}
	switch {
	case time >= f.jovian:
		limit(0x08, 81_984)
		limit(0x0c, 288_960)
		limit(0x0e, 278_784)
		limit(0x0f, 156_672)
	case time >= f.isthmus:
		limit(0x08, 112_687)
		limit(0x0c, 513_760)
		limit(0x0e, 488_448)
		limit(0x0f, 235_008)
	case time >= f.granite:
		limit(0x08, 112_687)
	}
	return set
}

// limited refuses long inputs.
type limited struct {
	vm.PrecompiledContract
	bytes int
}

func (l limited) Run(input []byte) ([]byte, error) {
	if len(input) > l.bytes {
		return nil, vm.ErrOutOfGas
	}
	return l.PrecompiledContract.Run(input)
}

// p256Verify is RIP-7212: hash, r, s, x, y, 32 bytes each; 1 if valid, else
// nothing.
type p256Verify struct{}

func (p256Verify) RequiredGas([]byte) uint64 { return 3450 }
func (p256Verify) Name() string              { return "P256VERIFY" }

func (p256Verify) Run(in []byte) ([]byte, error) {
	if len(in) != 160 {
		return nil, nil
	}
	n := func(i int) *big.Int { return new(big.Int).SetBytes(in[32*i : 32*i+32]) }
	if !secp256r1.Verify(in[:32], n(1), n(2), n(3), n(4)) {
		return nil, nil
	}
	return common.LeftPadBytes([]byte{1}, 32), nil
}

// warmP256 makes the stack's own precompile warm from the start, as precompiles
// are: go-ethereum's list of warm addresses cannot be extended, but the first
// frame is entered right after it is made.
func warmP256(f *opForks, time uint64, sdb *state.StateDB, tracer *tracing.Hooks) *tracing.Hooks {
	if time < f.fjord {
		return tracer
	}
	hooks := new(tracing.Hooks)
	if tracer != nil {
		*hooks = *tracer
	}
	enter := hooks.OnEnter
	hooks.OnEnter = func(depth int, typ byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
		if depth == 0 {
			sdb.AddAddressToAccessList(p256Addr)
		}
		if enter != nil {
			enter(depth, typ, from, to, input, gas, value)
		}
	}
	return hooks
}
