package chain_test

import (
	"errors"
	"math/big"
	"reflect"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/contracts"
	"karatum/chain/devchain"
)

// The client reads real chains: the dev chain over HTTP, the same in process,
// and anvil, another implementation altogether.
func TestLiveNodes(t *testing.T) {
	t.Run("devchain", func(t *testing.T) {
		dev := chaintest.DevChain(t)
		viaHTTP := chaintest.Dial(t, dev.URL())
		inProc := chain.NewInProc(dev.Client(), chain.Options{})
		readAll(t, viaHTTP, inProc)
	})
	t.Run("anvil", func(t *testing.T) {
		url := chaintest.Anvil(t)
		readAll(t, chaintest.Dial(t, url), chaintest.Dial(t, url))
	})
}

// readAll makes a transfer, a deployment and a reverted transaction, and reads
// them back through both clients, which must agree.
func readAll(t *testing.T, a, b *chain.Client) {
	t.Helper()
	ctx := t.Context()
	alice, bob := chaintest.Account(t, 1), chaintest.Account(t, 2)
	artifact, err := contracts.TestUSDC()
	if err != nil {
		t.Fatal(err)
	}
	token := chaintest.Deploy(t, a, alice.Key, artifact.Bytecode)
	too, err := artifact.ABI.Pack("faucet", bob.Address, big.NewInt(2_000_000_000_000))
	if err != nil {
		t.Fatal(err)
	}
	some, err := artifact.ABI.Pack("faucet", bob.Address, big.NewInt(5))
	if err != nil {
		t.Fatal(err)
	}
	receipts := map[string]chain.Receipt{
		"transfer": chaintest.Send(t, a, alice.Key, &bob.Address, big.NewInt(3), nil),
		"reverted": chaintest.Send(t, a, alice.Key, &token, nil, too),
		"faucet":   chaintest.Send(t, a, alice.Key, &token, nil, some),
		"creation": chaintest.Send(t, a, alice.Key, nil, nil, artifact.Bytecode),
	}
	for name, want := range map[string]struct {
		status uint64
		logs   int
	}{"transfer": {1, 0}, "reverted": {0, 0}, "faucet": {1, 1}, "creation": {1, 0}} {
		r := receipts[name]
		if r.Status != want.status || len(r.Logs) != want.logs || r.From != alice.Address || r.EffectiveGasPrice == nil || r.GasUsed < 21_000 {
			t.Errorf("%s: %+v", name, r)
		}
		if (name == "creation") != (r.To == nil) || (name == "creation") != (r.ContractAddress != nil) {
			t.Errorf("%s: to %v, contract %v", name, r.To, r.ContractAddress)
		}
		again, err := b.TransactionReceipt(ctx, r.TxHash)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s: the other client reads %+v, %v", name, again, err)
		}
		tx, err := a.TransactionByHash(ctx, r.TxHash)
		if err != nil || !tx.Mined || tx.BlockHash != r.BlockHash || tx.BlockNumber != r.BlockNumber || tx.Index != r.Index || tx.From != alice.Address {
			t.Errorf("%s: %+v, %v", name, tx, err)
		}
		header, err := a.HeaderByHash(ctx, r.BlockHash)
		byNumber, err2 := b.HeaderByNumber(ctx, r.BlockNumber)
		if err != nil || err2 != nil || !reflect.DeepEqual(header, byNumber) || header.BaseFee == nil {
			t.Errorf("%s: headers %+v, %v and %+v, %v", name, header, err, byNumber, err2)
		}
	}
	readState(t, a, alice, bob, token, too)
	for name, ask := range map[string]func() error{
		"transaction": func() error { _, err := a.TransactionByHash(ctx, common.Hash{1}); return err },
		"receipt":     func() error { _, err := a.TransactionReceipt(ctx, common.Hash{1}); return err },
		"header":      func() error { _, err := a.HeaderByNumber(ctx, 1_000_000); return err },
		"block":       func() error { _, err := a.HeaderByHash(ctx, common.Hash{1}); return err },
	} {
		if err := ask(); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("unknown %s: %v, want ErrNotFound", name, err)
		}
	}
}

func readState(t *testing.T, c *chain.Client, alice, bob devchain.Account, token common.Address, reverting []byte) {
	t.Helper()
	ctx := t.Context()
	if n, err := c.NonceAt(ctx, alice.Address, chain.Latest); err != nil || n != 5 {
		t.Errorf("nonce %d, %v; want 5", n, err)
	}
	ether := new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)
	want := new(big.Int).Add(new(big.Int).Mul(ether, big.NewInt(10_000)), big.NewInt(3))
	if got, err := c.Balance(ctx, bob.Address, chain.Latest); err != nil || got.Cmp(want) != 0 {
		t.Errorf("balance %s, %v; want %s", got, err, want)
	}
	if code, err := c.CodeAt(ctx, token, chain.Latest); err != nil || len(code) == 0 {
		t.Errorf("%d bytes of code, %v", len(code), err)
	}
	if code, err := c.CodeAt(ctx, common.Address{9}, chain.Latest); err != nil || len(code) != 0 {
		t.Errorf("%d bytes of code at an empty address, %v", len(code), err)
	}
	call := chain.Call{From: alice.Address, To: token, Data: reverting}
	for name, ask := range map[string]func() error{
		"call":     func() error { _, err := c.CallContract(ctx, call, chain.Latest); return err },
		"estimate": func() error { _, err := c.EstimateGas(ctx, call); return err },
	} {
		var failed *chain.CallError
		if err := ask(); !errors.Is(err, chain.ErrReverted) || !errors.As(err, &failed) || len(failed.Data) != 68 {
			t.Errorf("%s: %v, want a revert with 68 bytes", name, err)
		}
	}
	head, err := c.BlockNumber(ctx)
	latest, err2 := c.HeaderByTag(ctx, chain.Latest)
	if err != nil || err2 != nil || latest.Number != head {
		t.Errorf("block number %d, %v; newest header %+v, %v", head, err, latest, err2)
	}
}
