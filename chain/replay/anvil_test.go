package replay_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain/chaintest"
	"karatum/chain/replay"
)

// What cannot be proved on anvil is replayed as told, with the reason.
func TestAsTold(t *testing.T) {
	c := chaintest.Dial(t, chaintest.Anvil(t))
	alice, bob := chaintest.Account(t, 1), chaintest.Account(t, 2)
	first := chaintest.Send(t, c, alice.Key, &bob.Address, big.NewInt(1), nil).TxHash
	stranger := common.HexToAddress("0x000000000000000000000000000000000000beef")
	raw(t, c, "anvil_setBalance", stranger, "0xde0b6b3a7640000")
	raw(t, c, "anvil_impersonateAccount", stranger)
	raw(t, c, "evm_mine") // the balance is in no header before
	var impersonated common.Hash
	tx := map[string]any{"from": stranger, "to": bob.Address, "value": "0x7"}
	if err := json.Unmarshal(raw(t, c, "eth_sendTransaction", tx), &impersonated); err != nil {
		t.Fatal(err)
	}
	chaintest.Receipt(t, c, impersonated)
	for _, tt := range []struct {
		name string
		hash common.Hash
		note string
	}{
		{"on the genesis block, whose state root is that of an empty state", first, "state root of an empty state"},
		{"from an impersonated account", impersonated, "transaction 0"},
	} {
		res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: c, Tx: tt.hash})
		if err != nil || !res.Reproduced || len(res.Differences) != 0 || res.State != "as told by RPC" || !strings.Contains(strings.Join(res.Notes, "\n"), tt.note) {
			t.Errorf("%s: %+v, %v", tt.name, res, err)
		}
	}
	if _, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: c, Tx: first, RequireProof: true}); replay.Code(err) != replay.CodeContradiction {
		t.Errorf("with a proof required: %v", err)
	}
}

// The rules of older forks follow from the header's members. The contracts are
// compiled for later ones, so that most calls fail; that has to be the same too.
func TestOlderForks(t *testing.T) {
	for hardfork, rules := range map[string]string{
		"shanghai": "shanghai", "paris": "paris", "london": "paris", // anvil's London has no difficulty, and so Paris's headers
	} {
		t.Run(hardfork, func(t *testing.T) {
			m := onAnvil(t, "--hardfork", hardfork)
			m.noDelegation, m.blobs = true, false
			m.fill(34)
			m.replayAll(newReplayer(t, replay.Options{}))
			res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: m.c, Tx: m.mined[0]})
			if err != nil || res.Rules != rules {
				t.Errorf("rules of %s, %v", res.Rules, err)
			}
		})
	}
}
