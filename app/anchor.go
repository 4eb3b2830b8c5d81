package app

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/anchor"
	"karatum/chain/eas"
	"karatum/flight"
	"karatum/store"
)

// An Anchorer is the network on which epochs are anchored and a client of it.
type Anchorer struct {
	Network eas.Network
	Client  *chain.Client
}

// Limits of anchoring (spec section 7).
const (
	gasWindow   = 24 * time.Hour
	receiptWait = 20 * time.Second
	stuckAfter  = 3 * time.Minute // before a transaction is replaced
	settleDepth = 256             // final on a node without a finalized tag
)

// maxFeeGwei bounds what is paid for a unit of gas: the node's suggestion is not
// trusted.
const maxFeeGwei = 200

func maxFee() *big.Int { return big.NewInt(maxFeeGwei * 1_000_000_000) }

// errGasSpent reports that --anchor-gas-per-day is used up. The epoch waits.
var errGasSpent = errors.New("the gas of --anchor-gas-per-day is used up; anchoring goes on as the day passes")

// keySigner lets a flight key sign transactions.
type keySigner struct{ k *flight.Key }

func (s keySigner) Address() common.Address { return common.Address(s.k.Address()) }

func (s keySigner) SignHash(h [32]byte) ([]byte, error) {
	sig := s.k.Sign(h)
	sig[64] -= 27
	return sig[:], nil
}

// AnchorNow anchors epochs until no batch waits (spec section 7), one run at a
// time. The order of its durable steps is what makes a crash harmless: the epoch
// row first, then the signed transaction with its nonce, only then the
// broadcast. Whatever was sent is sent again as the same bytes, which the chain
// takes at most once.
func (a *App) AnchorNow(ctx context.Context) (AnchorRun, error) {
	a.anchoring.Lock()
	defer a.anchoring.Unlock()
	var run AnchorRun
	if waiting, err := a.anchorDue(ctx); err != nil || !waiting {
		return run, err
	}
	if err := anchor.CheckNetwork(ctx, a.anchor.Client, a.anchor.Network); err != nil {
		return run, err
	}
	_, err := anchor.EnsureSchema(ctx, a.anchor.Client, a.anchor.Network, keySigner{a.keys.Anchor}, maxFee(), a.poll())
	if err != nil {
		return run, fmt.Errorf("register the schema: %w", a.funds(err))
	}
	if err := a.settleOpen(ctx, true); err != nil {
		return run, err
	}
	for {
		e, err := a.nextEpoch(ctx)
		if errors.Is(err, store.ErrNotFound) {
			return run, nil
		}
		if err != nil {
			return run, outward(err)
		}
		a.checkpoint("epoch row written")
		run.Epochs++
		run.Batches += int(e.Count())
		if err := a.advance(ctx, e); err != nil {
			return run, err
		}
	}
}

// AnchorForOperator is [App.AnchorNow], but an error that is no *Error becomes
// NOT_READY with its words: the operator has to know what stands in the way, as the
// node's page tells it of the cron's runs.
func (a *App) AnchorForOperator(ctx context.Context) (AnchorRun, error) {
	run, err := a.AnchorNow(ctx)
	if known := (*Error)(nil); err == nil || ctx.Err() != nil || errors.As(err, &known) {
		return run, err
	}
	a.log.Warn("anchoring at the operator's request", "err", err)
	return run, &Error{Code: "NOT_READY", Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second,
		Message: fmt.Sprintf("not all that waits is anchored, %d epochs were: %v", run.Epochs, err)}
}

// anchorDue reports whether a batch waits for its epoch or an epoch for its end.
func (a *App) anchorDue(ctx context.Context) (due bool, err error) {
	err = a.store.View(ctx, func(tx *store.ReadTx) error {
		waiting, err := tx.Pending(ctx, 1)
		if err != nil {
			return err
		}
		open, err := tx.OpenEpochs(ctx)
		due = len(waiting)+len(open) > 0
		return err
	})
	return due, outward(err)
}

// nextEpoch writes the row of the next epoch: up to flight.MaxEpoch waiting
// batches in storage order. It returns store.ErrNotFound when none waits.
func (a *App) nextEpoch(ctx context.Context) (*store.Epoch, error) {
	var batches []store.Batch
	err := a.store.View(ctx, func(tx *store.ReadTx) error {
		var err error
		batches, err = tx.Pending(ctx, flight.MaxEpoch)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(batches) == 0 {
		return nil, store.ErrNotFound
	}
	ids := make([]flight.Hash, len(batches))
	for i := range batches {
		ids[i] = batches[i].ID
	}
	root, err := flight.EpochRoot(ids)
	if err != nil {
		return nil, err
	}
	var e *store.Epoch
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		e, err = tx.InsertEpoch(ctx, root, batches[0].Position, batches[len(batches)-1].Position, a.anchor.Network.ChainID)
		return err
	})
	return e, err
}

// settle is the cron that follows sent epochs to their end between two runs of
// anchor.
func (a *App) settle(ctx context.Context) (string, error) {
	if !a.anchoring.TryLock() {
		return "", nil // an anchoring run does the same
	}
	defer a.anchoring.Unlock()
	return "", a.settleOpen(ctx, false)
}

