package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/flight"
	"karatum/store"
)

// A Chain is what a verdict needs of an EVM chain. [chain.Client] is one.
type Chain interface {
	TransactionByHash(ctx context.Context, hash common.Hash) (chain.Tx, error)
	TransactionReceipt(ctx context.Context, hash common.Hash) (chain.Receipt, error)
	HeaderByNumber(ctx context.Context, number uint64) (chain.Header, error)
	BlockNumber(ctx context.Context) (uint64, error)
}

// Limits of the recheck job (spec section 8).
const (
	recheckGiveUp = 7 * 24 * time.Hour
	recheckFirst  = time.Minute
	recheckMost   = 6 * time.Hour
	recheckBatch  = 200 // jobs of one run, shared fairly among agents
	recheckSteps  = 128 // judged in one go
	lookSteps     = 16  // of one transaction that are judged while somebody waits
	chainPatience = 3   // failed calls in a row before a chain rests for the run
	lateBlock     = time.Hour
)

// facts are what the chain says of one transaction. reason is set where it says
// nothing that could confirm or contradict.
type facts struct {
	tx        flight.Tx
	reason    string
	block     uint64
	blockHash flight.Hash
	blockTime uint64 // unix seconds
	final     bool
}

// recheckTx asks the chain about one transaction and sets the verdicts of every
// stored step that names it, a part at a time, so that others can write in between. The
// error says why the chain could not be asked; steps without a verdict are then
// unverifiable with that reason, and the job stays.
func (a *App) recheckTx(ctx context.Context, chainID uint64, hash flight.Hash) error {
	f, askErr := a.ask(ctx, chainID, hash)
	ctx = context.WithoutCancel(ctx)
	for mark := uint64(0); ; {
		var next uint64
		err := a.judgeSteps(ctx, f, func(tx *store.Tx) (steps []store.Step, err error) {
			if steps, next, err = tx.StepsOfTx(ctx, chainID, hash, mark, recheckSteps); err != nil || next > 0 {
				return steps, err
			}
			return steps, a.reschedule(ctx, tx, chainID, hash, f.final)
		})
		if err != nil || next == 0 {
			return errors.Join(askErr, err)
		}
		mark = next
	}
}

// lookNow is recheckTx for a step that was just opened. Where many steps name its
// transaction only that one is judged: the others, whoever opened them, are left to the
// recheck job, so that opening one more costs no more than opening the first.
func (a *App) lookNow(ctx context.Context, row *store.Step) error {
	f, askErr := a.ask(ctx, row.ChainID, *row.TxHash)
	ctx = context.WithoutCancel(ctx)
	return errors.Join(askErr, a.judgeSteps(ctx, f, func(tx *store.Tx) ([]store.Step, error) {
		steps, next, err := tx.StepsOfTx(ctx, row.ChainID, *row.TxHash, 0, lookSteps)
		if err != nil {
			return nil, err
		}
		if next == 0 {
			return steps, a.reschedule(ctx, tx, row.ChainID, *row.TxHash, f.final)
		}
		s, err := tx.Step(ctx, row.Hash)
		return []store.Step{s}, err
	}))
}

// judgeSteps sets the verdicts of the steps that find returns, and tells what changed
// once it is stored.
func (a *App) judgeSteps(ctx context.Context, f facts, find func(*store.Tx) ([]store.Step, error)) error {
	var changed []Event
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		steps, err := find(tx)
		if err != nil {
			return err
		}
		changed = nil
		for i := range steps {
			if f.reason == flight.RPCError && steps[i].Verdict.State != flight.Unverifiable {
				continue // that a node does not answer takes nothing back
			}
			v, err := a.judge(&steps[i], f, tx.Now())
			if err != nil {
				return err
			}
			if err := tx.SetVerdict(ctx, v); err != nil {
				return err
			}
			a.metrics.verdicts.WithLabelValues(string(v.Verdict.State)).Inc()
			if was := &steps[i].Verdict; was.State != v.Verdict.State || was.Reason != v.Verdict.Reason {
				changed = append(changed, verdictEvent(&steps[i], v.Verdict, tx.Now()))
			}
		}
		return nil
	})
	if err == nil {
		a.events.Publish(changed...)
	}
	return outward(err)
}

