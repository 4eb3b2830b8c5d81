package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"karatum/chain"
	"karatum/flight"
	"karatum/store"
)

// A final verdict re-opens when the block that it is about leaves the chain, however
// deep that was (spec section 8). To ask about each of them again and again would cost
// more calls the longer a node lives; this costs three a chain and run:
//
// The node remembers the head that it saw in the run before. While that block is still
// on the chain, so are all blocks below it, and only verdicts about newer ones are
// held against the chain. Once it is not, the blocks of final verdicts are, from the
// newest down to the first that is still there: what is below it is too.
const (
	reopenBlocks = 128 // held against a chain in one run
	reopenSteps  = 1024
)

// A chainMark is a block that was the head of a chain.
type chainMark struct {
	Number uint64
	Hash   flight.Hash
}

func markKey(chainID uint64) string { return fmt.Sprintf("head:%d", chainID) }

// reopenAll looks for final verdicts whose blocks have left their chains. It returns
// how many transactions are to be looked at again; the error is of a chain that could
// not be asked.
func (a *App) reopenAll(ctx context.Context) (reopened int, err error) {
	for id, c := range a.chains {
		if a.rest.until(id, a.now()) > 0 {
			continue
		}
		n, askErr := a.reopen(ctx, id, c)
		reopened += n
		if askErr != nil {
			a.rest.after(id, a.now(), askErr)
			err = errors.Join(err, fmt.Errorf("chain %d: %w", id, askErr))
		}
	}
	return reopened, err
}

// A lookout is what is known of a chain before its final verdicts are looked at.
type lookout struct {
	id     uint64
	chain  Chain
	head   chainMark
	mark   *chainMark // nil before the first run
	held   bool       // the mark is still on the chain
	newest uint64     // block that a final verdict is about
}

// reopen does so for one chain. The mark moves on only when every block that had to be
// was held against the chain.
func (a *App) reopen(ctx context.Context, id uint64, c Chain) (reopened int, err error) {
	l := &lookout{id: id, chain: c}
	if err := a.lookOut(ctx, l); errors.Is(err, store.ErrNotFound) {
		return 0, nil // there is no final verdict
	} else if err != nil {
		return 0, err
	}
	if l.mark != nil && l.head.Number < l.mark.Number && !a.embedded(id) {
		return 0, nil // this node is behind the one that was asked before
	}
	reopened, whole, err := a.reopenDown(ctx, l)
	if err != nil || !whole {
		return reopened, err
	}
	doc, err := json.Marshal(l.head)
	if err != nil {
		return reopened, err
	}
	return reopened, outward(a.store.Update(ctx, func(tx *store.Tx) error { return tx.SetMeta(ctx, markKey(id), doc) }))
}

func (a *App) lookOut(ctx context.Context, l *lookout) error {
	err := a.store.View(ctx, func(tx *store.ReadTx) error {
		var err error
		if l.newest, err = tx.FinalBlockBelow(ctx, l.id, 1<<62); err != nil {
			return err
		}
		doc, err := tx.Meta(ctx, markKey(l.id))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		l.mark = &chainMark{}
		return json.Unmarshal(doc, l.mark)
	})
	if err != nil {
		return err
	}
	if l.head, err = headOf(ctx, l.chain); err != nil || l.mark == nil {
		return err
	}
	hash, err := hashAt(ctx, l.chain, l.mark.Number)
	l.held = hash == l.mark.Hash
	return err
}

// reopenDown goes down the blocks of final verdicts; whole is false where some have to
// wait for the next run.
func (a *App) reopenDown(ctx context.Context, l *lookout) (reopened int, whole bool, err error) {
	whole = true
	number := l.newest
	for asked := 0; !l.held || number > l.mark.Number; asked++ {
		if asked == reopenBlocks {
			return reopened, whole && l.mark == nil, nil // what was final before there was a mark is taken as it is
		}
		n, all := 0, false
		if number <= l.head.Number || a.embedded(l.id) {
			hash, err := hashAt(ctx, l.chain, number)
			if err != nil {
				return reopened, false, err
			}
			if n, all, err = a.reopenBlock(ctx, l.id, number, hash); err != nil {
				return reopened, false, err
			}
		}
		reopened, whole = reopened+n, whole && all
		if n == 0 && all && l.mark != nil && number <= l.mark.Number {
			break
		}
		err = a.store.View(ctx, func(tx *store.ReadTx) (err error) { number, err = tx.FinalBlockBelow(ctx, l.id, number); return err })
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return reopened, false, outward(err)
		}
	}
	return reopened, whole, nil
}

// embedded reports whether a chain is the node's own, which is never behind itself.
func (a *App) embedded(chainID uint64) bool {
	return chainID == a.anchor.Network.ChainID && len(a.cfg.RPCURL) == 0
}

// reopenBlock has the transactions of final verdicts about another block of that
// number looked at again; all is false where some have to wait for the next run.
func (a *App) reopenBlock(ctx context.Context, chainID, number uint64, hash flight.Hash) (n int, all bool, err error) {
	all = true
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		txs, err := tx.FinalTxsOff(ctx, chainID, number, hash, reopenSteps)
		if err != nil {
			return err
		}
		all = len(txs) < reopenSteps
		for _, t := range txs {
			err := tx.HastenRecheck(ctx, t.Agent, chainID, t.TxHash)
			if errors.Is(err, store.ErrConflict) { // the key has its share of open ones
				all = false
				continue
			}
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
	if n > 0 {
		a.log.WarnContext(ctx, "a block left its chain; verdicts about it re-open", "chain", chainID, "block", number, "transactions", n)
	}
	return n, all, outward(err)
}

func headOf(ctx context.Context, c Chain) (chainMark, error) {
	number, err := c.BlockNumber(ctx)
	if err != nil {
		return chainMark{}, err
	}
	hash, err := hashAt(ctx, c, number)
	return chainMark{number, hash}, err
}

// hashAt returns the hash of the chain's block of that number, zero where it has none.
func hashAt(ctx context.Context, c Chain, number uint64) (flight.Hash, error) {
	h, err := c.HeaderByNumber(ctx, number)
	if errors.Is(err, chain.ErrNotFound) {
		return flight.Hash{}, nil
	}
	return flight.Hash(h.Hash), err
}
