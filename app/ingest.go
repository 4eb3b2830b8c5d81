package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"karatum/flight"
	"karatum/store"
)

// Limits of ingest (spec sections 1, 4 and 5).
const (
	maxSkew          = 600 * time.Second // createdAt ahead of the server
	maxEvidence      = uint64(16)        // kept of one agent
	BulkChunk        = 256               // lines of one durable commit
	anchorGrace      = 600 * time.Second // of anchorBy, past two intervals
	domainHint       = `the EIP-712 domain is {"name":"Karatum Flight Record","version":"1"}: name and version only, no chainId`
	textHint         = "EIP-191 counts the text's length in UTF-8 bytes"
	quotaWindowHours = 24
)

// A candidate is a batch that passed every check that needs no database.
type candidate struct {
	batch flight.Batch
	id    flight.Hash
}

// Ingest takes in one batch (spec section 4). The body is decided in the order
// of the section's table; an answer is given only after the row is durable. The
// error is an [*Error]: BAD_REQUEST, CLOCK_SKEW, BAD_SIGNATURE, EQUIVOCATION with
// the evidence, BATCH_QUOTA, DISK_FULL or BUSY.
func (a *App) Ingest(ctx context.Context, body []byte) (IngestAnswer, error) {
	c, err := a.admit(body)
	if err != nil {
		return IngestAnswer{}, a.metrics.refused(err)
	}
	h := &c.batch.Header
	defer a.locks.Lock(store.StreamKey{Agent: h.Agent, Stream: h.Stream})()
	var ans outcome
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		ans, err = a.decide(ctx, tx, c)
		return err
	})
	if err != nil {
		return IngestAnswer{}, a.metrics.refused(a.fault(ctx, "ingest", outward(err)))
	}
	a.tell(&ans, c)
	return ans.answer(a.metrics)
}

// IngestBulk takes in the lines of a bulk request, in order, with one durable
// commit a chunk of [BulkChunk]. Each line has its own answer; a chunk that
// cannot be committed fails all of its lines.
func (a *App) IngestBulk(ctx context.Context, lines [][]byte) []BulkAnswer {
	out := make([]BulkAnswer, 0, len(lines))
	for from := 0; from < len(lines); from += BulkChunk {
		chunk := lines[from:min(from+BulkChunk, len(lines))]
		out = append(out, a.ingestChunk(ctx, from, chunk)...)
	}
	return out
}

