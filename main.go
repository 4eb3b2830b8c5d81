// Command karatum is a Karatum network on a laptop: it takes in signed batches of
// agent step records, anchors them on an EVM chain through EAS, and compares
// opened steps with the chain.
//
// Only this file sees every package: flags become an app.Config, then the data
// directory is locked, keys, store and chains are opened, and the app and its web
// server run until a signal.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"karatum/app"
	"karatum/app/agentcli"
	"karatum/app/cli"
	"karatum/chain/devchain"
	"karatum/chain/replay"
	"karatum/flight"
	"karatum/store"
	"karatum/testvectors"
	"karatum/web"
	"karatum/web/sdk"
)

// schema is the whole database as it is today; store.Open applies it.
//
//go:embed schema.sql
var schema string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		if !errors.Is(err, cli.ErrReported) {
			fmt.Fprintln(os.Stderr, "karatum:", err)
		}
		os.Exit(cli.ExitCode(err)) // the only one: 1 failed check, 2 usage
	}
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return program().Run(ctx, args, cli.Call{Stdin: os.Stdin, Stdout: stdout, Stderr: stderr})
}

func program() *cli.Program {
	return &cli.Program{
		Name:  "karatum",
		About: "signed flight records of agents, anchored on a chain and compared with it",
		Commands: slices.Concat([]cli.Command{
			{Name: "demo", About: "play the whole story on a node of its own, then keep it up", Setup: demoCommand,
				Examples: []string{"karatum demo", "karatum demo --exit --json"}},
			{Name: "serve", About: "run a node", Setup: serveCommand,
				Examples: []string{"karatum serve", "karatum serve --data ./karatum-data --listen 127.0.0.1:8080",
					"karatum serve --network base-sepolia --rpc-url https://rpc.example", "KARATUM_LISTEN=127.0.0.1:9000 karatum serve --config karatum.conf"}},
			{Name: "conformance", Args: "[FILE]", MaxArgs: 1, About: "recompute every value of a vector file", Setup: conformanceCommand,
				Examples: []string{"karatum conformance", "karatum conformance testvectors/v1.json"}},
			{Name: "verify", Args: "FILE...", MaxArgs: 16, About: "check disclosures, proofs, anchors, receipts, evidence and exported records", Setup: verifyCommand,
				Examples: []string{"karatum verify bundle.json", "curl -s http://127.0.0.1:8080/v1/flight/batches/ID/proof | karatum verify step.json -",
					"karatum verify bundle.json --rpc-url http://127.0.0.1:8545 --attester 0xADDRESS",
					"curl -s http://127.0.0.1:8080/v1/flight/agents/0xADDRESS/export | karatum verify -"}},
			{Name: "keys", Args: "new|show", MaxArgs: 1, About: "draw the keys of a node before its first start, or name them", Setup: keysCommand,
				Examples: []string{"karatum keys new --data ./karatum-data", "karatum keys show"}},
			{Name: "backup", Args: "FILE", MaxArgs: 1, About: "copy the database, also while the node runs, and check the copy", Setup: backupCommand,
				Examples: []string{"karatum backup karatum-backup.db", "karatum backup today.db --data ./karatum-data"}},
			{Name: "restore", Args: "FILE", MaxArgs: 1, About: "check a backup and put it into a data directory without a database", Setup: restoreCommand,
				Examples: []string{"karatum restore karatum-backup.db --data ./karatum-data"}},
			{Name: "bench", Args: "ingest|pages|verify|record|replay", MaxArgs: 1, About: "measure against one bare signature recovery, or a replay", Setup: benchCommand,
				Examples: []string{"karatum bench verify", "karatum bench ingest --batches 20000 --json", "karatum bench ingest --seed 1000000",
					"karatum bench pages --batches 1000000 --steps 100000 --data ./bench-data",
					"karatum bench replay --rpc-url http://127.0.0.1:8545 --tx 0xHASH"}},
			{Name: "version", About: "print the version", Setup: versionCommand, Examples: []string{"karatum version"}},
		}, agentcli.Commands()),
	}
}

func demoCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	exit := fs.Bool("exit", false, "end after the story; without it the node stays up to be explored")
	asJSON := fs.Bool("json", false, "print one machine-readable result instead of the story")
	return func(ctx context.Context, c *cli.Call) error { return demo(ctx, c, *exit, *asJSON) }
}

