package fork

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"karatum/chain"
)

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
