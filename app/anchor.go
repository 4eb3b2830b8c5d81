package app

import (
	"context"
	"errors"
	"fmt"
	"math/big"
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

// send broadcasts the epoch's newest transaction again, as the same bytes, or
// signs and stores a first one.
func (a *App) send(ctx context.Context, e *store.Epoch, txs []store.EpochTx) error {
	if len(txs) == 0 {
		return a.sendFirst(ctx, e)
	}
	last := txs[len(txs)-1]
	if last.SentAt != 0 && a.nowMs()-last.SentAt > uint64(stuckAfter.Milliseconds()) {
		return a.replace(ctx, e, last)
	}
	return a.broadcast(ctx, e, last)
}

func (a *App) sendFirst(ctx context.Context, e *store.Epoch) error {
	fees, err := a.anchor.Client.SuggestFees(ctx)
	if err != nil {
		return err
	}
	if err := fees.Limit(maxFee()); err != nil {
		return err
	}
	nonce, err := a.nextNonce(ctx)
	if err != nil {
		return err
	}
	t, err := anchor.BuildAttest(ctx, a.anchor.Client, a.anchor.Network, keySigner{a.keys.Anchor}, nonce, fees, e.Root, uint32(e.Count()))
	if err != nil {
		return err
	}
	if err := a.affordable(ctx, t.Gas); err != nil {
		return err
	}
	return a.keepAndSend(ctx, e, t)
}

// nextNonce is the first nonce that neither the chain nor an open epoch uses.
func (a *App) nextNonce(ctx context.Context) (uint64, error) {
	sender := a.keys.Anchor.Address()
	nonce, err := a.anchor.Client.NonceAt(ctx, common.Address(sender), chain.Pending)
	if err != nil {
		return 0, err
	}
	err = a.store.View(ctx, func(tx *store.ReadTx) error {
		used, ok, err := tx.HighestOpenNonce(ctx, a.anchor.Network.ChainID, sender)
		if ok {
			nonce = max(nonce, used+1)
		}
		return err
	})
	return nonce, outward(err)
}

// affordable refuses to spend more than --anchor-gas-per-day.
func (a *App) affordable(ctx context.Context, gas uint64) error {
	err := a.store.View(ctx, func(tx *store.ReadTx) error {
		used, err := tx.GasSince(ctx, a.nowMs()-uint64(gasWindow.Milliseconds()))
		if err == nil && used+gas > a.cfg.AnchorGasPerDay {
			return errGasSpent
		}
		return err
	})
	return outward(err)
}

// keepAndSend stores the signed bytes before the network sees them.
func (a *App) keepAndSend(ctx context.Context, e *store.Epoch, t anchor.Tx) error {
	row := store.EpochTx{
		EpochID: e.ID, ChainID: a.anchor.Network.ChainID, Sender: a.keys.Anchor.Address(),
		Nonce: t.Nonce, Hash: flight.Hash(t.Hash), Raw: t.Raw, GasLimit: t.Gas,
	}
	if err := a.store.Update(ctx, func(tx *store.Tx) error { return tx.AddEpochTx(ctx, row) }); err != nil {
		return outward(err)
	}
	a.checkpoint("transaction stored")
	return a.broadcast(ctx, e, row)
}

// broadcast sends stored bytes. "Already known" means sent. A nonce that the
// chain has used means that this transaction or a replacement is mined, which
// find sees, or that the key was used elsewhere.
func (a *App) broadcast(ctx context.Context, e *store.Epoch, t store.EpochTx) error {
	_, sendErr := a.anchor.Client.SendRawTransaction(ctx, t.Raw)
	a.checkpoint("transaction sent")
	if errors.Is(sendErr, chain.ErrNonceTooLow) {
		return a.nonceUsed(ctx, e, t)
	}
	err := a.store.Update(ctx, func(tx *store.Tx) error { return tx.EpochTxSent(ctx, t.Hash, sendErr) })
	return errors.Join(sendErr, outward(err))
}

// nonceUsed decides what a used nonce means. Only when the chain used it at
// confirmed depth, and none of the epoch's transactions is mined, was it spent on
// something else: then, and only then, is another transaction made.
func (a *App) nonceUsed(ctx context.Context, e *store.Epoch, t store.EpochTx) error {
	head, err := a.anchor.Client.BlockNumber(ctx)
	if err != nil {
		return err
	}
	deep := fmt.Sprintf("0x%x", head-min(head, a.cfg.Depth()))
	used, err := a.anchor.Client.NonceAt(ctx, common.Address(t.Sender), deep)
	if err != nil {
		return err
	}
	txs, err := a.epochTxs(ctx, e.ID)
	if err != nil {
		return err
	}
	if _, err := a.find(ctx, e, txs); !errors.Is(err, chain.ErrNotFound) {
		return nil // mined: the next look records it
	}
	if used <= t.Nonce {
		return fmt.Errorf("nonce %d is used by a recent block, and not by this epoch: %w", t.Nonce, chain.ErrNonceTooLow)
	}
	a.log.WarnContext(ctx, "the anchoring key was used elsewhere", "nonce", t.Nonce, "epoch", e.ID)
	return a.sendFirst(ctx, e)
}

// replace raises the fee of a stuck transaction under the same nonce.
func (a *App) replace(ctx context.Context, e *store.Epoch, old store.EpochTx) error {
	fees, err := a.anchor.Client.SuggestFees(ctx)
	if err != nil {
		return err
	}
	t, err := anchor.Bump(old.Raw, a.anchor.Network, keySigner{a.keys.Anchor}, fees)
	if err != nil {
		return err
	}
	if err := t.Fees.Limit(maxFee()); err != nil {
		return errors.Join(err, a.broadcast(ctx, e, old))
	}
	return a.keepAndSend(ctx, e, t)
}

// await looks for the receipt for a while. An epoch that is not mined by then
// stays pending; the settle cron looks again.
func (a *App) await(ctx context.Context, e *store.Epoch) error {
	ctx, cancel := context.WithTimeout(ctx, receiptWait)
	defer cancel()
	t := time.NewTicker(a.poll())
	defer t.Stop()
	for {
		txs, err := a.epochTxs(ctx, e.ID)
		if err != nil {
			return err
		}
		at, err := a.find(ctx, e, txs)
		if err == nil {
			return a.settled(ctx, e, at)
		}
		if !errors.Is(err, chain.ErrNotFound) {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// poll is the pause between two questions for a transaction: the dev chain seals
// within milliseconds.
func (a *App) poll() time.Duration {
	if a.anchor.Network.Public {
		return 2 * time.Second
	}
	return 5 * time.Millisecond
}

// funds says in plain words that the anchoring key cannot pay.
func (a *App) funds(err error) error {
	if errors.Is(err, chain.ErrInsufficientFunds) {
		return fmt.Errorf("the anchoring key %s cannot pay for gas on %s; send it some: %w",
			a.keys.Anchor.Address(), a.anchor.Network.Name, err)
	}
	return err
}
