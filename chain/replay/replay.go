package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/triedb"

	"karatum/chain"
	"karatum/chain/fork"
)

// A Replayer replays transactions. It holds caches of code and its analysis,
// bounded, and is safe for concurrent use.
type Replayer struct {
	o      Options
	cache  *fork.Cache // nil = none
	recent *lru.Cache[readingKey, *reading]
	places *lru.Cache[placeKey, place]
	codes  *fork.Codes
	jumps  vm.JumpDestCache
	db     state.Database // empty; a StateDB wants one, and reads nothing from it
}

// New prepares a Replayer; the error is of the cache directory.
func New(o Options) (*Replayer, error) {
	r := &Replayer{
		o: o.withDefaults(), recent: lru.NewCache[readingKey, *reading](keptReadings), places: lru.NewCache[placeKey, place](keptPlaces),
		codes: fork.NewCodes(), jumps: core.NewJumpDestCache(),
	}
	if o.CacheDir != "" {
		cache, err := fork.OpenCache(o.CacheDir, r.o.CacheBytes)
		if err != nil {
			return nil, err
		}
		r.cache = cache
	}
	mem := rawdb.NewMemoryDatabase()
	r.db = state.NewMPTDatabase(triedb.NewDatabase(mem, triedb.HashDefaults), state.NewCodeDB(mem))
	return r, nil
}

const asTold = "as told by RPC"

// Replay executes a mined transaction again. Its error is a [Failure].
//
// A transaction whose block is in memory costs one trip: the question whether it
// still is in that block, since a reorganisation may have taken it out. Only if the
// block was final by the word of the same client, at an earlier replay of the same
// transaction, nobody is asked: then the result rests on the node's word at that time.
func (r *Replayer) Replay(ctx context.Context, job Job) (Result, error) {
	limited, cancel := context.WithTimeoutCause(ctx, r.o.Timeout, fmt.Errorf("%w: %s", ErrLimit, r.o.Timeout))
	defer cancel()
	res, err := r.replay(limited, job)
	if err == nil {
		return res, nil
	}
	if ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(limited), err)
	} else if ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return Result{}, failure(err)
}

func (r *Replayer) replay(ctx context.Context, job Job) (res Result, err error) {
	switch job.Prefix {
	case "":
		job.Prefix = Full
	case Full, None:
	default:
		return res, fmt.Errorf("%w: prefix %.20q", ErrUnsupported, string(job.Prefix))
	}
	c, err := r.locateAndRead(ctx, job)
	if err != nil {
		return res, err
	}
	senders := c.checkSenders(r)
	if err := c.run(ctx, r); err != nil {
		return res, err
	}
	if err := senders(); err != nil {
		return res, err
	}
	r.keep(c)
	return c.conclude(r)
}

// A current is a replay in progress.
type current struct {
	*reading
	job         Job
	told        chain.Receipt
	rawTold     json.RawMessage
	confirmed   []string
	notes       []string
	senders     string // why a sender is not proved
	tripsBefore int    // of the reading, by earlier replays

	rules    rules // whose outcome this is:
	out      outcome
	replayed chain.Receipt
	same     bool
	diffs    []string
}

// checkSenders recovers the senders while the state is on its way. What it returns
// waits for the outcome.
func (c *current) checkSenders(r *Replayer) (wait func() error) {
	s, chainID := c.scene(r), c.job.ChainID
	var unproved string
	done := make(chan error, 1)
	go func() {
		var err error
		unproved, err = s.block.CheckSenders(chainID, s.from, s.to, public(chainID))
		done <- err
	}()
	return func() error {
		err := <-done
		c.senders = unproved
		return err
	}
}

// run executes under the likeliest rules, and under the others as long as the
// receipt is not reproduced to the gas.
func (c *current) run(ctx context.Context, r *Replayer) (err error) {
	// go-ethereum takes blocks for validated ones and may panic on those that a
	// node made up; that must not end the process.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the block makes the EVM panic: %.200v", ErrUnsupported, p)
		}
	}()
	var best *current
	for _, rules := range candidates(c.job.ChainID, c.block) {
		attempt := *c
		attempt.rules = rules
		if err := attempt.runBy(ctx, r); err != nil {
			return err
		}
		exact := attempt.same && len(attempt.diffs) == 0
		if best == nil || exact {
			best = &attempt
		}
		if exact {
			break
		}
	}
	*c = *best
	if c.job.Trace == nil {
		return nil
	}
	return r.trace(ctx, c.scene(r), c.state, c.job.Trace)
}

