package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/fork"
)

// A reading is a block and the state before it, as far as one node told them.
type reading struct {
	answers   *fork.Answers
	block     *fork.Block
	parent    fork.Header
	ancestors *fork.Ancestors
	state     *fork.State
	codes     map[common.Address][]byte // see [Seen.codeCalls]
}

// A readingKey says what a reading is of. The node is part of it: what it could
// not prove must not be passed off as another's word.
type readingKey struct {
	client  *chain.Client
	chainID uint64
	block   common.Hash
	proof   bool
}

func (j Job) key(block common.Hash) readingKey {
	return readingKey{j.Client, j.ChainID, block, j.RequireProof}
}

// Readings kept in memory: the newest few, and small ones only.
const (
	keptReadings = 8
	keptEntries  = 20_000
	keptCode     = 4 << 20
)

// keep holds on to a reading that ended well, so that other transactions of the
// block, and other prefixes, need not read it again.
func (r *Replayer) keep(c *current) {
	if entries, code := c.state.Size(); entries <= keptEntries && code <= keptCode {
		r.recent.Add(c.job.key(c.block.Hash), c.reading)
	}
}

// locateAndRead finds the transaction's block and asks everybody about it.
func (r *Replayer) locateAndRead(ctx context.Context, job Job) (*current, error) {
	c := &current{job: job}
	early := r.readEarly(ctx, job)
	defer early.drop()
	if err := r.locate(ctx, c); err != nil {
		return nil, err
	}
	job = c.job
	if job.BlockHash != (common.Hash{}) {
		if c.told.BlockHash != job.BlockHash {
			return nil, fmt.Errorf("%w: %s, given %s", ErrOtherBlock, c.told.BlockHash, job.BlockHash)
		}
		c.confirmed = append(c.confirmed, "the block hash given")
	}
	asked := make(chan error, 1)
	go func() { asked <- c.ask(ctx) }()
	var err error
	if c.reading = early.of(c.told.BlockHash); c.reading == nil {
		c.reading, c.tripsBefore, err = r.read(ctx, job, seen(c.told))
	}
	if err := errors.Join(<-asked, err); err != nil {
		return nil, err
	}
	i := c.told.Index
	if i >= uint64(len(c.block.Txs)) || c.block.Txs[i].Hash != job.Tx {
		return nil, fmt.Errorf("%w: transaction %d of block %s is not %s", fork.ErrContradiction, i, c.told.BlockHash, job.Tx)
	}
	return c, nil
}

// read reads the block, unless it was read a moment ago; then it also says how
// many trips that took.
func (r *Replayer) read(ctx context.Context, job Job, at Seen) (*reading, int, error) {
	if known, ok := r.recent.Get(job.key(at.BlockHash)); ok {
		return known, known.answers.Trips(), nil
	}
	a := r.cache.Block(job.ChainID, at.BlockHash, job.Client)
	codes := at.codeCalls()
	block, parent, err := fork.ReadBlock(ctx, a, at.BlockHash, at.BlockNumber, public(job.ChainID), codes...)
	if err != nil {
		return nil, 0, err
	}
	o := fork.Options{Limits: r.o.State, RequireProof: job.RequireProof, Codes: r.codes}
	return &reading{a, block, parent, fork.NewAncestors(a, block, parent), fork.NewState(a, parent, o), codesOf(codes, r.codes)}, 0, nil
}

// ask has the further sources compare the block with theirs.
func (c *current) ask(ctx context.Context) error {
	errs := make([]error, len(c.job.Sources))
	heads := make([]chain.Header, len(c.job.Sources))
	var wg sync.WaitGroup
	for i, s := range c.job.Sources {
		wg.Go(func() { heads[i], errs[i] = s.Client.HeaderByNumber(ctx, c.told.BlockNumber) })
	}
	wg.Wait()
	var by []string
	for i, s := range c.job.Sources {
		switch {
		case errs[i] != nil:
			c.notes = append(c.notes, fmt.Sprintf("%s could not confirm the block: %v", s.Name, errs[i]))
		case heads[i].Hash != c.told.BlockHash:
			return fmt.Errorf("%w: %s has %s at height %d, the node read from has %s", ErrDisputed, s.Name, heads[i].Hash, c.told.BlockNumber, c.told.BlockHash)
		default:
			by = append(by, s.Name)
		}
	}
	if c.job.OwnSources && len(by) > 0 {
		by = by[1:]
	}
	c.confirmed = append(c.confirmed, by...)
	return nil
}
