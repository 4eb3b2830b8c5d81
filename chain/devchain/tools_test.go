package devchain_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain/chaintest"
)

func TestViem(t *testing.T) {
	c := chaintest.DevChain(t)
	modules := filepath.Dir(chaintest.Package(t, "viem"))
	key := hexutil.Encode(crypto.FromECDSA(c.Accounts()[0].Key))
	cmd := exec.CommandContext(t.Context(), chaintest.Node(t), "testdata/viem.mjs", modules, c.URL(), key, c.USDC().Hex())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "viem ok") {
		t.Errorf("viem: %v\n%s", err, out)
	}
}

func TestCast(t *testing.T) {
	c := chaintest.DevChain(t)
	program := chaintest.Foundry(t, "cast")
	cast := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, append(args, "--rpc-url", c.URL())...).Output()
		if err != nil {
			t.Fatalf("cast %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	to, key := c.Accounts()[1].Address.Hex(), hexutil.Encode(crypto.FromECDSA(c.Accounts()[0].Key))
	var sent, again struct{ TransactionHash, Status string }
	if err := json.Unmarshal([]byte(cast("send", c.USDC().Hex(), "faucet(address,uint256)", to, "7", "--private-key", key, "--json")), &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(cast("receipt", sent.TransactionHash, "--json")), &again); err != nil {
		t.Fatal(err)
	}
	chaintest.Receipt(t, chaintest.Dial(t, c.URL()), common.HexToHash(sent.TransactionHash)) // its block is the head
	if sent != again || sent.Status != "0x1" {
		t.Errorf("cast send says %+v, cast receipt %+v", sent, again)
	}
	if got := cast("call", c.USDC().Hex(), "balanceOf(address)(uint256)", to); got != "7" {
		t.Errorf("balance %s, want 7", got)
	}
	if got := cast("chain-id"); got != "31337" {
		t.Errorf("chain id %s", got)
	}
	cast("send", to, "--value", "1", "--unlocked", "--from", c.Accounts()[2].Address.Hex())
}
