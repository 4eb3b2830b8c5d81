package app

import (
	"errors"
	"math/big"
	"testing"

	"karatum/chain/chaintest"
	"karatum/chain/replay"
	"karatum/flight"
)

func TestBenchReplay(t *testing.T) {
	url := chaintest.DevChain(t).URL()
	alice, bob := chaintest.Account(t, 1), chaintest.Account(t, 2)
	sent := chaintest.Send(t, chaintest.Dial(t, url), alice.Key, &bob.Address, big.NewInt(1), nil)
	o := BenchReplayOptions{URLs: []string{url}, Tx: sent.TxHash.Hex(), Cold: 2, Warm: 3}
	r, err := BenchReplay(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, ops := range []int{2, 2, 3} {
		if l := r.Lines[i]; l.Ops != ops || l.P50 <= 0 || l.P99 < l.P50 || l.CPU <= 0 {
			t.Errorf("line %d = %+v; want %d replays that took time", i, l, ops)
		}
	}
	o.Tx = flight.Hash{1}.String()
	if _, err := BenchReplay(t.Context(), o); !errors.Is(err, replay.ErrNotMined) {
		t.Errorf("an unknown transaction: %v, want ErrNotMined", err)
	}
	for _, bad := range []BenchReplayOptions{{URLs: o.URLs, Tx: "0x12"}, {Tx: o.Tx}} {
		if _, err := BenchReplay(t.Context(), bad); !errors.Is(err, ErrBenchReplay) {
			t.Errorf("%+v: %v, want ErrBenchReplay", bad, err)
		}
	}
}
