package devchain

import (
	"fmt"
	"maps"
	"math"

	"github.com/ethereum/go-ethereum/common/hexutil"
	gethmath "github.com/ethereum/go-ethereum/common/math"
)

const (
	maxShift     = math.MaxUint32 // seconds that one call may move the clock
	maxSnapshots = 1024           // bounds the memory that callers can take
)

// evmAPI is the evm namespace, after the customs of development chains. It is
// served on loopback and in process, never to other machines.
type evmAPI struct{ s *sealer }

// Mine seals a block now, with what the pool has, and returns its number.
func (a *evmAPI) Mine() (hexutil.Uint64, error) {
	block, err := a.s.seal(true)
	if err != nil {
		return 0, err
	}
	return hexutil.Uint64(block.NumberU64()), nil
}

// IncreaseTime moves the clock forward for all later blocks and returns the
// total shift, both in seconds.
func (a *evmAPI) IncreaseTime(seconds gethmath.HexOrDecimal64) (uint64, error) {
	return locked(a.s, func() (uint64, error) {
		if uint64(seconds) > maxShift {
			return 0, fmt.Errorf("devchain: %d seconds is more than a century", uint64(seconds))
		}
		a.s.offset += uint64(seconds)
		return a.s.offset, nil
	})
}

// SetNextBlockTimestamp fixes the next block's time, in Unix seconds, and
// returns it. Later blocks continue from there.
func (a *evmAPI) SetNextBlockTimestamp(timestamp gethmath.HexOrDecimal64) (uint64, error) {
	return locked(a.s, func() (uint64, error) {
		ts, head := uint64(timestamp), a.s.eth.BlockChain().CurrentBlock()
		if ts <= head.Time || ts-head.Time > maxShift {
			return 0, fmt.Errorf("devchain: timestamp %d is not within a century after block %d at %d", ts, head.Number, head.Time)
		}
		a.s.next = ts
		if now := a.s.clock(); ts > now {
			a.s.offset = ts - now
		}
		return ts, nil
	})
}

// Snapshot remembers the head and returns a handle for Revert.
func (a *evmAPI) Snapshot() (hexutil.Uint64, error) {
	return locked(a.s, func() (hexutil.Uint64, error) {
		if len(a.s.snapshots) >= maxSnapshots {
			return 0, fmt.Errorf("devchain: %d snapshots are open", maxSnapshots)
		}
		head := a.s.eth.BlockChain().CurrentBlock()
		a.s.lastSnap++
		a.s.snapshots[a.s.lastSnap] = blockID{head.Number.Uint64(), head.Hash()}
		return hexutil.Uint64(a.s.lastSnap), nil
	})
}

// Revert goes back to a snapshot: its block becomes the head, the pool is
// emptied, the snapshot and all later ones are gone. It reports whether the
// snapshot was known and still on the chain. The clock stays as it is.
func (a *evmAPI) Revert(id hexutil.Uint64) (bool, error) {
	return locked(a.s, func() (bool, error) {
		snap, known := a.s.snapshots[uint64(id)]
		if !known || a.s.eth.BlockChain().GetCanonicalHash(snap.number) != snap.hash {
			return false, nil
		}
		if err := a.s.rewind(snap.number); err != nil {
			return false, err
		}
		maps.DeleteFunc(a.s.snapshots, func(other uint64, _ blockID) bool { return other >= uint64(id) })
		return true, nil
	})
}

// Rewind makes an earlier block the head, as a reorganisation that drops the
// newest blocks would, and returns its number. The pool is emptied.
func (a *evmAPI) Rewind(number hexutil.Uint64) (hexutil.Uint64, error) {
	return locked(a.s, func() (hexutil.Uint64, error) { return number, a.s.rewind(uint64(number)) })
}
