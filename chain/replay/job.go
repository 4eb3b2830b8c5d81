package replay

import (
	"io"
	"time"

	"github.com/ethereum/go-ethereum/common"

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

// A Source is a further node, to ask whether a block is on the chain.
type Source struct {
	Name   string // fit for output: no credentials
	Client *chain.Client
}

// A Seen is the block that a transaction was in when somebody looked.
type Seen struct {
	BlockHash   common.Hash
	BlockNumber uint64
	// Runs are contracts that the transaction surely runs, as far as they are known.
	Runs []common.Address
}

// A Job is one transaction to replay.
type Job struct {
	Client  *chain.Client
	ChainID uint64 // 0 asks the node
	Tx      common.Hash
	Prefix  Prefix // "" is Full

	// Seen saves a trip: the block is read while the node is asked whether the
	// transaction still is in it, and dropped if it is not. It needs ChainID; nil
	// asks first.
	Seen *Seen
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
