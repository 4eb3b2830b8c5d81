package replay_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain/replay"
)

func newReplayer(t testing.TB, o replay.Options) *replay.Replayer {
	t.Helper()
	r, err := replay.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exact fails the test unless a result is the chain's to the gas, on proved state.
func exact(res replay.Result) error {
	if !res.Reproduced || len(res.Differences) > 0 || !strings.HasPrefix(res.State, "proved against block 0x") {
		return fmt.Errorf("reproduced %v, differences %q, state %q, notes %q", res.Reproduced, res.Differences, res.State, res.Notes)
	}
	return nil
}

// exact is the same, but lets anvil's blocks with blob transactions be as told:
// their transaction root is over the blobs too, which are not in blocks.
func (m *mix) exact(res replay.Result) error {
	if m.blobBlocks[res.BlockHash] && res.State == "as told by RPC" && strings.Contains(res.Notes[0], "do not hash to its transaction root") {
		res.State = "proved against block 0x (but for the transactions)"
	}
	return exact(res)
}

// replayAll replays every transaction of the mix, two at a time.
func (m *mix) replayAll(r *replay.Replayer) {
	m.t.Helper()
	work := make(chan common.Hash)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for hash := range work {
				res, err := r.Replay(m.t.Context(), replay.Job{Client: m.c, Tx: hash})
				if err == nil {
					err = m.exact(res)
				}
				if err != nil {
					m.t.Errorf("%s: %v (rules of %s)", hash, err, res.Rules)
				}
			}
		})
	}
	for _, hash := range m.mined {
		work <- hash
	}
	close(work)
	wg.Wait()
}

// tally says what the mix contains, so that a change cannot empty it unnoticed.
func (m *mix) tally() map[string]int {
	m.t.Helper()
	n := map[string]int{}
	for _, hash := range m.mined {
		r := m.receipt(hash)
		n[fmt.Sprintf("type %d", r.Type)]++
		n[fmt.Sprintf("status %d", r.Status)]++
		n["logs"] += len(r.Logs)
		if r.To == nil {
			n["creations"]++
		}
		if r.Index > 0 {
			n["after others"]++
		}
	}
	return n
}

func onCancun(t testing.TB) *mix {
	m := onAnvil(t, "--hardfork", "cancun")
	m.noDelegation = true
	return m
}

// On anvil the accounts that delegate exist before: anvil 1.7.1 gives the refund
// for an existing authority (EIP-7702) to those that do not exist as well.
func anvilMix(hardfork string) func(testing.TB) *mix {
	return func(t testing.TB) *mix {
		m := onAnvil(t, "--hardfork", hardfork)
		m.fundAuthorities()
		return m
	}
}

func TestEveryTransaction(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(testing.TB) *mix
		n     int
	}{
		{"anvil prague", anvilMix("prague"), 340},
		{"anvil osaka", anvilMix("osaka"), 68},
		{"anvil cancun", onCancun, 68},
		{"devchain", onDevChain, 170},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := tt.start(t)
			m.fill(tt.n)
			tally := m.tally()
			for what, least := range map[string]int{"after others": tt.n * 8 / 10, "creations": tt.n / 30, "logs": tt.n / 2, "status 0": tt.n / 8, "type 0": tt.n / 8, "type 1": tt.n / 8} {
				if tally[what] < least {
					t.Errorf("%s: %d, want at least %d", what, tally[what], least)
				}
			}
			t.Log(tally)
			m.replayAll(newReplayer(t, replay.Options{}))
		})
	}
}
