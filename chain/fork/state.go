package fork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
)

// ErrTooLarge reports a replay that reads more state than [Limits] permit.
var ErrTooLarge = errors.New("fork: more state is read than the limit permits")

// ErrNoProof reports a node that cannot prove state, where a proof is required.
var ErrNoProof = errors.New("fork: the node cannot prove this state")

// Limits bound the state that is read. Zero values take the defaults.
type Limits struct {
	// Entries is the most accounts and slots. Defaults to 200,000.
	Entries int
	// CodeBytes is the most code in total. Defaults to 64 MiB.
	CodeBytes int
}

func (l Limits) withDefaults() Limits {
	if l.Entries <= 0 {
		l.Entries = 200_000
	}
	if l.CodeBytes <= 0 {
		l.CodeBytes = 64 << 20
	}
	return l
}

// Options of [NewState].
type Options struct {
	Limits       Limits
	RequireProof bool   // [ErrNoProof] instead of plain reads
	Codes        *Codes // code of earlier states, may be nil
}

// A State is the state after one block, as far as it was read. It is safe for
// concurrent use.
type State struct {
	caller Caller
	at     Header
	o      Options

	mu        sync.Mutex // guards what follows
	accounts  map[common.Address]*types.StateAccount
	slots     map[slotKey]common.Hash
	codes     map[common.Hash][]byte
	codeBytes int
	mode      mode
	unproved  string
}

type slotKey struct {
	addr common.Address
	slot common.Hash
}

// NewState is the state after a block; nothing is read yet.
func NewState(c Caller, at Header, o Options) *State {
	o.Limits = o.Limits.withDefaults()
	s := &State{
		caller: c, at: at, o: o,
		accounts: map[common.Address]*types.StateAccount{}, slots: map[slotKey]common.Hash{}, codes: map[common.Hash][]byte{},
	}
	if a, ok := c.(*Answers); ok {
		if s.mode = a.mode; s.mode.plain && o.RequireProof {
			s.mode = mode{}
		} else if s.mode.plain {
			s.told(notProved(at))
		}
	}
	return s
}

// Unproved says why some of the state read so far is only as told, "" if all of
// it is proved against the header that the state was made with.
func (s *State) Unproved() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unproved
}

// Size is how many accounts and slots, and bytes of code, were read.
func (s *State) Size() (entries, codeBytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accounts) + len(s.slots), s.codeBytes
}

// account is what was read; a copy, because the EVM writes into it.
func (s *State) account(addr common.Address) (a *types.StateAccount, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known = s.accounts[addr]
	if a != nil {
		a = a.Copy()
	}
	return a, known
}

func (s *State) knows(addr common.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.accounts[addr]
	return known
}

// Knows reports that all of a need was read.
func (s *State) Knows(need Need) bool { return len(s.plan(need)) == 0 }

func (s *State) slot(addr common.Address, slot common.Hash) (v common.Hash, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, known = s.slots[slotKey{addr, slot}]; known {
		return v, true
	}
	// An account without storage answers for all its slots.
	if a, ok := s.accounts[addr]; ok && !s.mode.plain && (a == nil || a.Root == types.EmptyRootHash) {
		return common.Hash{}, true
	}
	return v, false
}

func (s *State) code(hash common.Hash) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.codes[hash]
}

// keep stores what was read, within the limits.
func (s *State) keep(addr common.Address, a *types.StateAccount, code []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a != nil && a.Nonce == 0 && a.Balance.IsZero() && bytes.Equal(a.CodeHash, types.EmptyCodeHash[:]) {
		a = nil // an empty account is none (EIP-161)
	}
	s.accounts[addr] = a
	if a != nil && len(code) > 0 {
		hash := common.BytesToHash(a.CodeHash)
		if _, ok := s.codes[hash]; !ok {
			s.codes[hash] = code
			s.codeBytes += len(code)
		}
	}
	return s.withinLimits()
}

func (s *State) keepSlot(addr common.Address, slot, value common.Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[slotKey{addr, slot}] = value
	return s.withinLimits()
}

func (s *State) withinLimits() error {
	if n := len(s.accounts) + len(s.slots); n > s.o.Limits.Entries {
		return fmt.Errorf("%w: %d accounts and slots", ErrTooLarge, s.o.Limits.Entries)
	}
	if s.codeBytes > s.o.Limits.CodeBytes {
		return fmt.Errorf("%w: %d bytes of code", ErrTooLarge, s.o.Limits.CodeBytes)
	}
	return nil
}

// Reader is the state for a StateDB. What was not read yet is fetched, one trip
// each. Its errors show in StateDB.Error; the EVM goes on with zeros.
//
// The context is kept because state.Reader has none; it ends with the run.
func (s *State) Reader(ctx context.Context) state.Reader { return reader{ctx, s} }

type reader struct {
	ctx context.Context
	*State
}

// Account implements state.StateReader.
func (r reader) Account(addr common.Address) (*types.StateAccount, error) {
	if a, ok := r.account(addr); ok {
		return a, nil
	}
	err := r.Fetch(r.ctx, Need{Accounts: map[common.Address]bool{addr: true}})
	a, _ := r.account(addr)
	return a, err
}

// Storage implements state.StateReader.
func (r reader) Storage(addr common.Address, slot common.Hash) (common.Hash, error) {
	if v, ok := r.slot(addr, slot); ok {
		return v, nil
	}
	var need Need
	need.Slot(addr, slot)
	err := r.Fetch(r.ctx, need)
	v, _ := r.slot(addr, slot)
	return v, err
}

// Code implements state.ContractCodeReader.
func (s *State) Code(_ common.Address, hash common.Hash) []byte { return s.code(hash) }

// CodeSize implements state.ContractCodeReader.
func (s *State) CodeSize(_ common.Address, hash common.Hash) int { return len(s.code(hash)) }

// Has implements state.ContractCodeReader.
func (s *State) Has(_ common.Address, hash common.Hash) bool { return len(s.code(hash)) > 0 }

// toldAccount is an account without a proof. Its storage root is unknown: any
// root but the empty one makes the StateDB ask for slots.
func toldAccount(balance *uint256.Int, nonce uint64, codeHash common.Hash) *types.StateAccount {
	a := types.NewEmptyStateAccount()
	a.Balance, a.Nonce = balance, nonce
	a.CodeHash = codeHash[:]
	return a
}
