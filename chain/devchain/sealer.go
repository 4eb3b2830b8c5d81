package devchain

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/miner"
)

// retryPause is how long the automatic sealer waits before it tries again after
// CanWrite refused, or building a block failed.
const retryPause = 250 * time.Millisecond

// A sealer makes the blocks. It stands where a consensus client would.
type sealer struct {
	eth      *eth.Ethereum
	log      *slog.Logger
	clock    func() uint64
	canWrite func() error
	dbDir    string // holds the database's journals
	dead     *fuse

	// mu covers everything below, and every call that reaches TxPool.Sync: the
	// pool has a single slot for waiters there, and a second concurrent caller
	// makes the first hang for ever.
	mu        sync.Mutex
	offset    uint64 // seconds added to the clock
	next      uint64 // timestamp of the next block, 0 = by the clock
	branch    []byte // extra data of the next block, see rewind; not nil, for which go-ethereum has a text of its own
	snapshots map[uint64]blockID
	lastSnap  uint64

	quit chan struct{}
	wg   sync.WaitGroup
}

// newSealer continues at the head. Should the head be in the clock's future,
// because blocks came faster than one a second or evm_increaseTime was used, then
// new blocks are a second apart until the clock has caught up.
func newSealer(e *eth.Ethereum, o Options, dead *fuse, dbDir string) *sealer {
	s := &sealer{
		eth: e, log: o.Logger, clock: o.Clock, canWrite: o.CanWrite, dbDir: dbDir, dead: dead,
		snapshots: map[uint64]blockID{}, branch: []byte{}, quit: make(chan struct{}),
	}
	s.finalize(e.BlockChain().CurrentBlock())
	return s
}

// A blockID names a block on whichever branch it is.
type blockID struct {
	number uint64
	hash   common.Hash
}

// seal makes one block of what is in the pool. Without transactions it makes an
// empty block if empty is set, and otherwise none: then the block is nil.
func (s *sealer) seal(empty bool) (*types.Block, error) {
	return locked(s, func() (*types.Block, error) { return s.sealLocked(empty) })
}

// locked runs f under the mutex in a goroutine of its own, so that a parked
// goroutine (see gethHandler) strands itself and not the caller.
func locked[T any](s *sealer, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	if err := s.dead.err(); err != nil { // whoever holds the mutex keeps it
		var zero T
		return zero, err
	}
	done := make(chan result, 1)
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		defer func() {
			if r := recover(); r != nil { // the chain may be half written
				s.dead.blow(fmt.Sprint("panic: ", r))
			}
		}()
		if s.dead.err() == nil {
			v, err := f()
			done <- result{v, err}
		}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-s.dead.blown:
		var zero T
		return zero, s.dead.err()
	}
}

func (s *sealer) sealLocked(empty bool) (*types.Block, error) {
	if err := s.canWrite(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPaused, err)
	}
	if err := s.eth.TxPool().Sync(); err != nil {
		return nil, fmt.Errorf("devchain: pool: %w", err)
	}
	bc := s.eth.BlockChain()
	parent := bc.CurrentBlock()
	block, _, err := s.eth.Miner().BuildTestingPayload(&miner.BuildPayloadArgs{
		Parent:      parent.Hash(),
		Timestamp:   s.timestamp(parent),
		Random:      randao(parent.Number.Uint64() + 1),
		Withdrawals: types.Withdrawals{},
		BeaconRoot:  &common.Hash{},
	}, nil, false, s.branch)
	if err != nil {
		return nil, fmt.Errorf("devchain: build block: %w", err)
	}
	if len(block.Transactions()) == 0 && !empty {
		return nil, nil
	}
	if err := s.adopt(block); err != nil {
		// A block that was just built executes; what failed is a write, and LevelDB
		// takes no further ones after that.
		s.dead.blow(err.Error())
		return nil, s.dead.err()
	}
	s.next, s.branch = 0, []byte{}
	return block, nil
}

// adopt writes a block, makes it durable and then visible.
func (s *sealer) adopt(block *types.Block) error {
	bc := s.eth.BlockChain()
	if _, err := bc.InsertBlockWithoutSetHead(context.Background(), block, false); err != nil {
		return fmt.Errorf("insert block: %w", err)
	}
	if err := s.persistHead(block.Hash()); err != nil {
		return err
	}
	// Marked before it is visible: who sees a receipt must find the block final.
	s.finalize(block.Header())
	if _, err := bc.SetCanonical(block); err != nil { // from here on everybody sees it
		return fmt.Errorf("adopt block: %w", err)
	}
	return nil
}

