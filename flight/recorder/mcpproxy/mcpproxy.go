// Package mcpproxy stands between an MCP client and an MCP server and records
// every tools/call as a step, args and result committed.
//
// It is transparent: what one side sends reaches the other byte for byte, whether
// the proxy understands it or not, and is forwarded before it is looked at, so that
// recording adds nothing to the way of a message. A call that fails, is cancelled
// or is never answered becomes a step with status error.
//
// Trust: the proxy sees everything that client and server say, credentials of an
// HTTP upstream included; it keeps arguments and results in the journal only.
package mcpproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"karatum/flight/recorder"
)

// Config configures [Run]. Recorder is required, and either Command with Stdin and
// Stdout or Upstream with Listen.
type Config struct {
	Recorder *recorder.Recorder // stays open
	TxRules  []TxRule           // the first that finds a transaction applies
	OnError  func(error)        // hears of rules that do not fit; may be nil

	Command []string // the server and its arguments, spoken to over stdio
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer // of the server; nil discards it

	Upstream string            // URL of a streamable HTTP server
	Listen   string            // loopback address for the client; port 0 takes any
	Ready    func(addr string) // called once requests are taken; may be nil
}

const (
	queueLength = 4096     // messages between the pumps and the tracker
	maxMessage  = 64 << 20 // a longer one passes unrecorded
	exitGrace   = 5 * time.Second
)

// Run proxies until the client closes its side, the server ends or ctx ends, and
// returns once everything seen is recorded. The server's own exit status is part
// of the error.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Recorder == nil || (len(cfg.Command) == 0) == (cfg.Upstream == "") {
		return errors.New("mcpproxy: Config needs Recorder and one of Command and Upstream")
	}
	for i := range cfg.TxRules {
		if err := cfg.TxRules[i].check(); err != nil {
			return fmt.Errorf("mcpproxy: tx rule %d: %w", i, err)
		}
	}
	t := &tracker{rec: cfg.Recorder, rules: cfg.TxRules, report: cfg.OnError, pending: map[callKey]*call{}}
	if t.report == nil {
		t.report = func(error) {}
	}
	events := make(chan event, queueLength)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.run(events)
	}()
	var err error
	if cfg.Upstream != "" {
		err = runHTTP(ctx, &cfg, events)
	} else {
		err = runStdio(ctx, &cfg, events)
	}
	close(events)
	<-done
	return err
}

// runStdio starts the server and pumps both ways.
func runStdio(ctx context.Context, cfg *Config, events chan<- event) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, cfg.Command[0], cfg.Command[1:]...)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = exitGrace
	cmd.Stderr = cfg.Stderr
	toServer, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	fromServerPipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("mcpproxy: start the server: %w", err)
	}
	// The client's side may never end by itself: a read from standard input cannot
	// be interrupted. So nobody waits for this pump, and it goes silent after the
	// server has ended.
	gate := &gate{out: events}
	go func() {
		_ = pump(toServer, cfg.Stdin, gate.sink(fromClient)) // a broken pipe is the server's end, seen below
		toServer.Close()
		time.AfterFunc(exitGrace, cancel) // for a server that does not leave when its input ends
	}()
	// Processes that the server leaves behind may hold its output open for ever.
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(2*exitGrace, func() { fromServerPipe.Close() }) })
	defer stop()
	err = pump(cfg.Stdout, fromServerPipe, gate.sink(fromServer))
	if err != nil {
		cancel() // the client is gone
	}
	wait := cmd.Wait()
	gate.close()
	if clientGone(err) {
		return nil // with answers on the way, as after a call that it cancelled
	}
	if ctx.Err() != nil {
		return err // we ended it
	}
	if wait != nil {
		wait = fmt.Errorf("mcpproxy: the server: %w", wait)
	}
	return errors.Join(err, wait)
}

// clientGone tells whether the client has closed the pipe that it read from.
func clientGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// A gate passes events on until it is closed.
type gate struct {
	mu     sync.Mutex // held while an event is passed on
	closed bool
	out    chan<- event
}

func (g *gate) sink(kind eventKind) func([]byte) {
	return func(line []byte) { g.pass(event{kind: kind, body: line, at: time.Now()}) }
}

func (g *gate) pass(e event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.out <- e
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// pump copies from one side to the other, whatever the bytes. A line is handed to
// seen before its last byte goes on, so that a request is seen before its answer.
// It returns nil at the end of the input.
func pump(to io.Writer, from io.Reader, seen func(line []byte)) error {
	buf := make([]byte, 64<<10)
	var line []byte
	for {
		n, err := from.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			part, after, whole := bytes.Cut(rest, []byte{'\n'})
			if len(line) <= maxMessage {
				line = append(line, part...)
			}
			if whole {
				if len(line) <= maxMessage {
					seen(line)
				}
				line = nil
			}
			rest = after
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return fmt.Errorf("mcpproxy: %w", werr)
			}
		}
		if errors.Is(err, io.EOF) {
			if len(line) > 0 && len(line) <= maxMessage {
				seen(line)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("mcpproxy: %w", err)
		}
	}
}
