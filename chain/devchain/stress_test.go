package devchain

import (
	"math/big"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
)

// Ten accounts send at once while others mine, move the clock and take
// snapshots: nothing hangs, and every transaction is mined exactly once.
func TestConcurrentUse(t *testing.T) {
	const each = 30
	c := openTest(t, testOptions(t.TempDir()))
	client := ethclient.NewClient(c.Client())
	signer := types.LatestSignerForChainID(big.NewInt(ChainID))
	var wg sync.WaitGroup
	hashes := make([][]common.Hash, len(c.Accounts()))
	for i, a := range c.Accounts() {
		wg.Go(func() {
			for nonce := range uint64(each) {
				tx, err := types.SignNewTx(a.Key, signer, &types.DynamicFeeTx{
					ChainID: signer.ChainID(), Nonce: nonce, To: &common.Address{1}, Value: common.Big1, Gas: 21_000,
					GasFeeCap: big.NewInt(10_000_000_000), GasTipCap: common.Big1,
				})
				if err == nil {
					err = client.SendTransaction(t.Context(), tx)
				}
				if err != nil {
					t.Errorf("account %d, nonce %d: %v", i, nonce, err)
					return
				}
				hashes[i] = append(hashes[i], tx.Hash())
			}
		})
	}
	for _, method := range []string{"evm_mine", "evm_snapshot", "evm_mine"} {
		wg.Go(func() {
			for range each {
				var ignored any
				if err := c.Client().CallContext(t.Context(), &ignored, method); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
		})
	}
	wg.Wait()
	for i, own := range hashes {
		for _, hash := range own {
			receipt(t, c.Client(), hash)
		}
		if n, err := client.NonceAt(t.Context(), c.Accounts()[i].Address, nil); err != nil || n != each {
			t.Errorf("account %d has nonce %d, want %d (%v)", i, n, each, err)
		}
	}
	balance, err := client.BalanceAt(t.Context(), common.Address{1}, nil)
	if want := int64(each * len(hashes)); err != nil || balance.Int64() != want {
		t.Errorf("received %s wei, want %d (%v)", balance, want, err)
	}
}
