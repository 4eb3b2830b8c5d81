package fork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"karatum/chain"
)

// A mode is how the node lets us read, found out by asking.
type mode struct {
	plain    bool // plain reads, unproved, instead of eth_getProof
	byNumber bool // the block is named by number, for nodes that take no hash
}

// slotsEach is how many slots one eth_getProof asks for.
const slotsEach = 100

// Codes keeps the newest code by address, so that it need not be sent again. It
// is a hint only: what it has is used if it hashes to the account's code hash.
type Codes struct {
	c *lru.Cache[common.Address, []byte]
}

// NewCodes keeps the code of at most 1,024 contracts, about 24 MiB at the most.
func NewCodes() *Codes { return &Codes{lru.NewCache[common.Address, []byte](1024)} }

func (c *Codes) get(addr common.Address) []byte {
	if c == nil {
		return nil
	}
	code, _ := c.c.Get(addr)
	return code
}

func (c *Codes) add(addr common.Address, code []byte) {
	if c != nil && len(code) > 0 {
		c.c.Add(addr, code)
	}
}

// A read is one account of a fetch, with some of its slots.
type read struct {
	addr    common.Address
	slots   []common.Hash
	code    []byte // the hint, nil = ask
	account bool   // the account is wanted, not only slots
}

// Fetch reads everything that is needed and not known, in one batch if the node
// permits. Extra calls may ride along; their outcome is theirs.
func (s *State) Fetch(ctx context.Context, need Need, extra ...*chain.BatchCall) error {
	reads := s.plan(need)
	for {
		s.mu.Lock()
		m := s.mode
		s.mu.Unlock()
		next, err := s.fetch(ctx, m, reads, extra)
		if err == nil || next == m {
			return err
		}
		s.mu.Lock()
		s.mode = next
		s.mu.Unlock()
		if a, ok := s.caller.(*Answers); ok {
			a.learn(next)
		}
		extra = nil
	}
}

// plan lists what is not known, in a fixed order, so that cached answers fit.
func (s *State) plan(need Need) []*read {
	byAddr := map[common.Address]*read{}
	add := func(addr common.Address) *read {
		r := byAddr[addr]
		if r == nil {
			r = &read{addr: addr}
			byAddr[addr] = r
		}
		return r
	}
	for addr := range need.Accounts {
		if _, ok := s.account(addr); !ok {
			add(addr).account = true
		}
	}
	for addr, slots := range need.Slots {
		for slot := range slots {
			if _, ok := s.slot(addr, slot); !ok {
				r := add(addr)
				r.slots = append(r.slots, slot)
			}
		}
	}
	var out []*read
	for _, addr := range slices.SortedFunc(maps.Keys(byAddr), common.Address.Cmp) {
		r := byAddr[addr]
		slices.SortFunc(r.slots, common.Hash.Cmp)
		if _, ok := s.account(addr); !ok {
			r.account = true // a slot's proof needs its account
			r.code = s.o.Codes.get(addr)
		}
		out = append(out, r)
	}
	return out
}

// fetch reads in one mode. If the node refuses it, the next mode is returned
// with the error: first by block number, then without proofs.
func (s *State) fetch(ctx context.Context, m mode, reads []*read, extra []*chain.BatchCall) (mode, error) {
	var calls []chain.BatchCall
	ends := make([]int, len(reads))
	for i, r := range reads {
		calls = append(calls, r.request(m, s.pin(m))...)
		ends[i] = len(calls)
	}
	if len(calls) == 0 {
		return m, nil
	}
	if m.plain && m.byNumber {
		calls = append(calls, chain.BatchCall{Method: "eth_getBlockByNumber", Params: []any{hexutil.Uint64(s.at.Number.Uint64()), false}})
	}
	own := len(calls)
	for _, x := range extra {
		calls = append(calls, *x)
	}
	s.caller.Batch(ctx, calls)
	for i, x := range extra {
		*x = calls[own+i]
	}
	if err := refused(calls[:own]); err != nil {
		return s.fallBack(m, err)
	}
	at := 0
	for i, r := range reads {
		if err := s.take(ctx, m, r, calls[at:ends[i]]); err != nil {
			return s.onTake(m, err)
		}
		at = ends[i]
	}
	if m.plain && m.byNumber {
		return m, s.checkCanonical(calls[own-1])
	}
	return m, nil
}

