package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/triedb"

	"karatum/chain"
	"karatum/chain/fork"
)

// A Prefix is what runs before the transaction.
type Prefix string

const (
	Full Prefix = "full" // the block's earlier transactions
	None Prefix = "none" // nothing: the transaction on the parent block's state
)

// Options of [New]. Zero values take the defaults.
type Options struct {
	// CacheDir keeps the node's answers, so that a block replayed before needs no
	// network. Empty keeps nothing.
	CacheDir string
	// CacheBytes is the most that CacheDir takes. Defaults to 1 GiB.
	CacheBytes int64
	// MaxGas is the most gas of one replay, prefix included. Defaults to 1e9.
	MaxGas uint64
	// Timeout is the most time of one replay. Defaults to 2 minutes.
	Timeout time.Duration
	// TraceBytes is the longest trace. Defaults to 1 GiB.
	TraceBytes int64
	// State bounds the state that one replay reads.
	State fork.Limits
}

func (o Options) withDefaults() Options {
	if o.CacheBytes <= 0 {
		o.CacheBytes = 1 << 30
	}
	if o.MaxGas == 0 {
		o.MaxGas = 1e9
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.TraceBytes <= 0 {
		o.TraceBytes = 1 << 30
	}
	return o
}

// A Replayer replays transactions. It holds caches of code and its analysis,
// bounded, and is safe for concurrent use.
type Replayer struct {
	o      Options
	cache  *fork.Cache // nil = none
	recent *lru.Cache[readingKey, *reading]
	codes  *fork.Codes
	jumps  vm.JumpDestCache
	db     state.Database // empty; a StateDB wants one, and reads nothing from it
}

// New prepares a Replayer; the error is of the cache directory.
func New(o Options) (*Replayer, error) {
	r := &Replayer{o: o.withDefaults(), recent: lru.NewCache[readingKey, *reading](keptReadings), codes: fork.NewCodes(), jumps: core.NewJumpDestCache()}
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

// A Source is a further node, to ask whether a block is on the chain.
type Source struct {
	Name   string // fit for output: no credentials
	Client *chain.Client
}

// A Job is one transaction to replay.
type Job struct {
	Client  *chain.Client
	ChainID uint64 // 0 asks the node
	Tx      common.Hash
	Prefix  Prefix // "" is Full

	// BlockHash, unless zero, is the block that the transaction must be in; who
	// knows it from elsewhere need not trust the node about the block.
	BlockHash common.Hash
	// Sources are asked for the block too. One that has another is [ErrDisputed].
	Sources []Source
	// OwnSources says that Sources are the nodes of Client itself. Any of them may
	// be the one read from, so that the first to confirm counts for nothing.
	OwnSources bool
	// RequireProof makes a node that cannot prove its state an error.
	RequireProof bool
	// Evaluate judges the replayed receipt; what it returns is Result.Verdict.
	Evaluate func(Outcome) (any, error)
	// Trace takes the transaction's trace in the form of EIP-3155, one JSON object
	// a line: the instructions, and at the end of each frame its output.
	Trace io.Writer
}

// An Outcome is what the replay found, for evaluation.
type Outcome struct {
	Tx      chain.Tx
	Receipt chain.Receipt // as replayed
	Told    chain.Receipt // as the chain has it
	Header  chain.Header
}

// A Result is the outcome of a replay (spec section 9). Its JSON is a documented
// form: members may be added, never change their meaning.
type Result struct {
	Reproduced bool        `json:"reproduced"` // status and logs are the chain's
	Verdict    any         `json:"verdict"`    // of Job.Evaluate, else null
	ForkBlock  uint64      `json:"forkBlock"`  // the state is that after this block
	BlockHash  common.Hash `json:"blockHash"`  // of the transaction's block
	Prefix     Prefix      `json:"prefix"`
	// PrefixCount is how many earlier transactions of the block were executed.
	PrefixCount int `json:"prefixCount"`
	// Differences are those from the chain's receipt, and what was left out.
	Differences []string `json:"differences"`
	// State is "proved against block H", or "as told by RPC" if anything that the
	// result rests on could not be proved; then Notes say what.
	State string `json:"state"`
	// ConfirmedBy names who has block H besides the node that was read from. If
	// nobody has, a node that made up the whole block would not be found out.
	ConfirmedBy []string `json:"confirmedBy"`
	Notes       []string `json:"notes"`
	ChainID     uint64   `json:"chainId"`
	Rules       string   `json:"rules"` // the fork or network whose rules were applied
	Trips       int      `json:"trips"` // batches about the block that went to the node

	Outcome Outcome `json:"-"`
}

const asTold = "as told by RPC"

// Replay executes a mined transaction again. Its error is a [Failure].
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
	// go-ethereum takes blocks for validated ones and may panic on those that a
	// node made up; that must not end the process.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the block makes the EVM panic: %.200v", ErrUnsupported, p)
		}
	}()
	switch job.Prefix {
	case "":
		job.Prefix = Full
	case Full, None:
	default:
		return res, fmt.Errorf("%w: prefix %.20q", ErrUnsupported, string(job.Prefix))
	}
	if job.ChainID == 0 {
		if job.ChainID, err = job.Client.ChainID(ctx); err != nil {
			return res, err
		}
	}
	c, err := r.locateAndRead(ctx, job)
	if err != nil {
		return res, err
	}
	if err := c.run(ctx, r); err != nil {
		return res, err
	}
	r.keep(c)
	return c.conclude(r)
}

