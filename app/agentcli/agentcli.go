// Package agentcli holds the commands that need no node on the same machine:
// recording in any language, recording an MCP server's tool calls, opening
// recorded steps, and replaying a transaction.
package agentcli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"karatum/app"
	"karatum/app/cli"
	"karatum/flight"
	"karatum/flight/recorder"
	"karatum/flight/recorder/signer"
)

// Commands returns record, mcp-proxy, disclose, journal and replay.
func Commands() []cli.Command {
	return []cli.Command{
		{Name: "record", About: "record steps for a program in any language, over loopback HTTP or JSON lines", Setup: recordCommand,
			Examples: []string{"karatum record --journal ./journal --key agent.key --new-key --node http://127.0.0.1:8080",
				`echo '{"kind":"tool","name":"hello","args":{"n":1}}' | karatum record --stdin --journal ./journal --key agent.key`}},
		{Name: "mcp-proxy", Args: "[-- SERVER ARGS...]", MaxArgs: 1024, About: "stand before an MCP server and record its tool calls", Setup: proxyCommand,
			Examples: []string{"karatum mcp-proxy --journal ./journal --key agent.key -- my-mcp-server --verbose",
				"karatum mcp-proxy --journal ./journal --key agent.key --upstream https://mcp.example/mcp --listen 127.0.0.1:7071",
				"karatum mcp-proxy --journal ./journal --key agent.key --tx-path 'send_eth:hash=result/structuredContent/txHash,chain=8453' -- wallet-server"}},
		{Name: "disclose", About: "open chosen fields of one recorded step", Setup: discloseCommand,
			Examples: []string{"karatum disclose --journal ./journal --step main/104 --reveal claim --out step.json",
				"karatum disclose --journal ./journal --step main/104 --reveal claim,args --post --node http://127.0.0.1:8080"}},
		{Name: "journal", Args: "check|send JOURNAL", MaxArgs: 2, About: "check every line, batch and receipt of a journal (a directory, or an SDK's file), or deliver its batches again", Setup: journalCommand,
			Examples: []string{"karatum journal check ./journal", "karatum journal check ./trader.jsonl", "karatum journal send ./journal --node http://127.0.0.1:8080"}},
		{Name: "replay", About: "execute a mined transaction again, on proved state, and compare", Setup: replayCommand,
			Examples: []string{"karatum replay --rpc-url http://127.0.0.1:8545 --tx 0xHASH",
				"karatum replay --rpc-url https://rpc.example --rpc-url https://other.example --tx 0xHASH --claim claim.json --json",
				"karatum replay --rpc-url http://127.0.0.1:8545 --tx 0xHASH --prefix none --trace trace.jsonl"}},
	}
}

// recording are the settings that all recorders share.
type recording struct {
	journal, node, nodeAddress, stream, scheme, fsync string
	interval                                          time.Duration
	discard                                           bool
	signing
}

func (r *recording) flags(fs *pflag.FlagSet) {
	fs.StringVar(&r.journal, "journal", "", "directory of the journal; it stays on this machine")
	fs.StringVar(&r.node, "node", "", "URL of the node to deliver to; without one the steps wait in the journal")
	fs.StringVar(&r.nodeAddress, "node-address", "", "address whose key must sign the node's receipts; without it the journal keeps to the key that signed its first one")
	fs.StringVar(&r.stream, "stream", "main", "begin of the stream's name, drawn when the journal is created")
	fs.DurationVar(&r.interval, "interval", 120*time.Second, "how long a step waits for others before it is sent")
	fs.StringVar(&r.scheme, "scheme", string(flight.EIP712), "how batches are signed: eip712 or eip191")
	fs.StringVar(&r.fsync, "fsync", string(recorder.FsyncInterval), "when steps are flushed to disk: always, interval or never")
	fs.BoolVar(&r.discard, "commitments-only", false, "keep no values: nothing can be opened later")
	r.signing.flags(fs)
}

// open checks the settings, all mistakes at once, and opens the recorder.
func (r *recording) open(ctx context.Context, onError func(error)) (*recorder.Recorder, error) {
	var errs []error
	if r.journal == "" {
		errs = append(errs, errors.New("--journal is empty; name a directory"))
	}
	if s := flight.Scheme(r.scheme); s != flight.EIP712 && s != flight.EIP191 {
		errs = append(errs, fmt.Errorf("--scheme is %q; it must be eip712 or eip191", r.scheme))
	}
	if f := recorder.Fsync(r.fsync); !slices.Contains([]recorder.Fsync{recorder.FsyncAlways, recorder.FsyncInterval, recorder.FsyncNever}, f) {
		errs = append(errs, fmt.Errorf("--fsync is %q; it must be always, interval or never", r.fsync))
	}
	if r.interval < time.Second {
		errs = append(errs, fmt.Errorf("--interval is %v; the minimum is 1s", r.interval))
	}
	var node flight.Address
	if r.nodeAddress != "" {
		var err error
		if node, err = flight.ParseAddress(strings.ToLower(r.nodeAddress)); err != nil {
			errs = append(errs, fmt.Errorf("--node-address is %q; it must be an address, 0x and 40 hex digits", r.nodeAddress))
		}
	}
	s, err := r.signer()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, cli.Refuse(err)
	}
	// An answer to a client that is gone must fail, not end the process with what it
	// has still to record. Other than ignoring the signal, this is not inherited by a
	// server that is started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	rec, err := recorder.Open(ctx, recorder.Options{
		Journal: r.journal, Signer: s, NodeURL: r.node, NodeAddress: node, Stream: r.stream, Interval: r.interval, Scheme: flight.Scheme(r.scheme),
		Fsync: recorder.Fsync(r.fsync), RetainPlaintext: !r.discard, OnError: onError,
	})
	return rec, cli.Refuse(err)
}

