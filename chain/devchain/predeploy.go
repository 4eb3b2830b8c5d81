package devchain

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"

	"karatum/chain/contracts"
)

// Contracts present from genesis. The first two sit where OP-stack chains have
// the original ones.
var (
	SchemaRegistryAddress = common.HexToAddress("0x4200000000000000000000000000000000000020")
	EASAddress            = common.HexToAddress("0x4200000000000000000000000000000000000021")
	USDCAddress           = common.HexToAddress("0x5dC0000000000000000000000000000000000001")
)

// predeploy adds the contracts to a genesis allocation.
func predeploy(alloc types.GenesisAlloc) error {
	for _, c := range []struct {
		at   common.Address
		load func() (contracts.Artifact, error)
		args []any
	}{
		{SchemaRegistryAddress, contracts.SchemaRegistry, nil},
		{EASAddress, contracts.EAS, []any{SchemaRegistryAddress}},
		{USDCAddress, contracts.TestUSDC, nil},
	} {
		artifact, err := c.load()
		if err != nil {
			return err
		}
		init, err := artifact.Initcode(c.args...)
		if err != nil {
			return err
		}
		if alloc[c.at], err = construct(c.at, init); err != nil {
			return fmt.Errorf("devchain: predeploy %s: %w", artifact.ContractName, err)
		}
	}
	return nil
}

// construct runs a constructor at the address where the contract will live, and
// returns the account it leaves: runtime code with its immutables filled in, and
// every storage slot that it wrote. An artifact's deployedBytecode has zeros for
// both.
func construct(at common.Address, init []byte) (types.Account, error) {
	db := state.NewMPTDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), triedb.HashDefaults), state.NewCodeDB(rawdb.NewMemoryDatabase()))
	st, err := state.New(types.EmptyRootHash, db)
	if err != nil {
		return types.Account{}, err
	}
	slots := map[common.Hash]common.Hash{}
	hooked := state.NewHookedState(st, &tracing.Hooks{OnStorageChange: func(a common.Address, slot, _, value common.Hash) {
		if a == at {
			slots[slot] = value
		}
	}})
	st.SetCode(at, init, tracing.CodeChangeUnspecified)
	evm := vm.NewEVM(vm.BlockContext{
		CanTransfer: core.CanTransfer,
		Transfer:    core.Transfer,
		GetHash:     func(uint64) common.Hash { return common.Hash{} },
		BlockNumber: new(big.Int),
		Time:        genesisTime,
		Difficulty:  new(big.Int),
		BaseFee:     new(big.Int),
		BlobBaseFee: big.NewInt(1),
		GasLimit:    gasLimit,
		Random:      &common.Hash{},
	}, hooked, chainConfig(), vm.Config{})
	defer evm.Release()
	rules := evm.GetRules()
	st.Prepare(rules, common.Address{}, common.Address{}, &at, vm.ActivePrecompiles(rules), nil)
	code, _, err := evm.Call(common.Address{}, at, nil, vm.NewGasBudget(gasLimit, 0), new(uint256.Int))
	if err != nil {
		return types.Account{}, err
	}
	return types.Account{Code: code, Storage: slots, Nonce: 1, Balance: new(big.Int)}, nil
}
