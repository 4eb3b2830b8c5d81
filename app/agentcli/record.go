package agentcli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"karatum/app/cli"
	"karatum/flight/recorder/mcpproxy"
	"karatum/flight/recorder/sidecar"
)

func recordCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	var r recording
	r.flags(fs)
	listen := fs.String("listen", "127.0.0.1:7070", "loopback address of POST /steps; empty for none, port 0 takes any")
	token := fs.String("token-file", "", "file with the HTTP token; JOURNAL/sidecar.token where empty")
	lines := fs.Bool("stdin", false, "read steps as JSON lines from standard input and answer each with a line, without HTTP unless --listen is given")
	return func(ctx context.Context, c *cli.Call) error {
		report := reporter(c.Stderr)
		rec, err := r.open(ctx, report)
		if err != nil {
			return err
		}
		cfg := sidecar.Config{Recorder: rec, Listen: *listen, TokenFile: *token}
		if *lines {
			cfg.Lines, cfg.Answers = c.Stdin, c.Stdout
			if !fs.Changed("listen") {
				cfg.Listen = ""
			}
		}
		if cfg.TokenFile == "" {
			cfg.TokenFile = filepath.Join(r.journal, "sidecar.token")
		}
		cfg.Ready = func(addr string) {
			fmt.Fprintf(c.Stderr, "recording for %s as stream %s\nPOST http://%s/steps with the token in %s\n",
				rec.Agent(), rec.Status().Stream, addr, cfg.TokenFile)
		}
		err = sidecar.Run(ctx, cfg)
		if errors.Is(err, sidecar.ErrNotLoopback) {
			err = cli.Refuse(err)
		}
		return errors.Join(err, finish(rec, report))
	}
}

func proxyCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	var r recording
	r.flags(fs)
	upstream := fs.String("upstream", "", "URL of a streamable HTTP server, in place of a command")
	listen := fs.String("listen", "127.0.0.1:7071", "loopback address for the client, with --upstream")
	rules := fs.StringArray("tx-path", nil, "where a tool's result shows its transaction, as TOOL:hash=PATH,chain=ID[,claim=KIND,to=PATH,amount=PATH,token=PATH]; repeatable")
	return func(ctx context.Context, c *cli.Call) error {
		report := reporter(c.Stderr)
		cfg := mcpproxy.Config{OnError: report, Command: c.Args, Upstream: *upstream}
		var errs []error
		for _, text := range *rules {
			rule, err := mcpproxy.ParseTxRule(text)
			errs = append(errs, err)
			cfg.TxRules = append(cfg.TxRules, rule)
		}
		if (len(c.Args) > 0) == (*upstream != "") {
			errs = append(errs, errors.New("name either a server after -- or --upstream URL"))
		}
		if err := errors.Join(errs...); err != nil {
			return cli.Refuse(err)
		}
		rec, err := r.open(ctx, report)
		if err != nil {
			return err
		}
		cfg.Recorder = rec
		if *upstream != "" {
			cfg.Listen = *listen
			cfg.Ready = func(addr string) { fmt.Fprintf(c.Stderr, "MCP clients connect to http://%s\n", addr) }
		} else {
			cfg.Stdin, cfg.Stdout, cfg.Stderr = c.Stdin, c.Stdout, c.Stderr
		}
		return errors.Join(mcpproxy.Run(ctx, cfg), finish(rec, report))
	}
}
