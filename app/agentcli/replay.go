package agentcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/pflag"

	"karatum/app"
	"karatum/app/cli"
	"karatum/chain"
	"karatum/chain/replay"
	"karatum/flight"
)

// replaying are the flags of replay.
type replaying struct {
	urls                                        []string
	tx, claim, prefix, trace, blockHash, caches string
	asJSON                                      bool
}

func replayCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	var r replaying
	fs.StringArrayVar(&r.urls, "rpc-url", nil, "JSON-RPC to read the state from; a second one confirms the block")
	fs.StringVar(&r.tx, "tx", "", "hash of the transaction")
	fs.StringVar(&r.claim, "claim", "", "file with a claim to judge on the replayed receipt, - for standard input")
	fs.StringVar(&r.prefix, "prefix", string(replay.Full), "what runs before it: full, the block's earlier transactions, or none")
	fs.StringVar(&r.blockHash, "block-hash", "", "block that the transaction must be in, known from elsewhere")
	fs.StringVar(&r.trace, "trace", "", "file for the trace in the form of EIP-3155")
	fs.StringVar(&r.caches, "cache", "", "directory that keeps the node's answers, so that a second replay needs no network")
	fs.BoolVar(&r.asJSON, "json", false, "print the result as JSON")
	return func(ctx context.Context, c *cli.Call) error { return r.run(ctx, c) }
}

// hurry lets garbage lie: nearly every replay is over before a collection pays, and
// the limit holds for the others. What it returns undoes it.
func hurry() (undo func()) {
	percent, limit := debug.SetGCPercent(800), debug.SetMemoryLimit(512<<20)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

func (r *replaying) run(ctx context.Context, c *cli.Call) error {
	defer hurry()()
	job, err := r.job(c)
	if err != nil {
		return cli.Refuse(err)
	}
	for i, url := range r.urls {
		client, err := chain.Dial(ctx, url, chain.Options{})
		if err != nil {
			return cli.Refuse(fmt.Errorf("--rpc-url %s: %w", chain.RedactURL(url), err))
		}
		defer client.Close()
		if i == 0 {
			job.Client = client
		} else {
			job.Sources = append(job.Sources, replay.Source{Name: chain.RedactURL(url), Client: client})
		}
	}
	if r.trace != "" {
		f, err := os.OpenFile(r.trace, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return cli.Refuse(fmt.Errorf("--trace: %w", err))
		}
		defer f.Close() // the replay reports what could not be written
		job.Trace = f
	}
	re, err := replay.New(replay.Options{CacheDir: r.caches})
	if err != nil {
		return cli.Refuse(fmt.Errorf("--cache: %w", err))
	}
	res, err := re.Replay(ctx, job)
	if err != nil {
		return err
	}
	return r.print(c.Stdout, res)
}

// job reads the flags, all mistakes at once.
func (r *replaying) job(c *cli.Call) (replay.Job, error) {
	var errs []error
	j := replay.Job{Prefix: replay.Prefix(r.prefix)}
	tx, err := flight.ParseHash(strings.ToLower(r.tx))
	if err != nil {
		errs = append(errs, errors.New("--tx must be the hash of a transaction"))
	}
	j.Tx = common.Hash(tx)
	if r.blockHash != "" {
		h, err := flight.ParseHash(strings.ToLower(r.blockHash))
		if err != nil {
			errs = append(errs, errors.New("--block-hash must be the hash of a block"))
		}
		j.BlockHash = common.Hash(h)
	}
	if len(r.urls) == 0 {
		errs = append(errs, errors.New("--rpc-url is needed: the state is read from it"))
	}
	if j.Prefix != replay.Full && j.Prefix != replay.None {
		errs = append(errs, fmt.Errorf("--prefix is %q; it must be full or none", r.prefix))
	}
	if r.claim != "" {
		doc, err := readClaim(r.claim, c.Stdin)
		if err == nil {
			j.Evaluate, err = app.ReplayJudge(doc)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--claim: %w", err))
		}
	}
	return j, errors.Join(errs...)
}

func readClaim(file string, stdin io.Reader) ([]byte, error) {
	const most = 1 << 20
	if file == "-" {
		return io.ReadAll(io.LimitReader(stdin, most))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// print writes the result. A transaction that was not reproduced, or a claim that
// the replay contradicts, is a failed check.
func (r *replaying) print(w io.Writer, res replay.Result) error {
	verdict, _ := res.Verdict.(flight.Verdict)
	if r.asJSON {
		if err := json.NewEncoder(w).Encode(res); err != nil {
			return err
		}
	} else if _, err := io.WriteString(w, replayText(res, verdict)); err != nil {
		return err
	}
	if !res.Reproduced || verdict.State == flight.Contradicted {
		return cli.ErrReported
	}
	return nil
}

func replayText(res replay.Result, v flight.Verdict) string {
	var b strings.Builder
	outcome := "reproduced: status and logs are the chain's"
	if !res.Reproduced {
		outcome = "NOT reproduced"
	}
	fmt.Fprintf(&b, "%s\nblock     %s\nstate     of block %d, %s\nbefore it %d transactions (%s)\n",
		outcome, res.BlockHash, res.ForkBlock, res.State, res.PrefixCount, res.Prefix)
	if len(res.ConfirmedBy) > 0 {
		fmt.Fprintf(&b, "confirmed by %s\n", strings.Join(res.ConfirmedBy, ", "))
	}
	for _, d := range append(res.Differences, res.Notes...) {
		fmt.Fprintln(&b, "-", d)
	}
	if v.State != "" {
		fmt.Fprintf(&b, "claim     %s%s\n", v.State, reason(v))
	}
	return b.String()
}