func (a *App) ingestChunk(ctx context.Context, from int, lines [][]byte) []BulkAnswer {
	out := make([]BulkAnswer, len(lines))
	cands := make([]candidate, len(lines))
	g := new(errgroup.Group)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, line := range lines {
		out[i].Line = from + i
		g.Go(func() error {
			cands[i], out[i].Err = a.admit(line)
			runtime.Gosched() // readers get a turn between two signatures, not after a chunk of them
			return nil
		})
	}
	g.Wait() // the functions return no error
	keys := make([]store.StreamKey, 0, len(lines))
	for i := range cands {
		if out[i].Err == nil {
			keys = append(keys, store.StreamKey{Agent: cands[i].batch.Header.Agent, Stream: cands[i].batch.Header.Stream})
		}
	}
	defer a.locks.LockAll(keys)()
	done := make([]outcome, len(lines))
	err := a.store.Update(ctx, func(tx *store.Tx) error {
		for i := range cands {
			if out[i].Err != nil {
				continue
			}
			var err error
			if done[i], err = a.decide(ctx, tx, cands[i]); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range out {
		switch {
		case out[i].Err != nil:
			out[i].Err = a.metrics.refused(out[i].Err)
		case err != nil:
			out[i].Err = a.metrics.refused(a.fault(ctx, "ingest", outward(err)))
		default:
			a.tell(&done[i], cands[i])
			ans, err := done[i].answer(a.metrics)
			out[i].Answer, out[i].Err = &ans, err
		}
	}
	return out
}

// admit runs the checks that need no database: form, clock, signature.
func (a *App) admit(body []byte) (candidate, error) {
	b, err := flight.ParseBatch(body)
	if err != nil {
		return candidate{}, refuse(err)
	}
	c := candidate{batch: b, id: b.ID()}
	now := a.now()
	if ahead := time.Unix(int64(b.Header.CreatedAt), 0).Sub(now); ahead > maxSkew {
		return c, skewed(c, now, ahead-maxSkew)
	}
	signer, err := b.Recover()
	if err != nil || signer != b.Header.Agent {
		return c, badSignature(c, signer, err, now)
	}
	return c, nil
}

func skewed(c candidate, now time.Time, wait time.Duration) error {
	return &Error{
		Code: "CLOCK_SKEW", Status: http.StatusTooEarly, RetryAfter: wait,
		Message: fmt.Sprintf("createdAt is more than %d s ahead of this node's clock; the same bytes are good later", int(maxSkew.Seconds())),
		Details: map[string]any{"serverTime": now.Unix(), "createdAt": c.batch.Header.CreatedAt, "batchId": c.id},
	}
}

// badSignature tells what was hashed and whom it recovered, so that the sender
// can find the difference.
func badSignature(c candidate, signer flight.Address, err error, now time.Time) error {
	h := &c.batch.Header
	d := map[string]any{"batchId": c.id, "scheme": c.batch.Scheme, "agent": h.Agent, "serverTime": now.Unix()}
	msg := "the signature recovers to no key; "
	if err == nil {
		d["signer"] = signer
		msg = fmt.Sprintf("the signature recovers to %s, not to header.agent; ", signer)
	}
	if c.batch.Scheme == flight.EIP191 {
		d["text"], d["digest"] = h.Text(), h.Digest(flight.EIP191)
		msg += textHint
	} else {
		d["digest"] = c.id
		msg += domainHint
	}
	return &Error{Code: "BAD_SIGNATURE", Status: http.StatusUnauthorized, Message: msg, Details: d}
}

// An outcome is what a decision came to. Its writes, evidence and quota units
// included, are committed before it is answered; that is why a refusal is not
// an error of the transaction.
type outcome struct {
	ans     IngestAnswer
	receipt *flight.Receipt // complete once the group has committed
	refusal *Error
	kept    string // reason of the evidence that was stored now, "" for none
}

// tell publishes a batch that is new, or evidence that is new.
func (a *App) tell(o *outcome, c candidate) {
	h, kind, state := &c.batch.Header, EventBatch, o.ans.Continuity
	switch {
	case o.kept != "":
		kind, state = EventConflict, o.kept
	case o.refusal != nil || o.ans.Duplicate:
		return
	}
	a.events.Publish(Event{Kind: kind, At: a.nowMs(), Agent: h.Agent, Stream: h.Stream, Index: h.Index, FromSeq: h.FromSeq, ToSeq: h.ToSeq, BatchID: c.id, State: state})
}

func (o outcome) answer(m *metrics) (IngestAnswer, error) {
	if o.refusal != nil {
		return IngestAnswer{}, m.refused(o.refusal)
	}
	if o.receipt != nil {
		o.ans.Receipt = *o.receipt
	}
	m.ingested(o.ans)
	return o.ans, nil
}

// decide is the table of spec section 4 from the duplicate on. Only the batch of
// the same index and its two neighbours are needed: stored batches are pairwise
// honest, so a batch that agrees with its neighbours agrees with all.
func (a *App) decide(ctx context.Context, tx *store.Tx, c candidate) (outcome, error) {
	h := &c.batch.Header
	same, before, after, err := tx.Around(ctx, h.Agent, h.Stream, h.Index)
	if err != nil {
		return outcome{}, err
	}
	if same != nil && same.Batch.Header.SameHistory(*h) {
		r, err := tx.Receipt(ctx, same.Position)
		return outcome{ans: IngestAnswer{Duplicate: true}, receipt: r}, err
	}
	for _, stored := range []*store.Batch{same, before, after} {
		if stored == nil {
			continue
		}
		if ev := flight.NewEvidence(stored.Batch, c.batch); ev != nil {
			return a.equivocation(ctx, tx, h, ev)
		}
	}
	now := tx.Now()
	retryAt, ok, err := tx.SpendQuota(ctx, h.Agent, now, a.cfg.BatchQuota)
	if err != nil {
		return outcome{}, err
	}
	if !ok {
		return outcome{refusal: overQuota(a.cfg.BatchQuota, now, retryAt)}, nil
	}
	r, err := tx.InsertBatch(ctx, c.batch, c.id, now, a.anchorBy(now))
	return outcome{ans: continuity(h, before, after, now), receipt: r}, err
}

// anchorBy is the promise of a receipt: two anchor intervals and ten minutes
// after the batch came in, in unix seconds.
func (a *App) anchorBy(nowMs uint64) uint64 {
	return (nowMs + uint64((2*a.interval + anchorGrace).Milliseconds())) / 1000
}

func overQuota(quota int, now, retryAt uint64) *Error {
	return &Error{
		Code: "BATCH_QUOTA", Status: http.StatusTooManyRequests, RetryAfter: time.Duration(retryAt-min(now, retryAt)) * time.Millisecond,
		Message: fmt.Sprintf("this key has sent %d batches in the last %d hours; merge more steps into a batch", quota, quotaWindowHours),
		Details: map[string]any{"quota": quota, "retryAt": retryAt},
	}
}

func continuity(h *flight.Header, before, after *store.Batch, now uint64) IngestAnswer {
	nextIndex, nextSeq := uint64(0), uint64(0)
	if before != nil {
		nextIndex, nextSeq = before.Batch.Header.Index+1, before.Batch.Header.ToSeq+1
	}
	switch {
	case after != nil:
		late := now - min(now, after.ReceivedAt)
		return IngestAnswer{Continuity: Filled, LateBy: &late}
	case h.Index == nextIndex:
		return IngestAnswer{Continuity: Continuous}
	}
	return IngestAnswer{Continuity: Gap, Missing: &Missing{
		Indexes: [2]uint64{nextIndex, h.Index - 1}, Seqs: [2]uint64{nextSeq, h.FromSeq - 1},
	}}
}

// equivocation keeps the evidence once per (agent, stream, index), at most
// maxEvidence an agent, and answers with it. Later ones are answered with what
// is stored and cost a quota unit.
func (a *App) equivocation(ctx context.Context, tx *store.Tx, h *flight.Header, ev *flight.Evidence) (outcome, error) {
	var kept string
	stored, err := tx.Evidence(ctx, h.Agent, h.Stream, h.Index)
	if errors.Is(err, store.ErrNotFound) {
		stored, kept, err = a.keepEvidence(ctx, tx, h, ev)
	} else if err == nil {
		_, _, err = tx.SpendQuota(ctx, h.Agent, tx.Now(), a.cfg.BatchQuota)
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{kept: kept, refusal: &Error{
		Code: "EQUIVOCATION", Status: http.StatusConflict,
		Message: "this key has signed another history of this stream; both statements are kept as evidence and served publicly",
		Details: map[string]any{"evidence": json.RawMessage(stored)},
	}}, nil
}

// keepEvidence returns the evidence to answer with, and its reason where it was
// stored now.
func (a *App) keepEvidence(ctx context.Context, tx *store.Tx, h *flight.Header, ev *flight.Evidence) (doc []byte, kept string, err error) {
	n, err := tx.EvidenceCount(ctx, h.Agent)
	if err != nil {
		return nil, "", err
	}
	if n >= maxEvidence {
		if _, _, err := tx.SpendQuota(ctx, h.Agent, tx.Now(), a.cfg.BatchQuota); err != nil {
			return nil, "", err
		}
		doc, err = tx.LatestEvidence(ctx, h.Agent)
		return doc, "", err
	}
	if doc, err = json.Marshal(ev); err != nil {
		return nil, "", err
	}
	return doc, string(ev.Reason), tx.AddEvidence(ctx, h.Agent, h.Stream, h.Index, string(ev.Reason), doc, tx.Now())
}