func (c *current) scene(r *Replayer) scene {
	s := scene{rules: c.rules, block: c.block, ancestors: c.ancestors, codes: c.codes, to: int(c.told.Index), gas: r.o.MaxGas}
	if c.job.Prefix == None {
		s.from = s.to
	}
	return s
}

func (c *current) runBy(ctx context.Context, r *Replayer) error {
	if err := c.rules.checkHeader(c.block.Header.Header); err != nil {
		return err
	}
	s := c.scene(r)
	out, done, err := r.prefetch(ctx, s, c.state)
	if err == nil && !done {
		out, err = r.execute(ctx, s, c.state.Reader(ctx))
	}
	if err != nil {
		return err
	}
	if errors.Is(out.refusal, ErrUnsupported) {
		return out.refusal
	}
	c.out = out
	c.replayed = c.receipt(out)
	if out.refusal != nil {
		c.same, c.diffs = false, []string{fmt.Sprintf("cannot be executed on this state: %v", out.refusal)}
		return nil
	}
	c.same, c.diffs = compare(c.replayed, c.told)
	if told := c.told.CumulativeGasUsed; c.job.Prefix == Full && told != 0 && told-c.told.GasUsed != out.gasBefore {
		c.diffs = append(c.diffs, fmt.Sprintf("the earlier transactions used %d gas, on the chain %d", out.gasBefore, told-c.told.GasUsed))
	}
	return nil
}

// conclude gathers the result.
func (c *current) conclude(r *Replayer) (Result, error) {
	res := Result{
		Reproduced: c.same, ForkBlock: c.parent.Number.Uint64(), BlockHash: c.block.Hash, Prefix: c.job.Prefix,
		Differences: append([]string{}, c.diffs...), ConfirmedBy: append([]string{}, c.confirmed...), Notes: append([]string{}, c.notes...),
		ChainID: c.job.ChainID, Rules: c.rules.name, Trips: c.answers.Trips() - c.tripsBefore,
	}
	earlier := int(c.told.Index)
	if c.job.Prefix == Full {
		res.PrefixCount = earlier
	} else if earlier > 0 {
		res.Differences = append(res.Differences, fmt.Sprintf("%d earlier transactions of the block were left out", earlier))
	}
	c.judgeState(&res)
	res.Outcome = Outcome{Tx: c.tx(), Receipt: c.replayed, Told: c.told, Header: c.header()}
	if c.job.Evaluate != nil && c.out.refusal == nil {
		verdict, err := c.job.Evaluate(res.Outcome)
		if err != nil {
			return Result{}, fmt.Errorf("replay: evaluation: %w", err)
		}
		res.Verdict = verdict
	}
	if err := errors.Join(c.answers.Save(), r.cache.SaveReceipt(c.job.ChainID, c.job.Tx, c.rawTold)); err != nil {
		res.Notes = append(res.Notes, fmt.Sprintf("the answers could not be kept: %v", err))
	}
	return res, nil
}

// judgeState says how much of the result rests on the node's word.
func (c *current) judgeState(res *Result) {
	res.State = fmt.Sprintf("proved against block %s", c.block.Hash)
	for _, why := range []string{c.block.Unproved, c.block.TxsUnproved, c.senders, c.parent.Unproved, c.state.Unproved(), c.ancestors.Unproved()} {
		if why != "" {
			res.State = asTold
			res.Notes = append(res.Notes, why)
		}
	}
	if !c.same {
		res.Notes = append(res.Notes, fmt.Sprintf("executed by the rules of %s: a fork that is not known here would explain a difference", c.rules.name))
	}
	if len(res.ConfirmedBy) == 0 {
		res.Notes = append(res.Notes, "only the node read from vouches for the block: give its hash or a further source to confirm it")
	}
}