// persistHead makes an executed block durable as the head while nobody can see
// it yet: the running chain keeps its head in memory. After a crash from here on
// the block is the head, and repairHead supplies what SetCanonical would have
// written; after a crash before, nobody has seen it.
func (s *sealer) persistHead(hash common.Hash) error {
	db := s.eth.ChainDb()
	rawdb.WriteHeadHeaderHash(db, hash)
	rawdb.WriteHeadFastBlockHash(db, hash)
	rawdb.WriteHeadBlockHash(db, hash)
	return syncJournals(s.dbDir)
}

// timestamp is the clock's time, moved by evm_increaseTime, and always after
// the parent's.
func (s *sealer) timestamp(parent *types.Header) uint64 {
	if s.next != 0 {
		return max(s.next, parent.Time+1)
	}
	return max(s.clock()+s.offset, parent.Time+1)
}

// randao is a block's "random" value: a function of its number, so that equal
// histories have equal block hashes.
func randao(number uint64) common.Hash {
	return crypto.Keccak256Hash(binary.BigEndian.AppendUint64(nil, number))
}

// finalize marks the head as safe and final: a chain with one sealer forks only
// by evm_revert. The mark on disk is taken back, because go-ethereum's freezer
// would otherwise move final blocks into append-only files every minute.
func (s *sealer) finalize(head *types.Header) {
	bc := s.eth.BlockChain()
	bc.SetFinalized(head)
	bc.SetSafe(head)
	rawdb.WriteFinalizedBlockHash(s.eth.ChainDb(), common.Hash{})
}

// rewind makes the block with the given number the head and empties the pool. The
// first block after it carries the hash of the head that was left, so that no block
// comes again that once was dropped: who read the old one in that moment leaves it in
// go-ethereum's caches, and a known block is not written, which would lose its receipts.
func (s *sealer) rewind(number uint64) error {
	if err := s.canWrite(); err != nil {
		return fmt.Errorf("%w: %w", ErrPaused, err)
	}
	bc := s.eth.BlockChain()
	head := bc.CurrentBlock()
	if number > head.Number.Uint64() {
		return fmt.Errorf("devchain: cannot rewind to block %d: the head is %s", number, head.Number)
	}
	if number < head.Number.Uint64() {
		s.branch = head.Hash().Bytes()
	}
	bc.SetFinalized(nil) // finality is ours to give, and go-ethereum would protest
	bc.SetSafe(nil)
	s.eth.TxPool().Clear()
	if err := bc.SetHead(number); err != nil {
		return fmt.Errorf("devchain: rewind: %w", err)
	}
	s.finalize(bc.CurrentBlock())
	s.next = 0
	if err := syncJournals(s.dbDir); err != nil {
		return err
	}
	// The pool learns of the new head on a goroutine of its own; until then it would
	// refuse a transaction whose nonce is free again.
	if err := s.eth.TxPool().Sync(); err != nil {
		return fmt.Errorf("devchain: pool: %w", err)
	}
	return nil
}

// Start implements node.Lifecycle: from here on transactions are sealed as they
// arrive.
func (s *sealer) Start() error {
	// Two goroutines, because the pool delivers its events while it holds the
	// loop that TxPool.Sync waits for: sealing in the receiver would deadlock.
	events, kick := make(chan core.NewTxsEvent, 256), make(chan struct{}, 1)
	sub := s.eth.TxPool().SubscribeTransactions(events, true)
	s.wg.Go(func() {
		defer sub.Unsubscribe()
		for {
			select {
			case <-s.quit:
				return
			case <-events:
				select {
				case kick <- struct{}{}:
				default:
				}
			}
		}
	})
	s.wg.Go(func() { s.automine(kick) })
	return nil
}

// Stop implements node.Lifecycle.
func (s *sealer) Stop() error {
	close(s.quit)
	s.wg.Wait()
	return nil
}

func (s *sealer) automine(kick <-chan struct{}) {
	var retry <-chan time.Time // set while transactions wait that could not be sealed
	for {
		select {
		case <-s.quit:
			return
		case <-s.dead.blown:
			return
		case <-kick:
		case <-retry:
		}
		retry = nil
		err := s.drain()
		if err == nil || errors.Is(err, ErrDead) {
			continue
		}
		if !errors.Is(err, ErrPaused) { // which whoever refuses knows
			s.log.Warn("devchain: no block was made", "err", err)
		}
		retry = time.After(retryPause)
	}
}

// drain seals until the pool has nothing that fits into a block.
func (s *sealer) drain() error {
	for {
		if block, err := s.seal(false); err != nil || block == nil {
			return err
		}
	}
}
