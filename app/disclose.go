package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/store"
)

// Limits of published reveals (spec section 6).
const (
	maxRevealBytes    = 64 << 10 // of one step
	maxRevealDayBytes = 16 << 20 // of one key in a day
	verdictDeadline   = 5 * time.Second

	bigDisclosure  = 256 << 10 // bytes from which a body counts as big
	bigDisclosures = 1         // that are parsed at once

	// Looks at a chain while somebody waits for the answer, all callers together;
	// past that the recheck job looks.
	lookupsPerSecond, lookupsBurst = 20, 60
)

// Disclose takes a disclosure: every check is done, and the step is kept with
// its opened claim only, unless publish asks for the other opened fields too.
// Later posts add fields and never remove any. The error is an [*Error]:
// BAD_REQUEST, a check's code with 422, UNKNOWN_BATCH, REVEAL_TOO_LARGE,
// REVEAL_QUOTA.
func (a *App) Disclose(ctx context.Context, body []byte, publish bool) (StepView, error) {
	v, err := a.disclose(ctx, body, publish)
	return v, a.metrics.refused(a.fault(ctx, "disclose", err))
}

func (a *App) disclose(ctx context.Context, body []byte, publish bool) (StepView, error) {
	d, r, row, err := a.prove(ctx, body, publish)
	if err != nil {
		return StepView{}, err
	}
	news, err := a.keepStep(ctx, d, r, row)
	if err != nil {
		return StepView{}, err
	}
	a.events.Publish(news...)
	v, err := a.Step(ctx, r.StepHash)
	if err != nil || row.TxHash == nil || v.Verdict.Final || !a.lookups.Allow() {
		return v, err // without a look now, the recheck job has its turn
	}
	look, cancel := context.WithTimeout(ctx, verdictDeadline)
	defer cancel()
	// A failure leaves the step unverifiable with its reason, and the recheck job
	// in place: the disclosure itself is taken.
	if err := a.lookNow(look, row); err != nil {
		a.log.WarnContext(ctx, "verdict put off", "chain", row.ChainID, "tx", row.TxHash, "err", err)
	}
	return a.Step(ctx, r.StepHash)
}

// prove does every check of a disclosure and makes its row. What it returns has nothing
// opened: the row has what is kept of that. Parsed, a hostile body of 5 MiB takes some 50
// times its length: few of them may be in memory at once, and the next one waits until
// the collector has seen the one before.
func (a *App) prove(ctx context.Context, body []byte, publish bool) (*flight.Disclosure, *flight.Report, *store.Step, error) {
	if len(body) > bigDisclosure {
		select {
		case a.bigBodies <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, nil, ErrBusy
		}
		defer func() {
			runtime.GC()
			<-a.bigBodies
		}()
	}
	d, err := flight.ParseDisclosure(body)
	if err != nil {
		return nil, nil, nil, refuse(err)
	}
	r := d.Verify()
	if err := r.Err(); err != nil {
		return nil, nil, nil, unproven(r, err)
	}
	row, err := stepRow(d, r, publish)
	return d.WithoutReveal(), r, row, err
}

func unproven(r *flight.Report, err error) error {
	var ce *flight.CheckError
	if !errors.As(err, &ce) {
		return err
	}
	return &Error{Code: string(ce.Code), Status: http.StatusUnprocessableEntity, Message: ce.Detail,
		Details: map[string]any{"checks": r.Checks, "batchId": r.BatchID}}
}

