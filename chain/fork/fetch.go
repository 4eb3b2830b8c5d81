package fork

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"karatum/chain"
)

// A mode is how the node lets us read, found out by asking.
type mode struct {
	plain    bool // plain reads, unproved, instead of eth_getProof
	byNumber bool // the block is named by number, for nodes that take no hash
}

// slotsEach is how many slots one eth_getProof asks for.
const slotsEach = 100

// A read is one account of a fetch, with some of its slots.
type read struct {
	addr    common.Address
	slots   []common.Hash
	code    []byte // the hint, nil = ask; empty = presumably none
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
		if !s.knows(addr) {
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
		if !s.knows(addr) {
			r.account = true // a slot's proof needs its account
			if r.code = s.o.Codes.get(addr); r.code == nil && need.codeless(addr) {
				r.code = []byte{}
			}
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
	all, err := s.openAll(m, reads, calls, ends)
	if err == nil {
		err = s.take(ctx, m, reads, all)
	}
	if err != nil {
		return s.onTake(m, err)
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
		calls = append(calls, r.codeCall(pin))
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

func (r *read) codeCall(pin any) chain.BatchCall {
	return chain.BatchCall{Method: "eth_getCode", Params: []any{r.addr, pin}}
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
