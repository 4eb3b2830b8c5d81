package devchain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/rpc"
)

// Errors of [Open], and of calls that would seal.
var (
	// ErrLocked reports a directory that another process has open.
	ErrLocked = errors.New("devchain: directory is in use by another process")

	// ErrPortInUse reports a listen address that somebody else holds.
	ErrPortInUse = errors.New("devchain: listen address is in use")

	// ErrNotLoopback reports a listen address that other machines could reach,
	// without [Options.AllowRemote].
	ErrNotLoopback = errors.New("devchain: listen address is not loopback")

	// ErrForeign reports a directory that holds a chain with another genesis:
	// one of another program, or of an incompatible version of this one.
	ErrForeign = errors.New("devchain: directory holds another chain")

	// ErrCorrupt reports a database that cannot be read.
	ErrCorrupt = errors.New("devchain: database is damaged")

	// ErrPaused reports that nothing was sealed because CanWrite refused; its
	// error is in the chain. Trying again later is right.
	ErrPaused = errors.New("devchain: sealing is paused")

	// ErrDead reports that a database write failed, so that blocks in memory and
	// on disk may differ. The directory is intact up to the last visible block;
	// reads may hang, and only a restart of the process helps.
	ErrDead = errors.New("devchain: chain stopped after a failed write")
)

// Options say where a chain lives and whom it serves.
type Options struct {
	// Dir holds the database; it is made if missing. It must be set.
	Dir string

	// Listen is the host:port of JSON-RPC over HTTP and WebSocket; port 0 takes
	// any free one. Empty opens no port. The host must be loopback unless
	// AllowRemote is set; the evm namespace is served on loopback only.
	Listen      string
	AllowRemote bool

	// Logger gets go-ethereum's warnings, as debug, and errors, as warnings.
	// go-ethereum has one logger for the whole process, so the chain opened last
	// gets them. Nil discards them.
	Logger *slog.Logger

	// Clock gives the time of new blocks in Unix seconds. It must be set.
	Clock func() uint64

	// CanWrite is asked before each block; an error stops sealing until it is
	// nil again. It should refuse while free disk space still suffices for what
	// the database writes on its own, say 64 MiB. Nil allows always.
	CanWrite func() error
}

// A Chain is a running dev chain.
type Chain struct {
	node     *node.Node
	eth      *eth.Ethereum
	sealer   *sealer
	client   *rpc.Client
	accounts []Account
	serving  bool
	dead     *fuse
	close    func() error // idempotent
}

// Open starts the chain in o.Dir, at its last block or at genesis. ctx limits
// the start only. Close must be called.
func Open(ctx context.Context, o Options) (*Chain, error) {
	if o.Clock == nil || o.Dir == "" {
		return nil, errors.New("devchain: Options.Dir and Options.Clock must be set")
	}
	if o.CanWrite == nil {
		o.CanWrite = func() error { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	host, port, err := splitListen(o)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("devchain: open: %w", context.Cause(ctx))
	}
	dead := newFuse()
	type result struct {
		c   *Chain
		err error
	}
	done := make(chan result, 1)
	go func() { // of its own, because a failed write during the start parks it
		c, err := open(o, host, port, dead)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.c, r.err
	case <-dead.blown:
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, dead.err())
	case <-ctx.Done():
		go func() {
			if r := <-done; r.c != nil {
				r.c.Close()
			}
		}()
		return nil, fmt.Errorf("devchain: open: %w", context.Cause(ctx))
	}
}

