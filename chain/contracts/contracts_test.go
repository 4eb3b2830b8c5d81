package contracts

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

func all(t *testing.T) map[string]Artifact {
	t.Helper()
	out := map[string]Artifact{}
	for name, load := range map[string]func() (Artifact, error){
		"SchemaRegistry": SchemaRegistry, "EAS": EAS, "TestUSDC": TestUSDC, "TestNFT": TestNFT, "TestMachine": TestMachine,
	} {
		a, err := load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = a
	}
	return out
}

func TestArtifactsMatchSources(t *testing.T) {
	for name, a := range all(t) {
		h := sha256.New()
		for _, path := range a.Sources {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			h.Write([]byte(path + "\n"))
			h.Write(text)
		}
		if got := hexutil.Encode(h.Sum(nil)); got != a.SourceHash.String() {
			t.Errorf("%s: sources hash to %s, the artifact says %s: run node chain/contracts/build.mjs", name, got, a.SourceHash)
		}
		if a.ContractName != name || !strings.HasPrefix(a.Solc, "0.8.37+") || len(a.Bytecode) == 0 {
			t.Errorf("%s: artifact of %q by solc %s with %d bytes", name, a.ContractName, a.Solc, len(a.Bytecode))
		}
	}
}

// Every source in the directory is in some artifact, so none escapes the check.
func TestEverySourceIsBuilt(t *testing.T) {
	built := map[string]bool{}
	for _, a := range all(t) {
		for _, path := range a.Sources {
			built[path] = true
		}
	}
	for _, pattern := range []string{"*.sol", "testdata/*.sol"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			if !built[path] {
				t.Errorf("%s is in no artifact", path)
			}
		}
	}
}

// The selectors and topics of EAS 1.4, written down here independently of the
// sources: a renamed or reordered field would change them.
func TestABIPins(t *testing.T) {
	as := all(t)
	for _, c := range []struct{ contract, method, selector string }{
		{"SchemaRegistry", "register", "0x60d7a278"},
		{"SchemaRegistry", "getSchema", "0xa2ea7c6e"},
		{"EAS", "attest", "0xf17325e7"},
		{"EAS", "revoke", "0x46926267"},
		{"EAS", "getAttestation", "0xa3112a64"},
		{"EAS", "isAttestationValid", "0xe30bb563"},
		{"EAS", "getSchemaRegistry", "0xf10b5cc8"},
		{"EAS", "version", "0x54fd4d50"},
		{"TestUSDC", "transfer", "0xa9059cbb"},
	} {
		if got := hexutil.Encode(as[c.contract].ABI.Methods[c.method].ID); got != c.selector {
			t.Errorf("%s.%s has selector %s, want %s", c.contract, c.method, got, c.selector)
		}
	}
	for _, c := range []struct{ contract, event, topic string }{
		{"EAS", "Attested", "0x8bf46bf4cfd674fa735a3d63ec1c9ad4153f033c290341f3a588b75685141b35"},
		{"EAS", "Revoked", "0xf930a6e2523c9cc298691873087a740550b8fc85a0680830414c148ed927f615"},
		{"TestUSDC", "Transfer", "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"},
	} {
		if got := as[c.contract].ABI.Events[c.event].ID.Hex(); got != c.topic {
			t.Errorf("%s.%s has topic %s, want %s", c.contract, c.event, got, c.topic)
		}
	}
}

func TestInitcode(t *testing.T) {
	a, err := EAS()
	if err != nil {
		t.Fatal(err)
	}
	registry := common.HexToAddress("0x4200000000000000000000000000000000000020")
	code, err := a.Initcode(registry)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(code), len(a.Bytecode)+32; got != want {
		t.Errorf("initcode has %d bytes, want %d", got, want)
	}
	if _, err := a.Initcode(); err == nil {
		t.Error("a missing constructor argument was accepted")
	}
}

// The pinned compiler gives the committed artifacts byte for byte.
func TestRecompile(t *testing.T) {
	need := func(what string) {
		t.Helper()
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is missing", what)
		}
		t.Skipf("%s is missing", what)
	}
	if _, err := os.Stat("../../.ci/npm/node_modules/solc"); err != nil {
		need("solc (run npm ci in .ci/npm)")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		need("node 18 or newer")
	}
	if out, err := exec.CommandContext(t.Context(), node, "build.mjs", "--check").CombinedOutput(); err != nil {
		t.Errorf("build.mjs --check: %v\n%s", err, out)
	}
}
