package fork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"karatum/chain"
)

// A taken is what the answers to a read say. With proofs, all of it but the code
// is proved.
type taken struct {
	code   []byte // as told, or the hint
	proofs []proved
	told   []chain.BatchCall // in plain mode, without the code's
}

// open reads the answers to a read and checks the proofs. It changes nothing.
func (s *State) open(m mode, r *read, calls []chain.BatchCall) (t taken, err error) {
	t.code = r.code
	if r.asksCode(m) {
		if t.code, err = decodeCode(calls[0]); err != nil {
			return t, err
		}
		calls = calls[1:]
	}
	if m.plain {
		t.told = calls
		return t, nil
	}
	for i, slots := range r.proofs() {
		p, err := verify(calls[i].Result, s.at.Root, r.addr, slots)
		if err != nil {
			return t, err
		}
		t.proofs = append(t.proofs, p)
	}
	return t, nil
}

func decodeCode(call chain.BatchCall) ([]byte, error) {
	var code hexutil.Bytes
	if err := json.Unmarshal(call.Result, &code); err != nil {
		return nil, malformed(call.Method, err)
	}
	return code, nil
}

// openAll opens the answers to all reads, on all cores: most of the work is
// hashing the nodes of the proofs.
func (s *State) openAll(m mode, reads []*read, calls []chain.BatchCall, ends []int) ([]taken, error) {
	out, errs := make([]taken, len(reads)), make([]error, len(reads))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(reads)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(reads)); i = next.Add(1) - 1 {
				from := 0
				if i > 0 {
					from = ends[i-1]
				}
				out[i], errs[i] = s.open(m, reads[i], calls[from:ends[i]])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// take keeps what the answers say. A hint that does not fit the account is an old
// one: the code of all such accounts is asked for in one more batch.
func (s *State) take(ctx context.Context, m mode, reads []*read, all []taken) error {
	var stale []*read
	var accounts []*types.StateAccount
	for i, r := range reads {
		t := all[i]
		if m.plain {
			if err := s.takeTold(r, t.code, t.told); err != nil {
				return err
			}
			continue
		}
		if a := t.proofs[0].account; r.account && r.code != nil && codeHash(a) != types.EmptyCodeHash && codeHash(a) != crypto.Keccak256Hash(t.code) {
			stale, accounts = append(stale, r), append(accounts, a)
		} else if r.account {
			if err := s.takeAccount(m, r, a, t.code); err != nil {
				return err
			}
		}
		for j, slots := range r.proofs() {
			for _, slot := range slots {
				if err := s.keepSlot(r.addr, slot, t.proofs[j].slots[slot]); err != nil {
					return err
				}
			}
		}
	}
	return s.askCodes(ctx, m, stale, accounts)
}

func codeHash(a *types.StateAccount) common.Hash {
	if a == nil {
		return types.EmptyCodeHash
	}
	return common.BytesToHash(a.CodeHash)
}

// takeAccount keeps a proved account with its code, which must fit.
func (s *State) takeAccount(m mode, r *read, a *types.StateAccount, code []byte) error {
	want := codeHash(a)
	if want == types.EmptyCodeHash && r.code != nil {
		code = nil // whatever the hint was
	}
	if got := crypto.Keccak256Hash(code); got != want {
		return contradiction("code of %s hashes to %s, its account says %s", r.addr, got, want)
	}
	if answers, ok := s.caller.(*Answers); ok && r.code != nil && len(code) > 0 {
		answers.remember(r.codeCall(s.pin(m)), code)
	}
	s.o.Codes.add(r.addr, code)
	return s.keep(r.addr, a, code)
}

// askCodes reads the code of accounts whose hint was wrong.
func (s *State) askCodes(ctx context.Context, m mode, reads []*read, accounts []*types.StateAccount) error {
	calls := make([]chain.BatchCall, len(reads))
	for i, r := range reads {
		r.code = nil
		calls[i] = r.codeCall(s.pin(m))
	}
	if len(calls) > 0 {
		s.caller.Batch(ctx, calls)
	}
	for i, r := range reads {
		if calls[i].Err != nil {
			return fmt.Errorf("fork: code of %s: %w", r.addr, calls[i].Err)
		}
		code, err := decodeCode(calls[i])
		if err != nil {
			return err
		}
		if err := s.takeAccount(m, r, accounts[i], code); err != nil {
			return err
		}
	}
	return nil
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
