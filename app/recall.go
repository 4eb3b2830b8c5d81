package app

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"karatum/flight"
	"karatum/store"
)

const (
	recalledEvents = 100 // that a start of the node finds in the database

	// eventsMeta is the number at which the events of the last start began.
	// eventsSpace is what a start has to itself: 8 billion events, or more where the
	// clock has gone on for longer than that many microseconds.
	eventsMeta  = "events"
	eventsSpace = 1 << 33
)

// recall fills the ring of events with the latest that the database shows, and begins
// its numbers beyond those of every earlier start, whatever the clock says.
func (a *App) recall(ctx context.Context) error {
	var past []Event
	err := a.view(ctx, nil, func(tx *store.ReadTx) (err error) {
		past, err = pastEvents(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	first := uint64(a.now().UnixMicro())
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		was, err := tx.Meta(ctx, eventsMeta)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case len(was) == 8:
			first = max(first, binary.BigEndian.Uint64(was)+eventsSpace)
		}
		return tx.SetMeta(ctx, eventsMeta, binary.BigEndian.AppendUint64(nil, first))
	})
	if err != nil {
		return a.fault(ctx, "recall events", outward(err))
	}
	a.events.Begin(first, past)
	return nil
}

// pastEvents returns the newest events of all kinds, oldest first. Each kind is read
// from the end of its table.
func pastEvents(ctx context.Context, tx *store.ReadTx) ([]Event, error) {
	var past []Event
	for _, read := range []func(context.Context, *store.ReadTx) ([]Event, error){pastBatches, pastSteps, pastEpochs, pastConflicts} {
		events, err := read(ctx, tx)
		if err != nil {
			return nil, err
		}
		past = append(past, events...)
	}
	slices.SortStableFunc(past, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return past[max(0, len(past)-recalledEvents):], nil
}

var lastRows = store.Page{Limit: recalledEvents}

func pastBatches(ctx context.Context, tx *store.ReadTx) ([]Event, error) {
	rows, _, err := tx.Batches(ctx, lastRows)
	slices.Reverse(rows)
	events := make([]Event, len(rows))
	for i := 0; i < len(rows) && err == nil; i++ {
		h := &rows[i].Batch.Header
		events[i] = Event{Kind: EventBatch, At: rows[i].ReceivedAt, Agent: h.Agent, Stream: h.Stream, Index: h.Index, FromSeq: h.FromSeq, ToSeq: h.ToSeq, BatchID: rows[i].ID}
		events[i].State, err = continued(ctx, tx, &rows[i])
	}
	return events, err
}

// continued says how a batch continued its stream when it came: what the stream had
// then are the batches of lower positions.
func continued(ctx context.Context, tx *store.ReadTx, b *store.Batch) (string, error) {
	h := &b.Batch.Header
	later, err := tx.StreamFrom(ctx, h.Agent, h.Stream, h.Index+1, store.Mark{Position: b.Position}, 1)
	if err != nil || len(later) > 0 {
		return Filled, err
	}
	if h.Index == 0 {
		return Continuous, nil
	}
	before, err := tx.BatchOfIndex(ctx, h.Agent, h.Stream, h.Index-1)
	if errors.Is(err, store.ErrNotFound) || err == nil && before.Position > b.Position {
		return Gap, nil
	}
	return Continuous, err
}

// pastSteps tells of each step that it was opened, and of its verdict where that has
// decided something.
func pastSteps(ctx context.Context, tx *store.ReadTx) (events []Event, err error) {
	rows, err := tx.LatestSteps(ctx, recalledEvents)
	slices.Reverse(rows)
	for i := range rows {
		s := &rows[i]
		opened := verdictEvent(s, flight.Unverified(s.Verdict.Reason), s.OpenedAt)
		opened.Kind = EventOpened
		if s.Verdict.State == flight.Unverifiable {
			events = append(events, opened)
			continue
		}
		opened.Reason = flight.TxNotFound // as it was before the chain was asked
		events = append(events, opened, verdictEvent(s, s.Verdict, s.CheckedAt))
	}
	return events, err
}

func pastEpochs(ctx context.Context, tx *store.ReadTx) (events []Event, err error) {
	rows, _, err := tx.Epochs(ctx, lastRows)
	slices.Reverse(rows)
	for i := range rows {
		e := &rows[i]
		event := Event{Kind: EventEpoch, At: e.StateAt, Epoch: e.ID, Batches: e.Count(), State: string(e.State)}
		if e.BlockNumber != nil {
			event.BlockNum = *e.BlockNumber
		}
		events = append(events, event)
	}
	return events, err
}

func pastConflicts(ctx context.Context, tx *store.ReadTx) (events []Event, err error) {
	rows, _, err := tx.EvidenceList(ctx, nil, lastRows)
	slices.Reverse(rows)
	for i := range rows {
		e := &rows[i]
		events = append(events, Event{Kind: EventConflict, At: e.At, Agent: e.Agent, Stream: e.Stream, Index: e.Index, State: e.Reason})
	}
	return events, err
}