// refused is the error of the calls that says the most: one that is no refusal
// ends the fetch, a refusal changes the mode.
func refused(calls []chain.BatchCall) error {
	var refusal error
	for _, c := range calls {
		switch {
		case c.Err == nil:
		case errors.Is(c.Err, chain.ErrRPC), errors.Is(c.Err, chain.ErrPruned), errors.Is(c.Err, chain.ErrNotFound):
			if refusal == nil || errors.Is(c.Err, chain.ErrPruned) {
				refusal = c.Err
			}
		default:
			return c.Err
		}
	}
	return refusal
}

// fallBack chooses what to try after a refusal: naming the block by number,
// then plain reads, for some nodes keep state longer than they can prove it. The
// last mode's refusal stands.
func (s *State) fallBack(m mode, err error) (mode, error) {
	pruned := errors.Is(err, chain.ErrPruned)
	refusal := pruned || errors.Is(err, chain.ErrRPC) || errors.Is(err, chain.ErrNotFound)
	err = fmt.Errorf("fork: state of block %d: %w", s.at.Number, err)
	switch {
	case !refusal:
		return m, err
	case !m.byNumber && !pruned:
		return mode{m.plain, true}, err
	case m.plain:
		return m, err
	case s.o.RequireProof:
		return m, fmt.Errorf("%w: %w", ErrNoProof, err)
	}
	s.told(notProved(s.at))
	return mode{plain: true}, err
}

// onTake lets an empty state root pass for a node that has none: anvil's genesis
// block has accounts and the root of no accounts.
func (s *State) onTake(m mode, err error) (mode, error) {
	if !m.plain && errors.Is(err, ErrContradiction) && s.at.Root == types.EmptyRootHash && !s.o.RequireProof {
		s.told(fmt.Sprintf("block %d has accounts but the state root of an empty state", s.at.Number))
		return mode{plain: true}, err
	}
	return m, err
}

func notProved(at Header) string {
	return fmt.Sprintf("the node does not prove the state of block %d", at.Number)
}

func (s *State) told(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unproved == "" {
		s.unproved = why
	}
}

// pin names the block: by its hash, or by number where the node takes no hash.
func (s *State) pin(m mode) any {
	if m.byNumber {
		return hexutil.Uint64(s.at.Number.Uint64())
	}
	return map[string]any{"blockHash": s.at.Hash}
}

// request is the calls for a read.
func (r *read) request(m mode, pin any) []chain.BatchCall {
	var calls []chain.BatchCall
	call := func(method string, params ...any) {
		calls = append(calls, chain.BatchCall{Method: method, Params: append(params, pin)})
	}
	if r.asksCode(m) {
		call("eth_getCode", r.addr)
	}
	if m.plain {
		if r.account {
			call("eth_getBalance", r.addr)
			call("eth_getTransactionCount", r.addr)
		}
		for _, slot := range r.slots {
			call("eth_getStorageAt", r.addr, slot)
		}
		return calls
	}
	for _, slots := range r.proofs() {
		call("eth_getProof", r.addr, slots)
	}
	return calls
}

// asksCode reports that the hint cannot serve: there is none, or nothing would
// say whether it fits.
func (r *read) asksCode(m mode) bool { return r.account && (r.code == nil || m.plain) }

// proofs are the slots of each eth_getProof; one without slots if there are none.
func (r *read) proofs() [][]common.Hash {
	if len(r.slots) == 0 {
		return [][]common.Hash{{}}
	}
	return slices.Collect(slices.Chunk(r.slots, slotsEach))
}

