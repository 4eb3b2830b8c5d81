package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"karatum/chain"
	"karatum/chain/anchor"
	"karatum/chain/devchain"
	"karatum/chain/eas"
)

// Chains are the chains of a node: the one on which it anchors, and all that it
// asks for verdicts.
type Chains struct {
	Anchor Anchorer
	ByID   map[uint64]Chain // holds the anchoring one too
	// Clients are those of ByID, for replays.
	Clients map[uint64]*chain.Client
	URL     string // of the dev chain's JSON-RPC, empty on other networks
	closes  []func() error
}

// Close ends all connections, and the dev chain.
func (c *Chains) Close() error {
	var errs []error
	for i := len(c.closes) - 1; i >= 0; i-- {
		errs = append(errs, c.closes[i]())
	}
	return errors.Join(errs...)
}

// chainWrites is the free disk space below which the dev chain seals no block: its
// database writes on its own.
const chainWrites = 64 << 20

var errChainDisk = errors.New("the disk is nearly full; the dev chain seals no block until 64 MiB are free")

// OpenChains starts the dev chain or connects to the network of the settings, and
// to the further chains. Each RPC is asked for its chain id: an RPC of another
// chain than the settings say is an error that wraps [chain.ErrWrongChain] or
// [eas.ErrChainID], for verdicts and anchors would be about the wrong chain. One
// that cannot be reached now is asked before its first use.
func OpenChains(ctx context.Context, cfg Config, k *Keys, log *slog.Logger) (*Chains, error) {
	net, err := eas.NetworkByName(cfg.Network)
	if err != nil {
		return nil, err
	}
	c := &Chains{Anchor: Anchorer{Network: net}, ByID: map[uint64]Chain{}, Clients: map[uint64]*chain.Client{}}
	if net.Public {
		err = c.connect(ctx, cfg, k, log)
	} else {
		err = c.startDev(ctx, cfg, k, log)
	}
	if err == nil {
		err = c.further(ctx, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Chains) add(id uint64, client *chain.Client) {
	c.ByID[id], c.Clients[id] = client, client
}

func (c *Chains) startDev(ctx context.Context, cfg Config, k *Keys, log *slog.Logger) error {
	canWrite := func() error {
		if free := diskFree(cfg.Data); free > 0 && free < chainWrites {
			return errChainDisk
		}
		return nil
	}
	dev, err := devchain.Open(ctx, devchain.Options{
		Dir: filepath.Join(cfg.Data, ChainDir), Listen: cfg.ChainListen, Logger: log,
		Clock: func() uint64 { return uint64(time.Now().Unix()) }, CanWrite: canWrite,
	})
	if errors.Is(err, devchain.ErrPortInUse) {
		return fmt.Errorf("--chain-listen %s: %w", cfg.ChainListen, devchain.ErrPortInUse)
	}
	if err != nil {
		return err
	}
	c.closes = append(c.closes, dev.Close)
	client := chain.NewInProc(dev.Client(), chain.Options{})
	c.Anchor.Client, c.URL = client, dev.URL()
	c.add(devchain.ChainID, client)
	if err := FundAnchor(ctx, client, k); err != nil {
		return cmp.Or(canWrite(), err) // on a full disk a transaction is not mined, which says nothing to the operator
	}
	return nil
}

// hedgeAfter is when a second RPC of a chain is asked for what the first has not
// answered: late enough that a node of ordinary speed is asked alone.
const hedgeAfter = 2 * time.Second

func (c *Chains) connect(ctx context.Context, cfg Config, k *Keys, log *slog.Logger) error {
	if err := CheckPublicKey(k); err != nil {
		return err
	}
	client, err := chain.DialAll(ctx, cfg.RPCURL, chain.Options{ChainID: c.Anchor.Network.ChainID, MayBeAway: true, HedgeAfter: hedgeAfter})
	if err != nil {
		return fmt.Errorf("--rpc-url %s: %w", redactAll(cfg.RPCURL), err)
	}
	c.closes = append(c.closes, func() error { client.Close(); return nil })
	c.Anchor.Client = client
	c.add(c.Anchor.Network.ChainID, client)
	err = anchor.CheckNetwork(ctx, client, c.Anchor.Network)
	if err != nil && chain.Away(err) {
		// A laptop without a network takes batches in all the same. Each anchoring
		// run looks again before it sends anything.
		log.Warn("the anchoring network cannot be reached; anchoring and verdicts wait", "rpc", redactAll(cfg.RPCURL), "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("--rpc-url %s: %w", redactAll(cfg.RPCURL), err)
	}
	return nil
}

// further connects to the chains of --chain-rpc.
func (c *Chains) further(ctx context.Context, cfg Config) error {
	urls, err := cfg.Chains()
	if err != nil {
		return err
	}
	for id, nodes := range urls {
		if _, taken := c.ByID[id]; taken {
			return fmt.Errorf("--chain-rpc %d: that is the anchoring network, which has its RPC already", id)
		}
		client, err := chain.DialAll(ctx, nodes, chain.Options{ChainID: id, MayBeAway: true, HedgeAfter: hedgeAfter})
		if err != nil {
			return fmt.Errorf("--chain-rpc %d=%s: %w", id, redactAll(nodes), err)
		}
		c.closes = append(c.closes, func() error { client.Close(); return nil })
		c.add(id, client)
	}
	return nil
}

// redactAll names nodes without what their URLs may hold of credentials.
func redactAll(urls []string) string {
	names := make([]string, len(urls))
	for i, u := range urls {
		names[i] = chain.RedactURL(u)
	}
	return strings.Join(names, ", ")
}