// settleOpen takes every epoch that is not final as far as it goes. A failed one
// costs gas to try again, which is left to the runs of anchor.
func (a *App) settleOpen(ctx context.Context, retryFailed bool) error {
	var open []store.Epoch
	err := a.store.View(ctx, func(tx *store.ReadTx) error {
		var err error
		open, err = tx.OpenEpochs(ctx)
		return err
	})
	if err != nil {
		return outward(err)
	}
	for i := range open {
		if open[i].State == store.EpochFailed && !retryFailed {
			continue
		}
		if err := a.advance(ctx, &open[i]); err != nil {
			return fmt.Errorf("epoch %d: %w", open[i].ID, err)
		}
	}
	return nil
}

// advance takes one epoch as far as it goes now: looks for its transaction on
// the chain, and sends where there is none.
func (a *App) advance(ctx context.Context, e *store.Epoch) error {
	txs, err := a.epochTxs(ctx, e.ID)
	if err != nil {
		return err
	}
	found, err := a.find(ctx, e, txs)
	switch {
	case err == nil:
		return a.settled(ctx, e, found)
	case !errors.Is(err, chain.ErrNotFound) && !errors.Is(err, anchor.ErrReverted):
		return err
	case errors.Is(err, anchor.ErrReverted):
		// Reverted transactions have used up their nonce: a new one is needed, in
		// the next run, within the gas of the day.
		if e.State != store.EpochFailed {
			return a.mark(ctx, e, store.EpochFailed, err.Error())
		}
		txs = nil
	case e.State == store.EpochIncluded || e.State == store.EpochSafe:
		if err := a.mark(ctx, e, store.EpochOrphaned, "its block left the chain"); err != nil {
			return err
		}
	}
	if err := a.send(ctx, e, txs); err != nil {
		return a.funds(err)
	}
	return a.await(ctx, e)
}

func (a *App) epochTxs(ctx context.Context, id uint64) (txs []store.EpochTx, err error) {
	err = a.store.View(ctx, func(tx *store.ReadTx) error {
		txs, err = tx.EpochTxs(ctx, id)
		return err
	})
	return txs, outward(err)
}

// find looks for the one transaction of the epoch that was mined, newest first,
// since a replacement and its original share a nonce. The error wraps
// chain.ErrNotFound where none is mined, anchor.ErrReverted where one reverted.
func (a *App) find(ctx context.Context, e *store.Epoch, txs []store.EpochTx) (anchor.Anchor, error) {
	var reverted error
	for i := len(txs) - 1; i >= 0; i-- {
		at, err := anchor.Find(ctx, a.anchor.Client, a.anchor.Network, common.Hash(txs[i].Hash), e.Root, uint32(e.Count()))
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, anchor.ErrReverted):
			reverted = err
		case errors.Is(err, chain.ErrNotFound), errors.Is(err, anchor.ErrPending):
		default:
			return anchor.Anchor{}, err
		}
	}
	if reverted != nil {
		return anchor.Anchor{}, reverted
	}
	return anchor.Anchor{}, chain.ErrNotFound
}

// settled records where the anchor stands: in which block, and how settled the
// block is. A block that is off the canonical chain is never called final
// because the height advanced.
func (a *App) settled(ctx context.Context, e *store.Epoch, at anchor.Anchor) error {
	a.checkpoint("receipt seen")
	state, depth, err := anchor.BlockState(ctx, a.anchor.Client, at.BlockNumber, at.BlockHash)
	if err != nil {
		return err
	}
	next := store.EpochState(state)
	if next == store.EpochIncluded && depth >= settleDepth {
		next = store.EpochFinal
	} else if next == store.EpochIncluded && depth >= max(a.cfg.Depth(), 1) && a.anchor.Network.Public {
		next = store.EpochSafe
	}
	moved := e.BlockHash == nil || *e.BlockHash != flight.Hash(at.BlockHash)
	if next == e.State && !moved {
		return nil
	}
	h, err := a.anchor.Client.HeaderByHash(ctx, at.BlockHash)
	if err != nil {
		return err
	}
	spot := store.EpochAnchor{
		TxHash: flight.Hash(at.TxHash), BlockNumber: at.BlockNumber, BlockHash: flight.Hash(at.BlockHash), BlockTime: h.Time,
		EAS: flight.Address(a.anchor.Network.EAS), SchemaUID: flight.Hash(eas.EpochSchemaUID()),
		AttestationUID: flight.Hash(at.AttestationUID), Attester: flight.Address(at.Attester), GasUsed: at.GasUsed,
	}
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		return tx.SettleEpoch(ctx, e.ID, e.State, next, spot)
	})
	if err == nil {
		a.metrics.epochs.WithLabelValues(string(next)).Inc()
		a.log.InfoContext(ctx, "epoch on chain", "epoch", e.ID, "state", next, "batches", e.Count(), "block", at.BlockNumber)
		e.State = next
		a.events.Publish(Event{Kind: EventEpoch, At: a.nowMs(), Epoch: e.ID, Batches: e.Count(), BlockNum: at.BlockNumber, State: string(next)})
	}
	return outward(err)
}

func (a *App) mark(ctx context.Context, e *store.Epoch, next store.EpochState, note string) error {
	err := a.store.Update(ctx, func(tx *store.Tx) error { return tx.SetEpochState(ctx, e.ID, e.State, next, note) })
	if err == nil {
		a.metrics.epochs.WithLabelValues(string(next)).Inc()
		e.State = next
		a.events.Publish(Event{Kind: EventEpoch, At: a.nowMs(), Epoch: e.ID, Batches: e.Count(), State: string(next), Reason: note})
	}
	return outward(err)
}