// stepRow makes the row of a verified disclosure.
func stepRow(d *flight.Disclosure, r *flight.Report, publish bool) (*store.Step, error) {
	proof, err := json.Marshal(d.Proof)
	if err != nil {
		return nil, err
	}
	s := &store.Step{
		Hash: r.StepHash, BatchID: r.BatchID, Agent: r.Step.Agent, Stream: r.Step.Stream, Seq: r.Step.Seq, At: r.Step.At,
		Record: r.Step.Canonical(), Proof: proof, TxHash: r.Step.TxHash,
		Verdict: flight.Unverified(flight.NoClaim),
	}
	if r.Step.ChainID != nil {
		s.ChainID = *r.Step.ChainID
	}
	size := 0
	for _, o := range d.Reveal {
		doc := canon.Append(nil, canon.Obj(
			canon.Member{Key: "salt", Value: canon.Str(o.Salt.String())}, canon.Member{Key: "value", Value: o.Value}))
		s.Opened = append(s.Opened, o.Field)
		switch {
		case o.Field == "claim":
			s.Claim, s.ClaimKind = doc, claimKind(o.Value)
		case publish:
			if s.Reveals == nil {
				s.Reveals = map[string]json.RawMessage{}
			}
			s.Reveals[o.Field] = doc
			size += len(doc)
		}
	}
	if size > maxRevealBytes {
		return nil, &Error{Code: "REVEAL_TOO_LARGE", Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("the published fields take %d bytes; a step may publish %d", size, maxRevealBytes)}
	}
	s.Verdict = firstVerdict(r)
	return s, nil
}

// claimKind is the label under which a claim is counted.
func claimKind(v canon.Value) string {
	if k, _ := v.Get("kind"); interpreted(k.Str) {
		return k.Str
	}
	return "other"
}

// interpreted reports whether claims of the kind are compared with the chain.
func interpreted(kind string) bool {
	return slices.Contains([]string{flight.ClaimTxSuccess, flight.ClaimNative, flight.ClaimERC20}, kind)
}

// firstVerdict is the verdict before the chain was asked.
func firstVerdict(r *flight.Report) flight.Verdict {
	switch {
	case r.Unsupported:
		return flight.Unverified(flight.UnsupportedClaim)
	case r.Claim == nil:
		return flight.Unverified(flight.NoClaim)
	case r.Step.TxHash == nil:
		return flight.Unverified(flight.NoTx)
	}
	return flight.Unverified(flight.TxNotFound)
}

// keepStep stores the step beside its batch, opens a recheck where a claim can be
// compared, and looks at the links to the disclosed neighbours. news is what there
// is to tell: the step where it was opened for the first time, and evidence.
func (a *App) keepStep(ctx context.Context, d *flight.Disclosure, r *flight.Report, row *store.Step) (news []Event, err error) {
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		news = nil
		old, err := tx.Step(ctx, row.Hash)
		if errors.Is(err, store.ErrNotFound) {
			e := verdictEvent(row, row.Verdict, tx.Now())
			e.Kind = EventOpened
			news = append(news, e)
		} else if err != nil {
			return err
		}
		if _, err := tx.Batch(ctx, r.BatchID); err != nil {
			return notFound(err, ErrUnknownBatch)
		}
		if err := a.revealQuota(ctx, tx, &old, row); err != nil {
			return err
		}
		if err := tx.UpsertStep(ctx, row); err != nil {
			return err
		}
		if r.Claim != nil && row.TxHash != nil {
			if err := tx.PutRecheck(ctx, row.Agent, row.ChainID, *row.TxHash); err != nil {
				return err
			}
		}
		broken, err := a.chainLinks(ctx, tx, d, r)
		news = append(news, broken...)
		return err
	})
	return news, outward(err)
}

// revealQuota refuses what would be published beyond a key's share of the day (UTC).
// What old holds already costs nothing.
func (a *App) revealQuota(ctx context.Context, tx *store.Tx, old, row *store.Step) error {
	size := 0
	for field, doc := range row.Reveals {
		if _, kept := old.Reveals[field]; !kept {
			size += len(doc)
		}
	}
	if size == 0 {
		return nil
	}
	used, err := tx.RevealBytesToday(ctx, row.Agent)
	if err != nil {
		return err
	}
	if used+uint64(size) > maxRevealDayBytes {
		return &Error{Code: "REVEAL_QUOTA", Status: http.StatusTooManyRequests, RetryAfter: time.Duration(dayMs-tx.Now()%dayMs) * time.Millisecond,
			Message: fmt.Sprintf("this key has published %d bytes today (UTC); the limit is %d", used, maxRevealDayBytes)}
	}
	return nil
}

