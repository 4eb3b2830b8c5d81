package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/anchor"
	"karatum/flight"
	"karatum/store"
)

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
