package replay_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain/chaintest"
	"karatum/chain/replay"
)

// A block of transfers takes three trips: the receipt, the block with the code, and
// all state at once. Code that is a lie, missing or endless costs a trip and some
// time, never the outcome.
func TestTripsOfTransfers(t *testing.T) {
	m := onDevChain(t)
	for i := 1; i < 7; i++ {
		to := m.account(i).Address
		m.call(i, &m.token, 0, m.pack(m.tokenABI, "faucet", to, big.NewInt(100)), 200_000)
	}
	m.seal()
	m.together(func() {
		for i := 1; i < 7; i++ {
			m.call(i, &m.token, 0, m.pack(m.tokenABI, "transfer", m.account(i+1).Address, big.NewInt(10)), 200_000)
		}
	})
	var last common.Hash
	for _, hash := range m.mined {
		if r := m.receipt(hash); r.Index == 5 {
			last = hash
		}
	}
	early := func(c rpcCall) bool { // the code that comes with the block
		return c.Method == "eth_getCode" && len(c.Params) == 2 && c.Params[1][0] == '"'
	}
	for _, tt := range []struct {
		name string
		code string
		fail bool
		min  int
		max  int
	}{
		{name: "honest", min: 3, max: 3},
		{name: "none", code: `"0x"`, min: 4, max: 6},
		{name: "an endless loop", code: `"0x5b5f56"`, min: 4, max: 6},
		{name: "ever new slots", code: `"0x5f5b8054506001016001565b"`, min: 3, max: 6},
		{name: "no hex", code: `"code"`, min: 4, max: 6},
		{name: "refused", fail: true, min: 4, max: 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProxy(t, m.url, func(c rpcCall, a *rpcAnswer) {
				switch {
				case early(c) && tt.fail:
					refuse(-32000, "no", c.Method)(c, a)
				case early(c) && tt.code != "":
					a.Result = json.RawMessage(tt.code)
				}
			})
			res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: chaintest.Dial(t, p.URL), Tx: last})
			if err != nil || exact(res) != nil || res.PrefixCount != 5 {
				t.Fatalf("%+v, %v", res, err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.trips < tt.min || p.trips > tt.max {
				t.Errorf("%d trips, want %d to %d", p.trips, tt.min, tt.max)
			}
		})
	}
}