func open(o Options, host string, port int, dead *fuse) (*Chain, error) {
	accounts, err := WellKnownAccounts()
	if err != nil {
		return nil, err
	}
	g, err := genesis(accounts)
	if err != nil {
		return nil, err
	}
	nc, err := nodeConfig(o, host, port)
	if err != nil {
		return nil, err
	}
	nc.Logger = captureLog(o.Logger, dead)
	n, err := node.New(nc)
	if errors.Is(err, node.ErrDatadirUsed) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, o.Dir)
	} else if err != nil {
		return nil, fmt.Errorf("devchain: %s: %w", o.Dir, err)
	}
	c := &Chain{node: n, accounts: accounts, serving: host != "", dead: dead}
	if err := c.start(o, g); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	c.client = n.Attach()
	c.close = sync.OnceValue(c.shutdown)
	return c, nil
}

func (c *Chain) start(o Options, g *core.Genesis) (err error) {
	dir := c.node.ResolvePath("chaindata")
	if err := prepareDB(dir); err != nil {
		return err
	}
	var mismatch *core.GenesisMismatchError
	c.eth, err = eth.New(c.node, ethConfig(g))
	switch {
	case errors.As(err, &mismatch):
		return fmt.Errorf("%w: %s has genesis %s, expected %s", ErrForeign, o.Dir, mismatch.Stored, mismatch.New)
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, o.Dir, err)
	}
	c.eth.SetSynced() // otherwise the pool waits for peers
	c.sealer = newSealer(c.eth, o, c.dead, dir)
	fs := filters.NewFilterSystem(c.eth.APIBackend, filters.Config{LogCacheSize: 32})
	w := newWallet(c.accounts)
	c.node.RegisterAPIs([]rpc.API{
		{Namespace: "eth", Service: &sendAPI{eth: c.eth, sealer: c.sealer, wallet: w, client: c.Client}}, // after eth.New's, whose calls it replaces
		{Namespace: "eth", Service: filters.NewFilterAPI(fs)},
		{Namespace: "evm", Service: &evmAPI{c.sealer}},
	})
	c.node.AccountManager().AddBackend(w)
	c.node.RegisterLifecycle(c.sealer)
	if err := c.node.Start(); errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %s", ErrPortInUse, o.Listen)
	} else if err != nil {
		return fmt.Errorf("devchain: start: %w", err)
	}
	return markInitialized(dir)
}

// URL is the address of JSON-RPC over HTTP; the same with ws:// is WebSocket.
// It is "" when no port is open.
func (c *Chain) URL() string {
	if !c.serving {
		return ""
	}
	return c.node.HTTPEndpoint()
}

// Client calls the chain in process. It belongs to the chain: Close closes it.
func (c *Chain) Client() *rpc.Client { return c.client }

// Accounts are the ten funded accounts, in derivation order.
func (c *Chain) Accounts() []Account { return c.accounts }

// USDC is the address of the TestUSDC contract, which anyone can mint from with
// faucet(address,uint256).
func (c *Chain) USDC() common.Address { return USDCAddress }

// Mine seals a block now, with what the pool has, possibly nothing.
func (c *Chain) Mine() error {
	_, err := c.sealer.seal(true)
	return err
}

// Err is nil while the chain can work, and wraps [ErrDead] afterwards.
func (c *Chain) Err() error { return c.dead.err() }

// Close stops the chain and releases the directory. Blocks need no closing to
// be durable; transactions still in the pool are lost.
func (c *Chain) Close() error { return c.close() }

func (c *Chain) shutdown() error {
	c.client.Close()
	if err := c.dead.err(); err != nil {
		return err // a parked goroutine holds locks that stopping would wait for
	}
	done := make(chan error, 1)
	go func() { done <- c.node.Close() }()
	select {
	case err := <-done:
		return err
	case <-c.dead.blown: // the last writes failed
		return c.dead.err()
	}
}

func splitListen(o Options) (host string, port int, err error) {
	if o.Listen == "" {
		return "", 0, nil
	}
	host, service, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("devchain: listen address: %w", err)
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("devchain: listen address %q: port must be 0 to 65535", o.Listen)
	}
	if !o.AllowRemote && !isLoopback(host) {
		return "", 0, fmt.Errorf("%w: %s", ErrNotLoopback, o.Listen)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return host, port, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