// chainLinks compares the step with its disclosed neighbours. Two proven steps s
// and s+1 that do not link are evidence of their own (BROKEN_CHAIN).
func (a *App) chainLinks(ctx context.Context, tx *store.Tx, d *flight.Disclosure, r *flight.Report) (news []Event, err error) {
	s := &r.Step
	for _, seq := range []uint64{s.Seq - 1, s.Seq + 1} {
		if s.Seq == 0 && seq != 1 {
			continue
		}
		other, err := tx.StepAt(ctx, s.Agent, s.Stream, seq)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		neighbour, err := rebuild(ctx, &tx.ReadTx, &other)
		if err != nil {
			return nil, err
		}
		first, second := neighbour, d
		if seq > s.Seq {
			first, second = d, neighbour
		}
		if ev := flight.NewBrokenChain(first, second); ev != nil {
			h := &second.Batch.Header
			o, err := a.equivocation(ctx, tx, h, ev)
			if err != nil {
				return nil, err
			}
			if o.kept != "" {
				news = append(news, Event{Kind: EventConflict, At: tx.Now(), Agent: h.Agent, Stream: h.Stream, Index: h.Index, FromSeq: h.FromSeq, ToSeq: h.ToSeq, State: o.kept})
			}
		}
	}
	return news, nil
}

// rebuild makes the disclosure of a stored step, with nothing opened.
func rebuild(ctx context.Context, tx *store.ReadTx, row *store.Step) (*flight.Disclosure, error) {
	b, err := tx.BatchAt(ctx, row.Position)
	if err != nil {
		return nil, err
	}
	step, err := canon.Parse(row.Record, canon.MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("stored step %s: %w", row.Hash, err)
	}
	proof, err := flight.ParseProof(row.Proof)
	if err != nil {
		return nil, fmt.Errorf("stored proof of %s: %w", row.Hash, err)
	}
	return &flight.Disclosure{Step: step, Proof: proof, Batch: b.Batch}, nil
}

// disclosureJSON writes the disclosure of a stored step of the batch, with all that is
// kept open. Its parts are stored as they are sent, and to read them again would cost a
// hundred times as much.
func disclosureJSON(b *store.Batch, row *store.Step) ([]byte, error) {
	batch, err := json.Marshal(b.Batch)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"step":`), row.Record...)
	out = append(out, `,"reveal":{`...)
	comma := ""
	for _, field := range flight.Fields {
		doc := row.Reveals[field]
		if field == "claim" {
			doc = row.Claim
		}
		if len(doc) > 0 {
			out = append(append(out, comma+`"`+field+`":`...), doc...)
			comma = ","
		}
	}
	out = append(append(out, `},"proof":`...), row.Proof...)
	return append(append(append(out, `,"batch":`...), batch...), '}'), nil
}

// What stands before and after the value in the canonical {salt, value}.
const (
	beforeValue = len(`{"salt":"",`) + 2 + hashHex + len(`"value":`)
	afterValue  = len(`}`)
)

// openedValue returns the canonical value of a stored opening, of which it is a part.
func openedValue(doc []byte) ([]byte, error) {
	if len(doc) <= beforeValue+afterValue || !bytes.HasSuffix(doc[:beforeValue], []byte(`,"value":`)) {
		return nil, fmt.Errorf("%w: an opening is not {salt, value}", store.ErrDamaged)
	}
	return doc[beforeValue : len(doc)-afterValue], nil
}

func opening(field string, doc []byte) (flight.Opening, error) {
	v, err := canon.Parse(doc, flight.MaxDisclosureDepth)
	if err != nil {
		return flight.Opening{}, err
	}
	salt, _ := v.Get("salt")
	h, err := flight.ParseHash(salt.Str)
	value, _ := v.Get("value")
	return flight.Opening{Field: field, Salt: h, Value: value}, err
}
