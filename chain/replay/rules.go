package replay

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"

	"karatum/chain/fork"
)

// Rules are what a chain's blocks are executed by.
type rules struct {
	name   string
	config *params.ChainConfig
	op     *opForks // nil unless an OP-stack chain
}

// Chain ids whose fork schedule is known here.
const (
	mainnet     = 1
	base        = 8453
	baseSepolia = 84532
	sepolia     = 11155111
)

// public reports a chain on which every transaction is signed by its sender, and
// whose schedule is known.
func public(chainID uint64) bool {
	return chainID == mainnet || chainID == sepolia || chainID == base || chainID == baseSepolia
}

// candidates are the rules that may hold for a block, the likeliest first. For
// chains without a known schedule the header's members tell the fork; Osaka has
// none of its own, so that both it and Prague are candidates. Deposits tell the OP
// stack, but not which of its two latest forks.
func candidates(chainID uint64, b *fork.Block) []rules {
	id := new(big.Int).SetUint64(chainID)
	switch chainID {
	case mainnet:
		return []rules{{"mainnet", params.MainnetChainConfig, nil}}
	case sepolia:
		return []rules{{"sepolia", params.SepoliaChainConfig, nil}}
	case base:
		return []rules{opRules("base", id, baseSchedule)}
	case baseSepolia:
		return []rules{opRules("base-sepolia", id, baseSepoliaSchedule)}
	}
	isOP := slices.ContainsFunc(b.Txs, func(t fork.Tx) bool { return t.Deposit != nil })
	var out []rules
	for _, f := range headerForks(b.Header.Header) {
		c := config(id, f)
		if !isOP {
			out = append(out, rules{f, c, nil})
			continue
		}
		for _, op := range []struct {
			name  string
			forks opForks
		}{{"jovian", opForks{}}, {"isthmus", opForks{jovian: never}}} {
			out = append(out, rules{f + ", " + op.name, c, &op.forks})
		}
	}
	return out
}

// headerForks are the forks that a header's members allow.
func headerForks(h *types.Header) []string {
	switch {
	case h.BlockAccessListHash != nil:
		return []string{"amsterdam"}
	case h.RequestsHash != nil:
		return []string{"prague", "osaka"}
	case h.ParentBeaconRoot != nil:
		return []string{"cancun"}
	case h.WithdrawalsHash != nil:
		return []string{"shanghai"}
	case h.Difficulty.Sign() == 0:
		return []string{"paris"}
	case h.BaseFee != nil:
		return []string{"london"}
	}
	return []string{"berlin"}
}

// config has all forks up to the named one from genesis.
func config(id *big.Int, upTo string) *params.ChainConfig {
	zero, now := new(big.Int), new(uint64)
	c := &params.ChainConfig{
		ChainID:        id,
		HomesteadBlock: zero, EIP150Block: zero, EIP155Block: zero, EIP158Block: zero,
		ByzantiumBlock: zero, ConstantinopleBlock: zero, PetersburgBlock: zero, IstanbulBlock: zero,
		MuirGlacierBlock: zero, BerlinBlock: zero,
		BlobScheduleConfig: &params.BlobScheduleConfig{Cancun: params.DefaultCancunBlobConfig, Prague: params.DefaultPragueBlobConfig},
	}
	steps := []struct {
		fork   string
		enable func()
	}{
		{"berlin", func() {}},
		{"london", func() { c.LondonBlock, c.ArrowGlacierBlock, c.GrayGlacierBlock = zero, zero, zero }},
		{"paris", func() { c.TerminalTotalDifficulty = zero }},
		{"shanghai", func() { c.ShanghaiTime = now }},
		{"cancun", func() { c.CancunTime = now }},
		{"prague", func() { c.PragueTime = now }},
		{"osaka", func() { c.OsakaTime = now }},
		{"amsterdam", func() { c.AmsterdamTime = now }},
	}
	for _, s := range steps {
		s.enable()
		if s.fork == upTo {
			break
		}
	}
	return c
}

// maxExcessBlobGas is far beyond what any chain reaches. The blob fee grows
// exponentially with it, and so would the time to compute it.
const maxExcessBlobGas = 1 << 30

// checkHeader refuses headers that no chain under these rules has, which
// go-ethereum takes for granted.
func (r rules) checkHeader(h *types.Header) error {
	active := r.config.Rules(h.Number, h.Difficulty.Sign() == 0, h.Time)
	switch {
	case active.IsLondon && h.BaseFee == nil:
		return fmt.Errorf("%w: block %d has no base fee under the rules of %s", ErrUnsupported, h.Number, r.name)
	case active.IsCancun && h.ExcessBlobGas == nil:
		return fmt.Errorf("%w: block %d has no excess blob gas under the rules of %s", ErrUnsupported, h.Number, r.name)
	case h.ExcessBlobGas != nil && *h.ExcessBlobGas > maxExcessBlobGas:
		return fmt.Errorf("%w: block %d has an excess blob gas of %d", ErrUnsupported, h.Number, *h.ExcessBlobGas)
	}
	return nil
}