func conformanceCommand(*pflag.FlagSet) func(context.Context, *cli.Call) error {
	return func(_ context.Context, c *cli.Call) error {
		vectors := testvectors.V1
		if len(c.Args) > 0 {
			var err error
			if vectors, err = os.ReadFile(c.Args[0]); err != nil {
				return cli.Refuse(err)
			}
		}
		_, failed, err := app.Conformance(vectors, c.Stdout)
		if err == nil && failed > 0 {
			err = cli.ErrReported
		}
		return err
	}
}

func verifyCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	rpcURLs := fs.StringArray("rpc-url", nil, "JSON-RPC of a chain to compare with, repeatable; without one nothing is asked of anybody. With one, the exit code is 1 where something that a chain decides stayed open")
	attester := fs.String("attester", "", "address that must have sent the attestation; without it an anchor's attester is unpinned and stays open, for anyone can attest")
	asJSON := fs.Bool("json", false, "print the report as JSON")
	return func(ctx context.Context, c *cli.Call) error {
		if len(c.Args) == 0 {
			return cli.Refusef("name a FILE to verify, or - for standard input")
		}
		opts, done, err := app.DialVerify(ctx, *rpcURLs, *attester)
		if err != nil {
			return cli.Refuse(err)
		}
		defer done()
		v, err := app.VerifyFiles(ctx, c.Args, c.Stdin, opts)
		if err != nil {
			return cli.Refuse(err)
		}
		if err := v.Print(c.Stdout, *asJSON); err != nil {
			return err
		}
		if !v.OK {
			return cli.ErrReported
		}
		return nil
	}
}

func keysCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	dir := fs.String("data", "./karatum-data", "data directory of the node")
	return func(_ context.Context, c *cli.Call) error {
		open := map[string]func(string) (*app.Keys, error){"new": app.NewKeys, "show": app.ShowKeys}
		if len(c.Args) != 1 || open[c.Args[0]] == nil {
			return cli.Refusef("say karatum keys new or karatum keys show")
		}
		keys, err := open[c.Args[0]](*dir)
		if err != nil {
			return cli.Refuse(err)
		}
		_, err = fmt.Fprintf(c.Stdout, "anchor   %s  pays for attestations; fund it on the network where you anchor\nreceipt  %s  signs receipts\n",
			keys.Anchor.Address(), keys.Receipt.Address())
		return err
	}
}

func backupCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	return copyCommand(fs, "data directory of the node", app.Backup)
}

func restoreCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	return copyCommand(fs, "data directory to fill; it must hold no database", app.Restore)
}

func copyCommand(fs *pflag.FlagSet, about string, run func(context.Context, app.BackupOptions) error) func(context.Context, *cli.Call) error {
	dir := fs.String("data", "./karatum-data", about)
	return func(ctx context.Context, c *cli.Call) error {
		if len(c.Args) != 1 {
			return cli.Refusef("name the FILE, such as karatum-backup.db")
		}
		err := run(ctx, app.BackupOptions{Dir: *dir, File: c.Args[0], Out: c.Stdout})
		if errors.Is(err, os.ErrExist) {
			return cli.Refusef("%w; nothing is overwritten, so name another", err)
		}
		return err
	}
}

func benchCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	asJSON := fs.Bool("json", false, "print the report as JSON")
	o := app.BenchIngestOptions{}
	pg := app.BenchPagesOptions{Schema: schema}
	batches := fs.Int("batches", 0, "ingest: batches of each run, 10000 where 0; pages: batches in the database, 20000 where 0")
	fs.IntVar(&pg.Steps, "steps", 2000, "pages: opened steps in the database")
	fs.IntVar(&pg.Requests, "requests", 200, "pages: requests of each page")
	fs.IntVar(&pg.Busy, "busy", 20, "pages: requests of each page while batches are taken in; negative for none")
	fs.StringVar(&pg.Data, "data", "", "pages: data directory to fill, kept for further runs; a temporary one where empty")
	fs.DurationVar(&pg.Idle, "idle", 0, "pages: watch the CPU of the idle node for so long")
	fs.IntVar(&o.Clients, "clients", 500, "ingest: connections at once")
	fs.IntVar(&o.Seed, "seed", 0, "ingest: measure also on a database that holds this many batches, such as 1000000")
	fs.StringVar(&o.Temp, "temp", "", "ingest, pages: directory for the databases; the system's temporary one where empty")
	re := app.BenchReplayOptions{}
	fs.StringArrayVar(&re.URLs, "rpc-url", nil, "replay: JSON-RPC to read the state from; repeatable, the others stand in while the first fails")
	fs.StringVar(&re.Tx, "tx", "", "replay: hash of the transaction")
	return func(ctx context.Context, c *cli.Call) error {
		var r interface{ Print(io.Writer) error }
		var err error
		o.Batches, pg.Batches, pg.Temp = *batches, *batches, o.Temp
		switch {
		case len(c.Args) == 1 && c.Args[0] == "pages":
			if pg.Binary, err = os.Executable(); err == nil {
				r, err = app.BenchPages(ctx, pg)
			}
		case len(c.Args) == 1 && c.Args[0] == "ingest":
			if o.Binary, err = os.Executable(); err == nil {
				o.Seeder = app.StoreSeeder(schema, time.Now)
				r, err = app.BenchIngest(ctx, o)
			}
		case len(c.Args) == 1 && c.Args[0] == "verify":
			r, err = app.BenchVerify(ctx)
		case len(c.Args) == 1 && c.Args[0] == "record":
			r, err = app.BenchRecord(ctx)
		case len(c.Args) == 1 && c.Args[0] == "replay":
			if r, err = app.BenchReplay(ctx, re); errors.Is(err, app.ErrBenchReplay) {
				err = cli.Refuse(err)
			}
		default:
			err = cli.Refusef("say karatum bench ingest, pages, verify, record or replay")
		}
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(c.Stdout).Encode(r)
		}
		return r.Print(c.Stdout)
	}
}

func versionCommand(*pflag.FlagSet) func(context.Context, *cli.Call) error {
	return func(_ context.Context, c *cli.Call) error {
		_, err := fmt.Fprintf(c.Stdout, "karatum %s, format %s\n", version(), flight.StepVersion)
		return err
	}
}

// version is the module's version, or the revision that was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version + " " + info.GoVersion
}

func serveCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	cfg := &app.Config{}
	cfg.Flags(fs)
	file := fs.String("config", os.Getenv("KARATUM_CONFIG"), "file of settings, a line each, such as: listen = 127.0.0.1:8080")
	return func(ctx context.Context, c *cli.Call) error {
		if err := errors.Join(cfg.Load(fs, os.Environ(), *file), cfg.Validate()); err != nil {
			return cli.Refuse(err)
		}
		if unknown := app.UnknownEnv(fs, os.Environ()); len(unknown) > 0 {
			app.NewLogger(c.Stderr, cfg.LogFormat).Warn("there is no such setting; ignored", "env", unknown)
		}
		n, err := start(ctx, *cfg, c.Stderr)
		if err != nil {
			return cli.Refuse(err)
		}
		if err := app.PrintScreen(c.Stdout, cfg, version(), n.url, n.chains.URL); err != nil {
			return errors.Join(err, n.stop())
		}
		return n.wait()
	}
}