func verdictEvent(s *store.Step, v flight.Verdict, now uint64) Event {
	return Event{Kind: EventVerdict, At: now, Agent: s.Agent, Stream: s.Stream, FromSeq: s.Seq, ToSeq: s.Seq, BatchID: s.BatchID, State: string(v.State), Reason: v.Reason}
}

// ask fetches the transaction and its receipt. Every failure is a reason, never
// a contradiction.
func (a *App) ask(ctx context.Context, chainID uint64, hash flight.Hash) (facts, error) {
	c, ok := a.chains[chainID]
	if !ok {
		return facts{reason: flight.ChainUnsupported}, nil
	}
	if wait := a.rest.until(chainID, a.now()); wait > 0 {
		return facts{reason: flight.RPCError}, fmt.Errorf("chain %d asked for %s of patience", chainID, wait.Round(time.Second))
	}
	f, err := a.fetch(ctx, c, common.Hash(hash))
	switch {
	case errors.Is(err, chain.ErrNotFound):
		return facts{reason: flight.TxNotFound}, nil
	case err != nil:
		a.rest.after(chainID, a.now(), err)
		return facts{reason: flight.RPCError}, fmt.Errorf("chain %d: %w", chainID, err)
	}
	return f, nil
}

// fetch reads a mined transaction, or returns an error that wraps
// chain.ErrNotFound where it is unknown, pending, or off the canonical chain.
func (a *App) fetch(ctx context.Context, c Chain, hash common.Hash) (facts, error) {
	tx, err := c.TransactionByHash(ctx, hash)
	if err != nil {
		return facts{}, err
	}
	if !tx.Mined {
		return facts{}, fmt.Errorf("the transaction is pending: %w", chain.ErrNotFound)
	}
	r, err := c.TransactionReceipt(ctx, hash)
	if err != nil {
		return facts{}, err
	}
	head, err := c.BlockNumber(ctx)
	if err != nil {
		return facts{}, err
	}
	h, err := c.HeaderByNumber(ctx, r.BlockNumber)
	if err != nil {
		return facts{}, err
	}
	if h.Hash != r.BlockHash || tx.BlockHash != r.BlockHash || tx.From != r.From {
		return facts{}, fmt.Errorf("transaction, receipt and block disagree: %w", chain.ErrNotFound)
	}
	return facts{
		tx: mined(tx, r), block: r.BlockNumber, blockHash: flight.Hash(r.BlockHash), blockTime: h.Time,
		final: head+1 >= r.BlockNumber+a.cfg.Depth(),
	}, nil
}

func mined(tx chain.Tx, r chain.Receipt) flight.Tx {
	out := flight.Tx{From: flight.Address(tx.From), Value: tx.Value, Success: r.Status == 1}
	if tx.To != nil {
		to := flight.Address(*tx.To)
		out.To = &to
	}
	for _, l := range r.Logs {
		if l.Removed {
			continue
		}
		log := flight.Log{Address: flight.Address(l.Address), Data: l.Data}
		for _, t := range l.Topics {
			log.Topics = append(log.Topics, flight.Hash(t))
		}
		out.Logs = append(out.Logs, log)
	}
	return out
}

// judge compares one stored step with the facts.
func (a *App) judge(s *store.Step, f facts, now uint64) (store.StepVerdict, error) {
	v := store.StepVerdict{StepHash: s.Hash, At: now, Verdict: flight.Unverified(f.reason)}
	c, err := stepClaim(s)
	switch {
	case err != nil:
		return v, err
	case c == nil:
		v.Verdict = flight.Unverified(flight.NoClaim)
		return v, nil
	case !interpreted(c.Kind):
		v.Verdict = flight.Unverified(flight.UnsupportedClaim)
		return v, nil
	}
	v.Self = c.Amount != nil && c.To == s.Agent
	v.Zero = c.Amount != nil && c.Amount.Sign() == 0
	if c.Amount != nil {
		v.Counterparty = &c.To
	}
	if f.reason != "" {
		return v, nil
	}
	v.Verdict = flight.Evaluate(*c, s.Agent, f.tx)
	v.BlockNumber, v.BlockHash, v.Final = f.block, f.blockHash, f.final
	v.Late = f.blockTime*1000+uint64(lateBlock.Milliseconds()) < s.At
	return v, nil
}

