package app

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain"
	"karatum/chain/devchain"
	"karatum/flight"
)

// Value that a new key gets on the dev chain, in wei.
var (
	devGrant = new(big.Int).Mul(big.NewInt(100), big.NewInt(1e18))
	devLow   = big.NewInt(1e18) // below this the anchoring key gets more
)

// FundAnchor gives the anchoring key value on the dev chain where it has little,
// from one of the well-known accounts.
func FundAnchor(ctx context.Context, c *chain.Client, k *Keys) error {
	to := common.Address(k.Anchor.Address())
	have, err := c.Balance(ctx, to, chain.Latest)
	if err != nil || have.Cmp(devLow) >= 0 {
		return err
	}
	return fundDev(ctx, c, to)
}

// fundDev sends devGrant from the first well-known account.
func fundDev(ctx context.Context, c *chain.Client, to common.Address) error {
	accounts, err := devchain.WellKnownAccounts()
	if err != nil {
		return err
	}
	if _, err := sendTx(ctx, c, accounts[0].Key, to, devGrant, nil); err != nil {
		return fmt.Errorf("fund %s on the dev chain: %w", to, err)
	}
	return nil
}

// CheckPublicKey refuses an anchoring key that every development chain uses: on a
// public network whatever it holds is taken at once.
func CheckPublicKey(k *Keys) error {
	accounts, err := devchain.WellKnownAccounts()
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if flight.Address(a.Address) == k.Anchor.Address() {
			return errors.New("the anchoring key is a well-known development key; anybody can spend what it holds")
		}
	}
	return nil
}

// sendTx signs a transaction, sends it and waits until it is mined successfully.
// It is for the dev chain: one sender at a time for each key.
func sendTx(ctx context.Context, c *chain.Client, key *ecdsa.PrivateKey, to common.Address, value *big.Int, data []byte) (chain.Receipt, error) {
	from := crypto.PubkeyToAddress(key.PublicKey)
	nonce, err := c.NonceAt(ctx, from, chain.Pending)
	if err != nil {
		return chain.Receipt{}, err
	}
	fees, err := c.SuggestFees(ctx)
	if err != nil {
		return chain.Receipt{}, err
	}
	gas, err := c.EstimateGas(ctx, chain.Call{From: from, To: to, Data: data, Value: value})
	if err != nil {
		return chain.Receipt{}, err
	}
	id := big.NewInt(devchain.ChainID)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, GasTipCap: fees.Tip, GasFeeCap: fees.Cap, Gas: gas + gas/5, To: &to, Value: value, Data: data,
	})
	if err != nil {
		return chain.Receipt{}, err
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return chain.Receipt{}, err
	}
	if err := offerTx(ctx, c, raw); err != nil {
		return chain.Receipt{}, err
	}
	return awaitTx(ctx, c, tx.Hash())
}

// offerTx sends a transaction. The pool learns of a block a moment after it is the
// head: an account that was funded just now may seem poor to it until then.
func offerTx(ctx context.Context, c *chain.Client, raw []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.SendRawTransaction(ctx, raw)
		if !errors.Is(err, chain.ErrInsufficientFunds) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func awaitTx(ctx context.Context, c *chain.Client, hash common.Hash) (chain.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := c.TransactionReceipt(ctx, hash)
		var head uint64
		if err == nil { // a receipt can be served a moment before its block is the head
			head, err = c.BlockNumber(ctx)
		}
		switch {
		case err == nil && head < r.BlockNumber:
		case err == nil && r.Status == 1:
			return r, nil
		case err == nil:
			return r, fmt.Errorf("transaction %s was reverted", hash)
		case !errors.Is(err, chain.ErrNotFound) && !errors.Is(err, chain.ErrIndexing):
			return r, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return chain.Receipt{}, fmt.Errorf("transaction %s is not mined: %w", hash, context.Cause(ctx))
		}
	}
}