// finish delivers what waits, for a while, and closes the journal.
func finish(rec *recorder.Recorder, onError func(error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := rec.Close(ctx)
	st := rec.Status()
	switch {
	case err == nil || errors.Is(err, recorder.ErrNoNode):
	case errors.Is(err, recorder.ErrJournal):
		onError(err)
	case st.Inflight || st.Waiting > 0:
		// Why, was said when the attempt failed; a node that does not answer at all is news.
		why := ""
		if errors.Is(err, context.DeadlineExceeded) {
			why = " (the node gave no answer in time)"
		}
		onError(fmt.Errorf("not everything was delivered%s; it waits in the journal and is sent when that is opened again: %d steps, a signed batch under way: %t", why, st.Waiting, st.Inflight))
	default:
		onError(err)
	}
	return nil
}

// reporter prints what goes wrong in the background.
func reporter(w io.Writer) func(error) {
	return func(err error) {
		fmt.Fprintln(w, "karatum:", err)
		if errors.Is(err, recorder.ErrNodeBehind) {
			fmt.Fprintln(w, "karatum: to deliver them again: karatum journal send JOURNAL --node URL")
		}
	}
}

// signing says where the agent's key is.
type signing struct {
	key, keystore, passFile, wallet, agent string
	draw                                   bool
}

func (s *signing) flags(fs *pflag.FlagSet) {
	fs.StringVar(&s.key, "key", "", "file with the agent's private key in hex, mode 0600")
	fs.BoolVar(&s.draw, "new-key", false, "draw the key of --key where the file does not exist")
	fs.StringVar(&s.keystore, "keystore", "", "encrypted Ethereum keystore file (v3) in place of --key")
	fs.StringVar(&s.passFile, "passphrase-file", "", "file with the keystore's passphrase; else KARATUM_PASSPHRASE in the environment")
	fs.StringVar(&s.wallet, "wallet-url", "", "JSON-RPC of a wallet that signs, in place of --key")
	fs.StringVar(&s.agent, "agent", "", "the wallet's address to sign with, for --wallet-url")
}

func (s *signing) signer() (recorder.Signer, error) {
	given := 0
	for _, f := range []string{s.key, s.keystore, s.wallet} {
		if f != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, errors.New("name one of --key, --keystore and --wallet-url: the agent signs with it")
	case s.keystore != "":
		return s.fromKeystore()
	case s.wallet != "":
		agent, err := flight.ParseAddress(strings.ToLower(s.agent))
		if err != nil {
			return nil, errors.New("--agent must be the address that the wallet signs with")
		}
		return signer.Remote(s.wallet, agent, nil)
	}
	return s.fromFile()
}

func (s *signing) fromKeystore() (recorder.Signer, error) {
	pass := os.Getenv("KARATUM_PASSPHRASE")
	if s.passFile != "" {
		b, err := os.ReadFile(s.passFile)
		if err != nil {
			return nil, fmt.Errorf("--passphrase-file: %w", err)
		}
		pass = strings.TrimRight(string(b), "\r\n")
	}
	return signer.Keystore(s.keystore, pass)
}

func (s *signing) fromFile() (recorder.Signer, error) {
	b, err := os.ReadFile(s.key)
	if errors.Is(err, fs.ErrNotExist) && s.draw {
		return s.newKey()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--key: %s does not exist; --new-key draws one", s.key)
	}
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	if info, err := os.Stat(s.key); err != nil || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("--key: %s can be read by others; run: chmod 600 %s", s.key, s.key)
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(b)), "0x"))
	if err != nil {
		return nil, fmt.Errorf("--key: %s does not hold a private key in hex", s.key)
	}
	k, err := flight.KeyFromBytes(raw)
	if err != nil {
		return nil, fmt.Errorf("--key: %s: %w", s.key, err)
	}
	return recorder.Local(k), nil
}

func (s *signing) newKey() (recorder.Signer, error) {
	k, err := flight.NewKey()
	if err != nil {
		return nil, err
	}
	return recorder.Local(k), app.WriteSecret(s.key, []byte(hex.EncodeToString(k.Bytes())+"\n"))
}