// reschedule ends the job of a final transaction, gives up on one that stayed
// open too long, and puts off the others.
func (a *App) reschedule(ctx context.Context, tx *store.Tx, chainID uint64, hash flight.Hash, final bool) error {
	j, err := tx.Recheck(ctx, chainID, hash)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if final || tx.Now()-j.FirstAt > uint64(recheckGiveUp.Milliseconds()) {
		return tx.FinishRecheck(ctx, chainID, hash)
	}
	return tx.PutOffRecheck(ctx, chainID, hash, tx.Now()+uint64(backoff(j.Attempts).Milliseconds()))
}

// ErrRechecksFull: the key's open transactions are all that a key may have.
var ErrRechecksFull = &Error{Code: "RECHECK_QUEUE", Status: http.StatusTooManyRequests, RetryAfter: time.Minute,
	Message: fmt.Sprintf("%d transactions of this key are looked at again already", store.MaxRechecks)}

// Recheck has the transaction of a step looked at again at the next run of the recheck
// cron, whether its verdict is final or not. What the chain says then is the verdict of
// every step that names the transaction.
func (a *App) Recheck(ctx context.Context, step flight.Hash) (RecheckView, error) {
	var v RecheckView
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		s, err := tx.Step(ctx, step)
		if err != nil {
			return notFound(err, ErrUnknownStep)
		}
		if s.TxHash == nil {
			return ErrNoTx
		}
		if err := tx.HastenRecheck(ctx, s.Agent, s.ChainID, *s.TxHash); errors.Is(err, store.ErrConflict) {
			return ErrRechecksFull
		} else if err != nil {
			return err
		}
		j, err := tx.Recheck(ctx, s.ChainID, *s.TxHash)
		v = RecheckView{ChainID: j.ChainID, TxHash: j.TxHash, DueAt: j.DueAt, Attempts: j.Attempts}
		return err
	})
	return v, a.fault(ctx, "recheck", outward(err))
}

// backoff doubles from recheckFirst to recheckMost, with up to a quarter more so
// that jobs do not march in step.
func backoff(attempts int) time.Duration {
	d := recheckMost
	if attempts < 9 { // 2^9 minutes are past recheckMost
		d = min(recheckFirst<<max(attempts, 0), recheckMost)
	}
	return d + rand.N(d/4+1)
}

// recheckDue is the recheck cron: final verdicts whose blocks left their chain
// re-open, then one question a distinct transaction, fair among agents. A chain that
// does not answer rests for the run.
func (a *App) recheckDue(ctx context.Context) (string, error) {
	reopened, last := a.reopenAll(ctx)
	var due []store.RecheckJob
	err := a.store.View(ctx, func(tx *store.ReadTx) error {
		var err error
		due, err = tx.DueRechecks(ctx, a.nowMs(), recheckBatch)
		return err
	})
	if err != nil || len(due) == 0 {
		return "", errors.Join(last, outward(err))
	}
	failed := map[uint64]int{}
	asked := 0
	for _, j := range due {
		if failed[j.ChainID] >= chainPatience {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		asked++
		if err := a.recheckTx(ctx, j.ChainID, j.TxHash); err != nil {
			failed[j.ChainID]++
			last = err
			continue
		}
		failed[j.ChainID] = 0
	}
	note := fmt.Sprintf("%d of %d open transactions asked for", asked, len(due))
	if reopened > 0 {
		note += fmt.Sprintf(", %d of them for their block left the chain", reopened)
	}
	return note, last
}

// rests remembers how long each chain's node asked to be left alone.
type rests struct {
	mu sync.Mutex // guards m
	m  map[uint64]time.Time
}

// until returns how long the chain still rests.
func (r *rests) until(chainID uint64, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[chainID].Sub(now)
}

// after notes the pause that a rate limit asked for, at most an hour.
func (r *rests) after(chainID uint64, now time.Time, err error) {
	var ce *chain.CallError
	if !errors.As(err, &ce) || ce.RetryAfter <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[uint64]time.Time{}
	}
	r.m[chainID] = now.Add(min(ce.RetryAfter, time.Hour))
}