// demo starts a node of its own in a temporary directory and plays the story.
func demo(ctx context.Context, c *cli.Call, exit, asJSON bool) (err error) {
	dir, err := os.MkdirTemp("", "karatum-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := app.DefaultConfig()
	cfg.Listen, cfg.ChainListen, cfg.Data = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(dir, "data")
	n, err := start(ctx, cfg, io.Discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	out := c.Stdout
	if asJSON {
		out = io.Discard
	}
	fmt.Fprintf(out, "Karatum: a node of your own is up at %s\nIts data is in %s and goes when this ends.\n", n.url, dir)
	res, err := app.Demo(ctx, app.DemoNode{URL: n.url, ChainURL: n.chains.URL, Token: n.token, Dir: dir}, out)
	if err == nil && asJSON {
		err = json.NewEncoder(c.Stdout).Encode(res)
	}
	if err == nil && !res.OK {
		err = cli.ErrReported
	}
	if err != nil || exit {
		return err
	}
	fmt.Fprintf(out, "\nThe node stays up: open %s in a browser. Ctrl-C ends it.\n", n.url)
	<-n.done
	return nil
}

// A node is what start started.
type node struct {
	url, token string
	chains     *app.Chains
	cancel     context.CancelFunc
	done       chan struct{}  // closed when the server has ended
	served     error          // how; set before done is closed
	closers    []func() error // called last to first, once
}

// start opens what a node works with, each part before those that need it, and
// serves it until ctx ends. Every error is a refusal to start and leaves nothing
// open.
func start(ctx context.Context, cfg app.Config, logTo io.Writer) (_ *node, err error) {
	log := app.NewLogger(logTo, cfg.LogFormat)
	n := &node{done: make(chan struct{})}
	ctx, n.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	fresh, err := app.OpenDir(cfg.Data)
	if err != nil {
		return nil, err
	}
	lock, err := store.LockDir(cfg.Data)
	if errors.Is(err, store.ErrLocked) {
		err = fmt.Errorf("%w; stop that process, or name another directory with --data", err)
	}
	if err != nil {
		return nil, err
	}
	n.closeLater(lock.Close)
	if lock.Warning != "" {
		log.Warn(lock.Warning)
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; stop what listens there, or name another address, such as --listen 127.0.0.1:0 for any free port", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	n.url = "http://" + ln.Addr().String() + cfg.BasePath
	n.closeLater(func() error { ln.Close(); return nil }) // the server may have closed it already
	if err := lock.Describe(n.url); err != nil {
		return nil, err
	}
	keys, err := app.LoadKeys(cfg.Data, fresh)
	if err != nil {
		return nil, err
	}
	if n.token, err = app.OperatorToken(cfg.Data); err != nil {
		return nil, err
	}
	st, err := store.Open(ctx, store.Options{Dir: cfg.Data, Schema: schema, Now: time.Now, Logger: log, MustExist: !fresh, Seal: app.Sealer(keys)})
	if err != nil {
		return nil, err
	}
	n.closeLater(st.Close)
	if n.chains, err = app.OpenChains(ctx, cfg, keys, log); err != nil {
		if errors.Is(err, devchain.ErrPortInUse) {
			err = fmt.Errorf("%w; stop what listens there, or name another address, such as --chain-listen 127.0.0.1:0 for any free port", err)
		}
		return nil, err
	}
	n.closeLater(n.chains.Close)
	// The app's own limit comes first, and names the setting.
	replayer, err := replay.New(replay.Options{
		CacheDir: filepath.Join(cfg.Data, app.ReplayCache), CacheBytes: app.ReplayCacheBytes, Timeout: cfg.ReplayTimeout + time.Minute,
	})
	if err != nil {
		return nil, err
	}
	a := app.New(cfg, app.Deps{
		Store: st, Keys: keys, Anchor: n.chains.Anchor, Chains: n.chains.ByID, Clients: n.chains.Clients, Replayer: replayer, Log: log, Now: time.Now, Version: version(),
		Checkpoint: app.KillPoint(os.Getenv),
	})
	return n, n.serve(ctx, cfg, a, ln, log)
}

// serve starts the crons and the web server.
func (n *node) serve(ctx context.Context, cfg app.Config, a *app.App, ln net.Listener, log *slog.Logger) error {
	proxies, err := cfg.Proxies()
	if err != nil {
		return err
	}
	srv, err := web.New(a, web.Config{
		BasePath: cfg.BasePath, IPRate: cfg.IPRate, IPBurst: cfg.IPBurst, TrustedProxies: proxies, Hosts: cfg.Host,
		SDK: sdk.Files, Vectors: testvectors.Files, Log: log,
	})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	n.closeLater(func() error { a.Wait(); return nil })
	go func() {
		defer close(n.done)
		n.served = srv.Serve(ctx, ln)
	}()
	return nil
}

// wait returns when the server has ended, by a signal or a fault, and every part
// is closed.
func (n *node) wait() error {
	<-n.done
	return errors.Join(n.served, n.close())
}

// stop ends a node that runs.
func (n *node) stop() error {
	n.cancel()
	return n.wait()
}

func (n *node) closeLater(f func() error) { n.closers = append(n.closers, f) }

func (n *node) close() error {
	n.cancel()
	var errs []error
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	n.closers = nil
	return errors.Join(errs...)
}
