package chaintest

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"karatum/chain"
)

// DeployOriginal deploys the original SchemaRegistry and EAS 1.4 from npm, by
// their shipped bytecode.
func DeployOriginal(t testing.TB, c *chain.Client, key *ecdsa.PrivateKey) (registry, eas common.Address) {
	t.Helper()
	return deployPair(t, c, key, original)
}

// DeploySepolia deploys what stands on Sepolia, which is an older version.
func DeploySepolia(t testing.TB, c *chain.Client, key *ecdsa.PrivateKey) (registry, eas common.Address) {
	t.Helper()
	return deployPair(t, c, key, sepolias)
}

// Paths of a contract's file in the npm package.
func original(name string) string { return "artifacts/contracts/" + name + ".sol/" + name + ".json" }
func sepolias(name string) string { return "deployments/sepolia/" + name + ".json" }

func deployPair(t testing.TB, c *chain.Client, key *ecdsa.PrivateKey, path func(name string) string) (registry, eas common.Address) {
	t.Helper()
	registry = Deploy(t, c, key, initcode(t, path("SchemaRegistry")))
	return registry, Deploy(t, c, key, initcode(t, path("EAS"), registry))
}

// PlaceOriginal is [DeployOriginal] at addresses of choice, for anvil only.
func PlaceOriginal(t testing.TB, c *chain.Client, registry, eas common.Address) {
	t.Helper()
	place(t, c, registry, initcode(t, original("SchemaRegistry")))
	place(t, c, eas, initcode(t, original("EAS"), registry))
}

// PlaceSepolia is [DeploySepolia] at addresses of choice, for anvil only.
func PlaceSepolia(t testing.TB, c *chain.Client, registry, eas common.Address) {
	t.Helper()
	place(t, c, registry, initcode(t, sepolias("SchemaRegistry")))
	place(t, c, eas, initcode(t, sepolias("EAS"), registry))
}

// place runs a contract's initcode at its address: once for the storage that the
// constructor writes, once for the code that it returns. Its own address and the
// chain id, which the code holds, come out as on the network.
func place(t testing.TB, c *chain.Client, at common.Address, initcode []byte) {
	t.Helper()
	Raw(t, c, "anvil_setCode", at, hexutil.Bytes(initcode))
	run := map[string]any{"from": Account(t, 0).Address, "to": at, "gas": "0x5b8d80"}
	var hash common.Hash
	var code hexutil.Bytes
	decode(t, Raw(t, c, "eth_sendTransaction", run), &hash)
	if r := Receipt(t, c, hash); r.Status != 1 {
		t.Fatalf("the constructor for %s reverts", at)
	}
	decode(t, Raw(t, c, "eth_call", run, "latest"), &code)
	Raw(t, c, "anvil_setCode", at, code)
}

// Raw calls a method of the node, such as anvil's own.
func Raw(t testing.TB, c *chain.Client, method string, params ...any) json.RawMessage {
	t.Helper()
	out, err := c.Raw(t.Context(), method, params...)
	if err != nil && !errors.Is(err, chain.ErrNotFound) { // null is an answer here
		t.Fatalf("%s: %v", method, err)
	}
	return out
}

func decode(t testing.TB, raw json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

// Original is a JSON file of the original contracts' npm package.
type Original struct {
	Address  common.Address `json:"address"` // in deployments
	ABI      abi.ABI        `json:"abi"`
	Bytecode hexutil.Bytes  `json:"bytecode"`
}

// ReadOriginal reads a file by its path in the package.
func ReadOriginal(t testing.TB, path string) (o Original) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Package(t, "@ethereum-attestation-service/eas-contracts"), filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

func initcode(t testing.TB, path string, args ...any) []byte {
	t.Helper()
	o := ReadOriginal(t, path)
	packed, err := o.ABI.Pack("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return append(o.Bytecode, packed...)
}