// A reading is a block and the state before it, as far as one node told them.
type reading struct {
	answers   *fork.Answers
	block     *fork.Block
	parent    fork.Header
	ancestors *fork.Ancestors
	state     *fork.State
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

// locateAndRead finds the transaction's block and asks everybody about it.
func (r *Replayer) locateAndRead(ctx context.Context, job Job) (*current, error) {
	c := &current{job: job}
	if err := r.locate(ctx, c); err != nil {
		return nil, err
	}
	if job.BlockHash != (common.Hash{}) {
		if c.told.BlockHash != job.BlockHash {
			return nil, fmt.Errorf("%w: %s, given %s", ErrOtherBlock, c.told.BlockHash, job.BlockHash)
		}
		c.confirmed = append(c.confirmed, "the block hash given")
	}
	asked := make(chan error, 1)
	go func() { asked <- c.ask(ctx) }()
	var err error
	c.reading, c.tripsBefore, err = r.read(ctx, job, c.told)
	if err := errors.Join(<-asked, err); err != nil {
		return nil, err
	}
	i := c.told.Index
	if i >= uint64(len(c.block.Txs)) || c.block.Txs[i].Hash != job.Tx {
		return nil, fmt.Errorf("%w: transaction %d of block %s is not %s", fork.ErrContradiction, i, c.told.BlockHash, job.Tx)
	}
	s := c.scene(r)
	c.senders, err = c.block.CheckSenders(job.ChainID, s.from, s.to, public(job.ChainID))
	return c, err
}

// read reads the block, unless it was read a moment ago; then it also says how
// many trips that took.
func (r *Replayer) read(ctx context.Context, job Job, told chain.Receipt) (*reading, int, error) {
	if known, ok := r.recent.Get(job.key(told.BlockHash)); ok {
		return known, known.answers.Trips(), nil
	}
	a := r.cache.Block(job.ChainID, told.BlockHash, job.Client)
	block, parent, err := fork.ReadBlock(ctx, a, told.BlockHash, told.BlockNumber, public(job.ChainID))
	if err != nil {
		return nil, 0, err
	}
	o := fork.Options{Limits: r.o.State, RequireProof: job.RequireProof, Codes: r.codes}
	return &reading{a, block, parent, fork.NewAncestors(a, block, parent), fork.NewState(a, parent, o)}, 0, nil
}

// locate reads the receipt. If the node does not answer, one that was read
// before serves, and the result says so.
func (r *Replayer) locate(ctx context.Context, c *current) error {
	raw, err := c.job.Client.Raw(ctx, "eth_getTransactionReceipt", c.job.Tx)
	if errors.Is(err, chain.ErrUnavailable) || errors.Is(err, chain.ErrTimeout) {
		if known, ok := r.cache.Receipt(c.job.ChainID, c.job.Tx); ok {
			raw, err = known, nil
			c.notes = append(c.notes, "the node does not answer: receipt and block are as it had them before, and may have left the chain since")
		}
	}
	if errors.Is(err, chain.ErrNotFound) {
		return fmt.Errorf("%w: %s: %w", ErrNotMined, c.job.Tx, err)
	}
	if err != nil {
		return err
	}
	c.rawTold = raw
	c.told, err = chain.ParseReceipt(raw, c.job.Tx)
	return err
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

// run executes under the likeliest rules, and under the others as long as the
// receipt is not reproduced to the gas.
func (c *current) run(ctx context.Context, r *Replayer) error {
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
	s := scene{rules: c.rules, block: c.block, ancestors: c.ancestors, to: int(c.told.Index), gas: r.o.MaxGas}
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
	if err := r.prefetch(ctx, s, c.state); err != nil {
		return err
	}
	out, err := r.execute(ctx, s, c.state.Reader(ctx))
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
