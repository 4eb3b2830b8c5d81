// Package contracts embeds the compiled Solidity contracts of the dev chain:
// SchemaRegistry and EAS, compatible with Ethereum Attestation Service 1.4 in
// the calls they have, TestUSDC, an ERC-20 with a faucet, and TestNFT and
// TestMachine, which only tests deploy.
//
// The artifacts are committed so that building needs no compiler. build.mjs
// makes them with the pinned solc, build.mjs --check compares, and a test here
// compares the hash of the sources with the one in each artifact.
package contracts

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

//go:embed artifacts/SchemaRegistry.json
var schemaRegistry []byte

//go:embed artifacts/EAS.json
var eas []byte

//go:embed artifacts/TestUSDC.json
var testUSDC []byte

//go:embed testdata/TestNFT.json
var testNFT []byte

//go:embed testdata/TestMachine.json
var testMachine []byte

// An Artifact is one compiled contract.
type Artifact struct {
	ContractName     string        `json:"contractName"`
	Solc             string        `json:"solc"`       // full compiler version
	Sources          []string      `json:"sources"`    // paths relative to this directory, main source first
	SourceHash       hexutil.Bytes `json:"sourceHash"` // SHA-256 over "path\n" and text of each source
	ABI              abi.ABI       `json:"abi"`
	Bytecode         hexutil.Bytes `json:"bytecode"`         // initcode, without constructor arguments
	DeployedBytecode hexutil.Bytes `json:"deployedBytecode"` // immutables are zero here: never use it as code
}

// SchemaRegistry is the registry of schemas; its constructor takes nothing.
func SchemaRegistry() (Artifact, error) { return parse(schemaRegistry) }

// EAS holds attestations; its constructor takes the registry's address.
func EAS() (Artifact, error) { return parse(eas) }

// TestUSDC is the faucet ERC-20 of the dev chain; its constructor takes nothing.
func TestUSDC() (Artifact, error) { return parse(testUSDC) }

// TestNFT is a small ERC-721 for tests of verdicts on token transfers.
func TestNFT() (Artifact, error) { return parse(testNFT) }

// TestMachine does what a replay must get right, for tests of replays.
func TestMachine() (Artifact, error) { return parse(testMachine) }

func parse(data []byte) (a Artifact, err error) {
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("contracts: artifact: %w", err)
	}
	return a, nil
}

// Initcode is what a deploying transaction carries: the bytecode followed by
// the constructor's arguments, which must fit the ABI.
func (a Artifact) Initcode(args ...any) ([]byte, error) {
	packed, err := a.ABI.Pack("", args...)
	if err != nil {
		return nil, fmt.Errorf("contracts: %s constructor: %w", a.ContractName, err)
	}
	return append([]byte(a.Bytecode[:len(a.Bytecode):len(a.Bytecode)]), packed...), nil
}
