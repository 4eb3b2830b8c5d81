package anchor

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/eas"
)

// ErrNotEAS reports that the network's addresses do not hold EAS contracts.
var ErrNotEAS = errors.New("anchor: no EAS at the network's address")

// CheckNetwork asks the node whether it is what the settings say: the chain id,
// and an EAS whose registry is the network's. Errors wrap [eas.ErrChainID],
// [ErrNotEAS] or a class of package chain.
func CheckNetwork(ctx context.Context, c *chain.Client, n eas.Network) error {
	id, err := c.ChainID(ctx)
	if err != nil {
		return err
	}
	if err := n.CheckChainID(id); err != nil {
		return err
	}
	result, err := c.CallContract(ctx, chain.Call{To: n.EAS, Data: eas.GetSchemaRegistryCalldata()}, chain.Latest)
	if errors.Is(err, chain.ErrReverted) {
		return fmt.Errorf("%w: %s: %w", ErrNotEAS, n.EAS, err)
	} else if err != nil {
		return err
	}
	if len(result) == 0 {
		return fmt.Errorf("%w: there is no contract at %s", ErrNotEAS, n.EAS)
	}
	if registry, err := eas.ParseAddress(result); err != nil || registry != n.Registry {
		return fmt.Errorf("%w: registry of %s is %#x, want %s", ErrNotEAS, n.EAS, result[:min(len(result), 32)], n.Registry)
	}
	return nil
}

// SchemaRegistered reports whether the registry has the epoch schema.
func SchemaRegistered(ctx context.Context, c *chain.Client, n eas.Network) (bool, error) {
	call := chain.Call{To: n.Registry, Data: eas.GetSchemaCalldata(eas.EpochSchemaUID())}
	result, err := c.CallContract(ctx, call, chain.Latest)
	if err != nil {
		return false, explain(err)
	}
	registered, err := eas.ParseEpochSchema(result)
	if err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrNotEAS, n.Registry, err)
	}
	return registered, nil
}

// EnsureSchema registers the epoch schema if the registry lacks it, and waits
// until it is there, asking every poll. sent is the registering transaction, or
// zero if none was needed. It may be repeated at any time, also after a crash:
// at worst it pays for a second registration that the registry refuses.
// maxFee bounds the fee in wei per gas.
func EnsureSchema(ctx context.Context, c *chain.Client, n eas.Network, s Signer, maxFee *big.Int, poll time.Duration) (sent common.Hash, err error) {
	registered, err := SchemaRegistered(ctx, c, n)
	if err != nil || registered {
		return common.Hash{}, err
	}
	tx, err := register(ctx, c, n, s, maxFee)
	if errors.Is(err, ErrRefused) { // somebody else may have been first
		if registered, again := SchemaRegistered(ctx, c, n); again == nil && registered {
			return common.Hash{}, nil
		}
	}
	if err != nil {
		return common.Hash{}, err
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		registered, err := SchemaRegistered(ctx, c, n)
		if err != nil || registered {
			return tx.Hash, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return tx.Hash, fmt.Errorf("anchor: schema registration %s: %w", tx.Hash, context.Cause(ctx))
		}
	}
}

func register(ctx context.Context, c *chain.Client, n eas.Network, s Signer, maxFee *big.Int) (Tx, error) {
	fees, err := c.SuggestFees(ctx)
	if err != nil {
		return Tx{}, err
	}
	if err := fees.Limit(maxFee); err != nil {
		return Tx{}, err
	}
	nonce, err := c.NonceAt(ctx, s.Address(), chain.Pending)
	if err != nil {
		return Tx{}, err
	}
	tx, err := BuildRegister(ctx, c, n, s, nonce, fees)
	if err != nil {
		return Tx{}, err
	}
	_, err = c.SendRawTransaction(ctx, tx.Raw)
	return tx, err
}
