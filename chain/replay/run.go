package replay

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
)

// A Request is a replay by somebody who has nothing but URLs: no node of ours, no
// data directory, no database.
type Request struct {
	// URLs are nodes of one chain. What one cannot serve the next one does, and
	// all are asked for the block, so that more than one makes a confirmation.
	URLs         []string
	ChainID      uint64 // what the nodes must serve; 0 = what they serve
	Tx           common.Hash
	BlockHash    common.Hash // zero = whichever; see [Job.BlockHash]
	Prefix       Prefix      // "" is Full
	RequireProof bool
	Evaluate     func(Outcome) (any, error) // may be nil
	Trace        io.Writer                  // may be nil
	Options      Options                    // of [New]
	// CallTimeout is the limit of one call. Defaults to 20s: state can be slow.
	CallTimeout time.Duration
}

// Run dials, replays and hangs up. Its error is a [Failure], except for what is
// wrong with the request itself.
func Run(ctx context.Context, q Request) (Result, error) {
	r, err := New(q.Options)
	if err != nil {
		return Result{}, err
	}
	if q.CallTimeout <= 0 {
		q.CallTimeout = 20 * time.Second
	}
	c, err := chain.DialAll(ctx, q.URLs, chain.Options{Timeout: q.CallTimeout, MaxResponseBytes: 64 << 20, ChainID: q.ChainID})
	if err != nil {
		return Result{}, failure(err)
	}
	defer c.Close()
	job := Job{
		Client: c, ChainID: q.ChainID, Tx: q.Tx, Prefix: q.Prefix, BlockHash: q.BlockHash,
		RequireProof: q.RequireProof, Evaluate: q.Evaluate, Trace: q.Trace,
	}
	if nodes := c.Nodes(); len(nodes) > 1 {
		job.Sources, job.OwnSources = named(q.URLs, nodes), true
	}
	return r.Replay(ctx, job)
}

// named gives each node its host as its name, numbered where hosts are the same.
func named(urls []string, nodes []*chain.Client) (out []Source) {
	var names []string
	for _, url := range urls {
		names = append(names, chain.RedactURL(url))
	}
	for i, n := range nodes {
		name := names[i]
		if slices.Index(names, name) != i || slices.Contains(names[i+1:], name) {
			name = fmt.Sprintf("%s (%d)", name, i+1)
		}
		out = append(out, Source{name, n})
	}
	return out
}
