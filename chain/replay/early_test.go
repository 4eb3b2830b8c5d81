package replay_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain/chaintest"
	"karatum/chain/replay"
)

// The block that a transaction was seen in is read before the node has said that it
// still is in it.
func TestReadEarly(t *testing.T) {
	m, hash := bumped(t)
	told := m.receipt(hash)
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	p := newProxy(t, m.url, func(c rpcCall, a *rpcAnswer) {
		switch c.Method {
		case "eth_getBlockByHash":
			once()
		case "eth_getTransactionReceipt":
			select {
			case <-asked:
			case <-t.Context().Done():
			}
		}
	})
	job := replay.Job{
		Client: chaintest.Dial(t, p.URL), ChainID: 31337, Tx: hash,
		Seen: &replay.Seen{BlockHash: told.BlockHash, BlockNumber: told.BlockNumber, Runs: []common.Address{*told.To}},
	}
	res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), job)
	if err != nil || exact(res) != nil || res.Trips != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	if n := p.Seen("eth_getBlockByHash"); n != 1 {
		t.Errorf("the block was read %d times", n)
	}
}

// Wherever a transaction is said to have been seen, the result is of the block that
// the node says it is in.
func TestSeenElsewhere(t *testing.T) {
	m, hash := bumped(t)
	told := m.receipt(hash)
	first := m.receipt(m.mined[0])
	if first.BlockHash == told.BlockHash {
		t.Fatal("both transactions are in one block")
	}
	crowd := make([]common.Address, 1000)
	for i := range crowd {
		crowd[i][19] = byte(i)
	}
	for name, seen := range map[string]replay.Seen{
		"nowhere":              {},
		"another block":        {BlockHash: first.BlockHash, BlockNumber: first.BlockNumber},
		"a block of no chain":  {BlockHash: common.Hash{1}, BlockNumber: told.BlockNumber},
		"another number":       {BlockHash: told.BlockHash, BlockNumber: told.BlockNumber - 1},
		"a number to come":     {BlockHash: told.BlockHash, BlockNumber: told.BlockNumber + 1000},
		"without contracts":    {BlockHash: told.BlockHash, BlockNumber: told.BlockNumber},
		"with other contracts": {BlockHash: told.BlockHash, BlockNumber: told.BlockNumber, Runs: crowd},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplayer(t, replay.Options{})
			job := replay.Job{Client: m.c, ChainID: 31337, Tx: hash, Seen: &seen}
			for range 2 { // the second finds it in memory
				res, err := r.Replay(t.Context(), job)
				if err != nil || exact(res) != nil || res.BlockHash != told.BlockHash || res.PrefixCount != int(told.Index) {
					t.Errorf("%+v, %v", res, err)
				}
			}
		})
	}
}

// A transaction that left its block is not replayed, however well the block is known.
func TestSeenButGone(t *testing.T) {
	m, hash := bumped(t)
	told := m.receipt(hash)
	p := newProxy(t, m.url, func(c rpcCall, a *rpcAnswer) {
		if c.Method == "eth_getTransactionReceipt" {
			a.Result = json.RawMessage("null")
		}
	})
	job := replay.Job{
		Client: chaintest.Dial(t, p.URL), ChainID: 31337, Tx: hash,
		Seen: &replay.Seen{BlockHash: told.BlockHash, BlockNumber: told.BlockNumber},
	}
	if _, err := newReplayer(t, replay.Options{}).Replay(t.Context(), job); replay.Code(err) != replay.CodeNotFound {
		t.Errorf("%v", err)
	}
}