// take checks and keeps the answers to a read.
func (s *State) take(ctx context.Context, m mode, r *read, calls []chain.BatchCall) error {
	code := r.code
	if r.asksCode(m) {
		var told hexutil.Bytes
		if err := json.Unmarshal(calls[0].Result, &told); err != nil {
			return malformed(calls[0].Method, err)
		}
		code, calls = told, calls[1:]
	}
	if m.plain {
		return s.takeTold(r, code, calls)
	}
	for i, slots := range r.proofs() {
		p, err := verify(calls[i].Result, s.at.Root, r.addr, slots)
		if err != nil {
			return err
		}
		if i == 0 && r.account {
			if err := s.takeAccount(ctx, m, r, p.account, code); err != nil {
				return err
			}
		}
		for _, slot := range slots {
			if err := s.keepSlot(r.addr, slot, p.slots[slot]); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeAccount keeps a proved account with its code, which must fit. A hint that
// does not fit is an old one: then the code is asked for.
func (s *State) takeAccount(ctx context.Context, m mode, r *read, a *types.StateAccount, code []byte) (err error) {
	want := types.EmptyCodeHash
	if a != nil {
		want = common.BytesToHash(a.CodeHash)
	}
	if r.code != nil && crypto.Keccak256Hash(code) != want {
		if code, err = s.askCode(ctx, m, r.addr, want); err != nil {
			return err
		}
	}
	if got := crypto.Keccak256Hash(code); got != want {
		return contradiction("code of %s hashes to %s, its account says %s", r.addr, got, want)
	}
	s.o.Codes.add(r.addr, code)
	return s.keep(r.addr, a, code)
}

func (s *State) askCode(ctx context.Context, m mode, addr common.Address, want common.Hash) ([]byte, error) {
	if want == types.EmptyCodeHash {
		return nil, nil
	}
	calls := []chain.BatchCall{{Method: "eth_getCode", Params: []any{addr, s.pin(m)}}}
	s.caller.Batch(ctx, calls)
	if calls[0].Err != nil {
		return nil, fmt.Errorf("fork: code of %s: %w", addr, calls[0].Err)
	}
	var code hexutil.Bytes
	if err := json.Unmarshal(calls[0].Result, &code); err != nil {
		return nil, malformed("eth_getCode", err)
	}
	return code, nil
}

// takeTold keeps plain answers: balance and nonce if the account is wanted, then
// the slots.
func (s *State) takeTold(r *read, code []byte, calls []chain.BatchCall) error {
	if r.account {
		var balance hexutil.Big
		var nonce hexutil.Uint64
		if err := errors.Join(json.Unmarshal(calls[0].Result, &balance), json.Unmarshal(calls[1].Result, &nonce)); err != nil {
			return malformed("account", err)
		}
		v, overflow := uint256.FromBig(balance.ToInt())
		if overflow {
			return malformed("eth_getBalance", errors.New("balance exceeds 256 bits"))
		}
		if err := s.keep(r.addr, toldAccount(v, uint64(nonce), crypto.Keccak256Hash(code)), code); err != nil {
			return err
		}
		calls = calls[2:]
	}
	for i, slot := range r.slots {
		var raw hexutil.Bytes
		if err := json.Unmarshal(calls[i].Result, &raw); err != nil {
			return malformed(calls[i].Method, err)
		}
		if len(raw) > common.HashLength {
			return malformed(calls[i].Method, errors.New("more than 32 bytes"))
		}
		if err := s.keepSlot(r.addr, slot, common.BytesToHash(raw)); err != nil {
			return err
		}
	}
	return nil
}

// checkCanonical makes sure that plain reads by number were of this block.
func (s *State) checkCanonical(call chain.BatchCall) error {
	var told struct {
		Hash common.Hash `json:"hash"`
	}
	if err := json.Unmarshal(call.Result, &told); err != nil {
		return malformed(call.Method, err)
	}
	if told.Hash != s.at.Hash {
		return fmt.Errorf("fork: block %d is now %s, was %s: %w", s.at.Number, told.Hash, s.at.Hash, chain.ErrNotFound)
	}
	return nil
}
