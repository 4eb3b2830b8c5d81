package devchain

import (
	"math/big"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// Transactions sent one after the other, without waiting for blocks, get nonces of
// their own, whoever counts them and however many send.
func TestSendInARow(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	a := c.Accounts()
	const each = 25
	var wg sync.WaitGroup
	sent := make(chan common.Hash, 4*each)
	for range 2 {
		wg.Go(func() { // the chain counts
			for range each {
				var hash common.Hash
				if err := c.Client().Call(&hash, "eth_sendTransaction", map[string]any{"from": a[0].Address, "to": a[1].Address, "value": "0x1"}); err != nil {
					t.Error(err)
					return
				}
				sent <- hash
			}
		})
	}
	for _, own := range a[2:4] {
		wg.Go(func() { // the sender asks how many there are
			for range each {
				var nonce hexutil.Uint64
				if err := c.Client().Call(&nonce, "eth_getTransactionCount", own.Address, "pending"); err != nil {
					t.Error(err)
					return
				}
				tx, err := types.SignNewTx(own.Key, types.LatestSignerForChainID(big.NewInt(ChainID)), &types.DynamicFeeTx{
					ChainID: big.NewInt(ChainID), Nonce: uint64(nonce), To: &a[1].Address, Gas: 21_000, GasFeeCap: big.NewInt(2e9), GasTipCap: big.NewInt(1), Value: big.NewInt(1),
				})
				if err != nil {
					t.Error(err)
					return
				}
				raw, err := tx.MarshalBinary()
				if err != nil {
					t.Error(err)
					return
				}
				var hash common.Hash
				if err := c.Client().Call(&hash, "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
					t.Error(err)
					return
				}
				sent <- hash
			}
		})
	}
	wg.Wait()
	close(sent)
	distinct := map[common.Hash]bool{}
	for hash := range sent {
		distinct[hash] = true
		receipt(t, c.Client(), hash)
	}
	if len(distinct) != 4*each {
		t.Errorf("%d transactions, sent %d", len(distinct), 4*each)
	}
}

func TestSendRefuses(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	a := c.Accounts()
	legacy, err := types.SignNewTx(a[0].Key, types.HomesteadSigner{}, &types.LegacyTx{To: &a[1].Address, Gas: 21_000, GasPrice: big.NewInt(2e9)})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := legacy.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string][]any{
		"not signed for a chain": {"eth_sendRawTransaction", hexutil.Bytes(raw)},
		"no transaction":         {"eth_sendRawTransaction", "0x01"},
		"nobody's account":       {"eth_sendTransaction", map[string]any{"from": common.Address{1}, "to": a[1].Address}},
		"without from":           {"eth_sendTransaction", map[string]any{"to": a[1].Address}},
		"no object":              {"eth_sendTransaction", "0x01"},
		"reverts":                {"eth_sendTransaction", map[string]any{"from": a[0].Address, "data": "0xfe"}},
		"too poor":               {"eth_sendTransaction", map[string]any{"from": a[0].Address, "to": a[1].Address, "value": "0xffffffffffffffffffffffff"}},
	} {
		var hash common.Hash
		if err := c.Client().Call(&hash, call[0].(string), call[1:]...); err == nil {
			t.Errorf("%s: taken as %s", name, hash)
		}
	}
}
