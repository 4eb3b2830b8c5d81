package contracts_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/contracts"
	"karatum/chain/devchain"
)

// A token is a deployed contract that the test calls by name.
type token struct {
	t        *testing.T
	c        *chain.Client
	at       common.Address
	artifact contracts.Artifact
}

func (k token) pack(method string, args ...any) []byte {
	k.t.Helper()
	data, err := k.artifact.ABI.Pack(method, args...)
	if err != nil {
		k.t.Fatal(err)
	}
	return data
}

func (k token) send(from devchain.Account, method string, args ...any) chain.Receipt {
	k.t.Helper()
	return chaintest.Send(k.t, k.c, from.Key, &k.at, nil, k.pack(method, args...))
}

// number calls a function that returns one word.
func (k token) number(method string, args ...any) *big.Int {
	k.t.Helper()
	result, err := k.c.CallContract(k.t.Context(), chain.Call{To: k.at, Data: k.pack(method, args...)}, chain.Latest)
	if err != nil || len(result) != 32 {
		k.t.Fatalf("%s = %x, %v", method, result, err)
	}
	return new(big.Int).SetBytes(result)
}

// refusal is the name and the arguments of the error that a call reverts with.
func (k token) refusal(from devchain.Account, method string, args ...any) string {
	k.t.Helper()
	_, err := k.c.CallContract(k.t.Context(), chain.Call{From: from.Address, To: k.at, Data: k.pack(method, args...)}, chain.Latest)
	failed, ok := err.(*chain.CallError)
	if !ok || len(failed.Data) < 4 {
		k.t.Fatalf("%s: %v, want a custom error", method, err)
	}
	id, err := k.artifact.ABI.ErrorByID([4]byte(failed.Data[:4]))
	if err != nil {
		k.t.Fatal(err)
	}
	return id.Name
}

func TestUSDC(t *testing.T) {
	artifact, err := contracts.TestUSDC()
	if err != nil {
		t.Fatal(err)
	}
	dev := chaintest.DevChain(t)
	k := token{t, chain.NewInProc(dev.Client(), chain.Options{}), dev.USDC(), artifact}
	alice, bob, carol := dev.Accounts()[1], dev.Accounts()[2], dev.Accounts()[3]
	usd := func(n int64) *big.Int { return big.NewInt(n * 1_000_000) }

	if r := k.send(bob, "faucet", alice.Address, usd(1_000_000)); r.Status != 1 || len(r.Logs) != 1 {
		t.Fatalf("faucet: %+v", r)
	}
	r := k.send(alice, "transfer", bob.Address, usd(40))
	if r.Status != 1 || len(r.Logs) != 1 {
		t.Fatalf("transfer: %+v", r)
	}
	l := r.Logs[0]
	if l.Address != k.at || l.Topics[0] != artifact.ABI.Events["Transfer"].ID || common.BytesToAddress(l.Topics[1][:]) != alice.Address ||
		common.BytesToAddress(l.Topics[2][:]) != bob.Address || new(big.Int).SetBytes(l.Data).Cmp(usd(40)) != 0 {
		t.Errorf("transfer log %+v", l)
	}
	k.send(alice, "approve", carol.Address, usd(10))
	k.send(carol, "transferFrom", alice.Address, carol.Address, usd(4))
	for name, want := range map[string]struct{ got, want *big.Int }{
		"alice":     {k.number("balanceOf", alice.Address), usd(1_000_000 - 44)},
		"bob":       {k.number("balanceOf", bob.Address), usd(40)},
		"carol":     {k.number("balanceOf", carol.Address), usd(4)},
		"allowance": {k.number("allowance", alice.Address, carol.Address), usd(6)},
		"supply":    {k.number("totalSupply"), usd(1_000_000)},
		"decimals":  {k.number("decimals"), big.NewInt(6)},
	} {
		if want.got.Cmp(want.want) != 0 {
			t.Errorf("%s: %s, want %s", name, want.got, want.want)
		}
	}
	endless := new(big.Int).Sub(new(big.Int).Lsh(common.Big1, 256), common.Big1)
	k.send(alice, "approve", bob.Address, endless)
	k.send(bob, "transferFrom", alice.Address, bob.Address, usd(1))
	if got := k.number("allowance", alice.Address, bob.Address); got.Cmp(endless) != 0 {
		t.Errorf("an endless allowance became %s", got)
	}
	for _, tt := range []struct {
		want, method string
		args         []any
	}{
		{"FaucetCapExceeded", "faucet", []any{bob.Address, new(big.Int).Add(usd(1_000_000), common.Big1)}},
		{"ERC20InvalidReceiver", "faucet", []any{common.Address{}, usd(1)}},
		{"ERC20InsufficientBalance", "transfer", []any{bob.Address, usd(5)}},
		{"ERC20InvalidReceiver", "transfer", []any{common.Address{}, usd(1)}},
		{"ERC20InvalidSpender", "approve", []any{common.Address{}, usd(1)}},
		{"ERC20InsufficientAllowance", "transferFrom", []any{alice.Address, carol.Address, usd(7)}},
	} {
		if got := k.refusal(carol, tt.method, tt.args...); got != tt.want {
			t.Errorf("%s%v: %s, want %s", tt.method, tt.args, got, tt.want)
		}
	}
}

func TestNFT(t *testing.T) {
	artifact, err := contracts.TestNFT()
	if err != nil {
		t.Fatal(err)
	}
	dev := chaintest.DevChain(t)
	c := chain.NewInProc(dev.Client(), chain.Options{})
	alice, bob := dev.Accounts()[1], dev.Accounts()[2]
	k := token{t, c, chaintest.Deploy(t, c, alice.Key, artifact.Bytecode), artifact}
	id := big.NewInt(77)
	k.send(alice, "mint", alice.Address, id)
	r := k.send(alice, "transferFrom", alice.Address, bob.Address, id)
	if r.Status != 1 || len(r.Logs) != 1 || len(r.Logs[0].Topics) != 4 || r.Logs[0].Topics[3].Big().Cmp(id) != 0 || len(r.Logs[0].Data) != 0 {
		t.Fatalf("transfer: %+v", r)
	}
	if got := common.BigToAddress(k.number("ownerOf", id)); got != bob.Address {
		t.Errorf("owner %s, want %s", got, bob.Address)
	}
	for want, args := range map[string][]any{
		"ERC721IncorrectOwner":  {alice.Address, bob.Address, id},
		"ERC721InvalidReceiver": {alice.Address, common.Address{}, id},
	} {
		if got := k.refusal(alice, "transferFrom", args...); got != want {
			t.Errorf("%v: %s, want %s", args, got, want)
		}
	}
	if got := k.refusal(alice, "mint", alice.Address, id); !strings.HasPrefix(got, "ERC721InvalidSender") {
		t.Errorf("mint again: %s", got)
	}
}
