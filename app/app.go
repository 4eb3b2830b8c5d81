// Package app holds the use cases of a node: taking batches in, checking
// disclosures, anchoring epochs, comparing claims with the chain, and what the
// pages show. It joins flight, store and chain; web renders it, main wires it.
//
// Trust. The database is trusted: whoever edits its file can hide batches from
// readers, though not forge them, and receipts and anchors catch the hiding. The
// RPC node of a network is not trusted with more than verdicts: it can at most
// delay them or answer wrongly, which a second reader with another RPC sees.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"karatum/chain"
	"karatum/chain/replay"
	"karatum/flight"
	"karatum/flight/merkle"
	"karatum/store"
)

// Deps are what an App works with. Every field is needed.
type Deps struct {
	Store  *store.Store
	Keys   *Keys
	Anchor Anchorer         // the anchoring network
	Chains map[uint64]Chain // for verdicts, by chain id; holds the anchoring network too
	// Clients and Replayer serve replays: the chains that can be read from, and
	// what executes.
	Clients  map[uint64]*chain.Client
	Replayer *replay.Replayer

	Log     *slog.Logger
	Now     func() time.Time
	Version string
	// Checkpoint, where set, is called after each durable step of anchoring and of
	// replays with the step's name. Tests stop the process there.
	Checkpoint func(step string)
}

// An App is a running node without its servers. Its methods may be called
// concurrently.
type App struct {
	cfg      Config
	store    *store.Store
	keys     *Keys
	anchor   Anchorer
	chains   map[uint64]Chain
	log      *slog.Logger
	now      func() time.Time
	version  string
	started  time.Time
	interval time.Duration // between two anchor runs, for receipts

	clients  map[uint64]*chain.Client
	replayer *replay.Replayer
	replays  chan struct{} // holds one where the queue may have work
	running  runningReplay

	locks   *store.KeyLocks // one writer per (agent, stream)
	metrics *metrics
	events  *Events
	onStep  func(step string) // Deps.Checkpoint, or nil
	crons   *crons

	sights    map[uint64]*sight // never changed after New
	rest      rests
	today     dayCount
	lastHour  hourCount
	pulse     atomic.Pointer[PulseView] // nil before the first
	bigBodies chan struct{}             // a place for each big disclosure being parsed
	lookups   *rate.Limiter             // of verdicts that somebody waits for
	anchoring sync.Mutex                // one anchoring run at a time, whoever asks
}

// New returns an App on validated settings. It starts nothing.
func New(cfg Config, d Deps) *App {
	a := &App{
		cfg: cfg, store: d.Store, keys: d.Keys, anchor: d.Anchor, chains: d.Chains, log: d.Log, now: d.Now, version: d.Version,
		started: d.Now(), interval: cfg.anchorInterval(d.Now()), locks: store.NewKeyLocks(), metrics: newMetrics(d.Store), events: NewEvents(d.Now()),
		onStep: d.Checkpoint, crons: newCrons(), sights: make(map[uint64]*sight, len(d.Chains)),
		clients: d.Clients, replayer: d.Replayer, replays: make(chan struct{}, 1),
		bigBodies: make(chan struct{}, bigDisclosures), lookups: rate.NewLimiter(lookupsPerSecond, lookupsBurst),
	}
	for id := range d.Chains {
		a.sights[id] = &sight{}
	}
	return a
}

// CheckOperator reports whether token is the operator's, in constant time.
func (a *App) CheckOperator(token string) bool { return a.keys.CheckOperator(token) }

// Sealer returns the hook by which the store has the receipts of a commit group
// signed: one signature a group (spec section 4).
func Sealer(keys *Keys) func([]*flight.Receipt) error {
	k := keys.Receipt
	return func(rs []*flight.Receipt) error {
		if len(rs) == 1 {
			rs[0].Node, rs[0].Signature = k.Address(), k.SignText(rs[0].Text())
			return nil
		}
		items := make([]flight.Hash, len(rs))
		for i, r := range rs {
			items[i] = r.Item()
		}
		root, proofs, err := merkle.Proofs(items)
		if err != nil {
			return fmt.Errorf("seal %d receipts: %w", len(rs), err)
		}
		sig := k.SignText(flight.GroupText(root, uint64(len(rs))))
		for i, r := range rs {
			r.Node, r.Signature = k.Address(), sig
			r.Group = &flight.ReceiptGroup{Root: root, Size: uint64(len(rs)), Proof: proofs[i]}
		}
		return nil
	}
}

func (a *App) checkpoint(step string) {
	if a.onStep != nil {
		a.onStep(step)
	}
}

func (a *App) nowMs() uint64 { return uint64(a.now().UnixMilli()) }

// fault logs what must not be shown outside and counts it.
func (a *App) fault(ctx context.Context, what string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	a.log.ErrorContext(ctx, what, "err", err)
	return err
}
