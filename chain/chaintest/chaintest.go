// Package chaintest helps tests that need a chain: the tools in .ci/npm, chains
// to run against, contracts on them, and transactions sent and awaited.
package chaintest

import (
	"bufio"
	"crypto/ecdsa"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain"
	"karatum/chain/devchain"
)

// Package is the directory of an npm package under .ci/npm. A test that needs a
// missing one is skipped, or fails if the variable CI is set.
func Package(t testing.TB, name string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(here), "../../.ci/npm/node_modules", filepath.FromSlash(name))
	if _, err := os.Stat(dir); err != nil {
		Missing(t, name+" (run npm ci in .ci/npm)")
	}
	return dir
}

// Missing skips a test for want of a tool, or fails it if the variable CI is set.
func Missing(t testing.TB, tool string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("missing: %s", tool)
	}
	t.Skipf("missing: %s", tool)
}

// Node is the path of the Node interpreter.
func Node(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		Missing(t, "node 18 or newer")
	}
	return path
}

// Foundry is the path of one of Foundry's programs.
func Foundry(t testing.TB, program string) string {
	t.Helper()
	platform := map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}[runtime.GOOS] + "-" + runtime.GOARCH
	path := filepath.Join(Package(t, "@foundry-rs/"+program+"-"+platform), "bin", program)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	return path
}

// Anvil starts anvil on a free port for the duration of the test and returns its
// URL. Without arguments it has the rules of Prague.
func Anvil(t testing.TB, args ...string) string {
	t.Helper()
	if len(args) == 0 {
		args = []string{"--hardfork", "prague"}
	}
	cmd := exec.Command(Foundry(t, "anvil"), append([]string{"--port", "0"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "Listening on "); ok {
			go func() { // anvil would block on a full pipe
				for lines.Scan() {
				}
			}()
			return "http://" + addr
		}
	}
	t.Fatalf("anvil ended before it listened: %v", lines.Err())
	return ""
}

// DevChain starts a dev chain on a free port for the duration of the test. Its
// clock stands still at Unix second 1,750,000,000, so that each block is one
// second after the last.
func DevChain(t testing.TB) *devchain.Chain {
	t.Helper()
	c, err := devchain.Open(t.Context(), devchain.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Clock: func() uint64 { return 1_750_000_000 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Dial is a client for a URL.
func Dial(t testing.TB, url string) *chain.Client {
	t.Helper()
	c, err := chain.Dial(t.Context(), url, chain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Account is one of the ten well-known accounts, which anvil funds too.
func Account(t testing.TB, i int) devchain.Account {
	t.Helper()
	accounts, err := devchain.WellKnownAccounts()
	if err != nil {
		t.Fatal(err)
	}
	return accounts[i]
}

// Send signs a transaction, sends it and waits for the receipt. A nil target
// deploys.
func Send(t testing.TB, c *chain.Client, key *ecdsa.PrivateKey, to *common.Address, value *big.Int, data []byte) chain.Receipt {
	t.Helper()
	signer := types.LatestSignerForChainID(big.NewInt(devchain.ChainID))
	from := KeyAddress(key)
	nonce, err := c.NonceAt(t.Context(), from, chain.Pending)
	if err != nil {
		t.Fatal(err)
	}
	fees, err := c.SuggestFees(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := types.SignNewTx(key, signer, &types.DynamicFeeTx{
		ChainID: signer.ChainID(), Nonce: nonce, To: to, Value: value, Data: data, Gas: 6_000_000, GasFeeCap: fees.Cap, GasTipCap: fees.Tip,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SendRawTransaction(t.Context(), raw); err != nil {
		t.Fatal(err)
	}
	return Receipt(t, c, tx.Hash())
}

// KeyAddress is the account of a key.
func KeyAddress(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// Receipt asks for a receipt until it is there and its block is the head or
// below: nodes serve receipts a moment before "latest" moves.
func Receipt(t testing.TB, c *chain.Client, hash common.Hash) chain.Receipt {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		r, err := c.TransactionReceipt(t.Context(), hash)
		if err != nil && !errors.Is(err, chain.ErrNotFound) {
			t.Fatal(err)
		}
		if err == nil {
			head, err := c.BlockNumber(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if head >= r.BlockNumber {
				return r
			}
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("no receipt of %s: %v", hash, t.Context().Err())
		}
	}
}

// Deploy sends initcode and returns the contract's address.
func Deploy(t testing.TB, c *chain.Client, key *ecdsa.PrivateKey, initcode []byte) common.Address {
	t.Helper()
	r := Send(t, c, key, nil, nil, initcode)
	if r.Status != 1 || r.ContractAddress == nil {
		t.Fatalf("deployment failed: %+v", r)
	}
	return *r.ContractAddress
}
