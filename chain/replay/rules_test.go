package replay

import (
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"karatum/chain/fork"
)

// A node can make up a header that hashes well but that no chain has: it is
// refused before go-ethereum, which takes such things for granted, sees it.
func TestImpossibleHeaders(t *testing.T) {
	good := func() *types.Header {
		zero := uint64(0)
		return &types.Header{
			Number: big.NewInt(30_000_000), Time: 1_800_000_000, Difficulty: new(big.Int), BaseFee: big.NewInt(7),
			WithdrawalsHash: &common.Hash{}, ParentBeaconRoot: &common.Hash{}, RequestsHash: &common.Hash{}, BlobGasUsed: &zero, ExcessBlobGas: &zero,
		}
	}
	huge := uint64(1 << 60)
	for _, chainID := range []uint64{mainnet, sepolia, base, baseSepolia, 5} {
		for name, edit := range map[string]func(*types.Header){
			"": func(*types.Header) {}, "no base fee": func(h *types.Header) { h.BaseFee = nil },
			"no excess blob gas": func(h *types.Header) { h.ExcessBlobGas = nil }, "endless blob fee": func(h *types.Header) { h.ExcessBlobGas = &huge },
		} {
			h := good()
			edit(h)
			for _, r := range candidates(chainID, &fork.Block{Header: fork.Header{Header: h}}) {
				if err := r.checkHeader(h); errors.Is(err, ErrUnsupported) != (name != "") {
					t.Errorf("chain %d, %s: %q: %v", chainID, r.name, name, err)
				}
			}
		}
	}
}

func TestCandidates(t *testing.T) {
	zero, root := uint64(0), &common.Hash{}
	plain := types.Header{Number: big.NewInt(9), Time: 1_750_000_000, Difficulty: new(big.Int), BaseFee: common.Big1}
	cancun := plain
	cancun.WithdrawalsHash, cancun.ParentBeaconRoot, cancun.ExcessBlobGas = root, root, &zero
	prague := cancun
	prague.RequestsHash = root
	deposit := []fork.Tx{{Type: fork.DepositType, Deposit: &fork.Deposit{}}}
	for _, tt := range []struct {
		chainID uint64
		header  types.Header
		txs     []fork.Tx
		want    []string
	}{
		{1, prague, nil, []string{"mainnet"}},
		{84532, prague, deposit, []string{"base-sepolia"}},
		{5, plain, nil, []string{"paris"}},
		{5, cancun, nil, []string{"cancun"}},
		{31337, prague, nil, []string{"prague", "osaka"}},
		{10, prague, deposit, []string{"prague, jovian", "prague, isthmus", "osaka, jovian", "osaka, isthmus"}},
	} {
		var got []string
		for _, r := range candidates(tt.chainID, &fork.Block{Header: fork.Header{Header: &tt.header}, Txs: tt.txs}) {
			got = append(got, r.name)
			if r.config.ChainID.Uint64() != tt.chainID {
				t.Errorf("chain %d: %s has the id %s", tt.chainID, r.name, r.config.ChainID)
			}
		}
		if len(got) != len(tt.want) {
			t.Errorf("chain %d: %q, want %q", tt.chainID, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("chain %d: %q, want %q", tt.chainID, got, tt.want)
			}
		}
	}
}
