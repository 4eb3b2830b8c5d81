package fork

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// A Guess is the state for a trial run: what was not read yet is answered as
// absent and noted, so that the next batch can fetch it. One goroutine at a time.
type Guess struct {
	*State
	Missed Need

	supposed map[common.Address][]byte // code of accounts that were not read
	byHash   map[common.Hash][]byte
	slots    int // noted under suppositions
}

// Guess starts a trial run.
func (s *State) Guess() *Guess { return &Guess{State: s} }

// Suppose starts a trial run before anything is read, with nothing but the code
// of some contracts as told: they exist, and what they keep under hashed keys, such
// as balances, is plenty, so that a transfer runs to its end and shows all that it
// reads. Nothing that comes of it is an outcome.
func (s *State) Suppose(code map[common.Address][]byte) *Guess {
	g := &Guess{State: s, supposed: code, byHash: make(map[common.Hash][]byte, len(code))}
	for _, c := range code {
		g.byHash[crypto.Keccak256Hash(c)] = c
	}
	return g
}

// Account implements state.StateReader.
func (g *Guess) Account(addr common.Address) (*types.StateAccount, error) {
	a, ok := g.account(addr)
	if ok {
		return a, nil
	}
	g.Missed.Account(addr)
	if code := g.supposed[addr]; len(code) > 0 {
		a = types.NewEmptyStateAccount()
		a.Nonce, a.CodeHash = 1, crypto.Keccak256(code)
	}
	return a, nil
}

// maxSupposed bounds the slots that a run under suppositions can ask for: what it
// executes may never happen.
const maxSupposed = 1000

// Storage implements state.StateReader.
func (g *Guess) Storage(addr common.Address, slot common.Hash) (common.Hash, error) {
	v, ok := g.slot(addr, slot)
	if ok {
		return v, nil
	}
	if g.supposed == nil {
		g.Missed.Slot(addr, slot)
		return v, nil
	}
	if g.slots++; g.slots <= maxSupposed {
		g.Missed.Slot(addr, slot)
	}
	if hashed(slot) && !pointers[slot] {
		return plenty, nil
	}
	return v, nil
}

// plenty is more than any amount of a token, and fits where it shares a word.
var plenty = common.BigToHash(new(big.Int).Lsh(big.NewInt(1), 95))

// hashed reports a key that a hash made: contracts number the rest from 0.
func hashed(slot common.Hash) bool { return new(big.Int).SetBytes(slot[:]).BitLen() > 192 }

// pointers are the slots of ERC-1967, where proxies keep addresses: those of the
// implementation, the beacon and the admin.
var pointers = map[common.Hash]bool{
	common.HexToHash("0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc"): true,
	common.HexToHash("0xa3f0ad74e5423aebfd80d3ef4346578335a9a72aeaee59ff6cb3582b35133d50"): true,
	common.HexToHash("0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103"): true,
}

// Code implements state.ContractCodeReader.
func (g *Guess) Code(_ common.Address, hash common.Hash) []byte {
	if code := g.code(hash); code != nil {
		return code
	}
	return g.byHash[hash]
}

// CodeSize implements state.ContractCodeReader.
func (g *Guess) CodeSize(addr common.Address, hash common.Hash) int { return len(g.Code(addr, hash)) }

// Has implements state.ContractCodeReader.
func (g *Guess) Has(addr common.Address, hash common.Hash) bool { return len(g.Code(addr, hash)) > 0 }

// A Need is state to fetch.
type Need struct {
	Accounts map[common.Address]bool // false = presumably without code
	Slots    map[common.Address]map[common.Hash]bool
}

// Account adds an account.
func (n *Need) Account(addr common.Address) {
	if n.Accounts == nil {
		n.Accounts = map[common.Address]bool{}
	}
	n.Accounts[addr] = true
}

// Person adds an account that presumably has no code, as most senders: then it is
// not asked for, unless the account says that there is some.
func (n *Need) Person(addr common.Address) {
	if !n.Accounts[addr] {
		n.Account(addr)
		n.Accounts[addr] = false
	}
}

func (n *Need) codeless(addr common.Address) bool {
	code, ok := n.Accounts[addr]
	return ok && !code
}

// Slot adds a slot of an account.
func (n *Need) Slot(addr common.Address, slot common.Hash) {
	if n.Slots == nil {
		n.Slots = map[common.Address]map[common.Hash]bool{}
	}
	if n.Slots[addr] == nil {
		n.Slots[addr] = map[common.Hash]bool{}
	}
	n.Slots[addr][slot] = true
}

// Add adds all of another need. What is presumed of an account here stays.
func (n *Need) Add(other Need) {
	for addr, code := range other.Accounts {
		if _, ok := n.Accounts[addr]; ok {
			continue
		}
		n.Account(addr)
		n.Accounts[addr] = code
	}
	for addr, slots := range other.Slots {
		for slot := range slots {
			n.Slot(addr, slot)
		}
	}
}

// Empty reports that there is nothing to fetch.
func (n *Need) Empty() bool { return len(n.Accounts) == 0 && len(n.Slots) == 0 }
