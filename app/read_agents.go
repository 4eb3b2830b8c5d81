package app

import (
	"context"
	"encoding/json"
	"errors"

	"karatum/flight"
	"karatum/store"
)

// Step returns a disclosed step, or UNKNOWN_STEP.
func (a *App) Step(ctx context.Context, hash flight.Hash) (StepView, error) {
	return a.step(ctx, func(tx *store.ReadTx) (store.Step, error) { return tx.Step(ctx, hash) })
}

// StepAt returns the disclosed step of that number, or UNKNOWN_STEP.
func (a *App) StepAt(ctx context.Context, agent flight.Address, stream string, seq uint64) (StepView, error) {
	return a.step(ctx, func(tx *store.ReadTx) (store.Step, error) { return tx.StepAt(ctx, agent, stream, seq) })
}

func (a *App) step(ctx context.Context, find func(*store.ReadTx) (store.Step, error)) (StepView, error) {
	var v StepView
	err := a.view(ctx, ErrUnknownStep, func(tx *store.ReadTx) error {
		s, err := find(tx)
		if err != nil {
			return err
		}
		v, err = stepView(ctx, &finder{tx: tx}, &s)
		return err
	})
	return v, err
}

func stepView(ctx context.Context, near *finder, s *store.Step) (StepView, error) {
	v := StepView{
		StepHash: s.Hash, BatchID: s.BatchID, Step: s.Record, Opened: s.Opened, ReceivedAt: s.OpenedAt, Late: s.Late,
		Verdict: chainVerdict(s), Claim: json.RawMessage("null"),
	}
	b, err := near.at(ctx, s.Position)
	if err != nil {
		return v, err
	}
	if v.Disclosure, err = disclosureJSON(b, s); err != nil {
		return v, err
	}
	if len(s.Claim) > 0 {
		if v.Claim, err = openedValue(s.Claim); err != nil {
			return v, err
		}
	}
	if v.Replay, err = replayJSON(ctx, near.tx, s); err != nil {
		return v, err
	}
	v.EpochOf, err = near.ref(ctx, s.Position)
	return v, err
}

// replayJSON returns the replay of a step's transaction as JSON, null where none
// was asked for.
func replayJSON(ctx context.Context, tx *store.ReadTx, s *store.Step) (json.RawMessage, error) {
	row, err := replayOf(ctx, tx, s)
	if errors.Is(err, store.ErrNotFound) {
		return json.RawMessage("null"), nil
	}
	if err != nil {
		return nil, err
	}
	v, err := replayView(row, s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// Steps lists the disclosed steps of a key, newest first: all where state is empty,
// else those with that verdict.
func (a *App) Steps(ctx context.Context, agent flight.Address, state flight.State, p Page) (List[StepView], error) {
	l := List[StepView]{Items: []StepView{}}
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) error {
		if _, err := tx.Agent(ctx, agent); err != nil {
			return err
		}
		rows, next, err := tx.Steps(ctx, agent, state, page(p))
		l.Next = next
		epochs := &finder{tx: tx}
		for i := range rows {
			if err != nil {
				return err
			}
			var v StepView
			v, err = stepView(ctx, epochs, &rows[i])
			l.Items = append(l.Items, v)
		}
		return err
	})
	return l, err
}

// maxStepCount is how far StepCounts counts.
const maxStepCount = 1000

// StepCounts counts the disclosed steps of a key by their verdict, each up to 1,000.
// They are more than the transactions of a rating where steps share one.
func (a *App) StepCounts(ctx context.Context, agent flight.Address) (VerdictsView, error) {
	var v VerdictsView
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) (err error) {
		for state, n := range map[flight.State]*uint64{flight.Confirmed: &v.Confirmed, flight.Contradicted: &v.Contradicted, flight.Unverifiable: &v.Unverifiable} {
			if *n, err = tx.StepsWith(ctx, agent, state, maxStepCount); err != nil {
				return err
			}
		}
		return nil
	})
	return v, err
}

// Agents lists the keys that were seen, the last seen first.
func (a *App) Agents(ctx context.Context, p Page) (List[AgentView], error) {
	l := List[AgentView]{Items: []AgentView{}}
	err := a.view(ctx, nil, func(tx *store.ReadTx) error {
		rows, next, err := tx.Agents(ctx, page(p))
		l.Next = next
		for i := range rows {
			if err != nil {
				return err
			}
			var v AgentView
			v, err = agentView(ctx, tx, &rows[i])
			l.Items = append(l.Items, v)
		}
		return err
	})
	return l, err
}

// Agent returns the field record of a key, or UNKNOWN_AGENT.
func (a *App) Agent(ctx context.Context, addr flight.Address) (AgentView, error) {
	var v AgentView
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) error {
		row, err := tx.Agent(ctx, addr)
		if err != nil {
			return err
		}
		v, err = agentView(ctx, tx, &row)
		return err
	})
	return v, err
}

func agentView(ctx context.Context, tx *store.ReadTx, r *store.Agent) (AgentView, error) {
	v := AgentView{
		Address: r.Address, FirstSeen: r.FirstSeen, LastSeen: r.LastSeen, Batches: r.Batches, RecordedSteps: r.Steps,
		OpenedSteps: r.Opened, Streams: r.Streams, Equivocations: r.Evidence, Equivocated: r.Evidence > 0,
		Binding: "unbound", Claims: map[string]uint64{},
	}
	if r.Steps > 0 {
		v.Coverage = float64(r.Opened) / float64(r.Steps)
	}
	tallies, err := tx.Tallies(ctx, r.Address)
	if err != nil {
		return v, err
	}
	for _, t := range tallies {
		if t.Kind != "" {
			v.Claims[t.Kind] += t.Confirmed + t.Contradicted + t.Unverifiable
			continue
		}
		rating := RatingView{
			Rating: flight.Rating(t.Confirmed, t.Contradicted), Confirmed: t.Confirmed, Contradicted: t.Contradicted, Unverifiable: t.Unverifiable,
		}
		if t.Dev {
			v.DevField = rating
		} else {
			v.Field = rating
		}
		v.Besides.Self += t.Self
		v.Besides.Zero += t.Zero
		v.Besides.Late += t.Late
		v.Besides.Counterparties += t.Counterparties
	}
	return v, nil
}

// Stream returns one stream with its gaps and head, or UNKNOWN_STREAM.
func (a *App) Stream(ctx context.Context, agent flight.Address, name string) (StreamView, error) {
	var v StreamView
	err := a.view(ctx, ErrUnknownStream, func(tx *store.ReadTx) error {
		s, err := tx.Stream(ctx, agent, name)
		if err != nil {
			return err
		}
		v, err = streamView(ctx, tx, &s)
		return err
	})
	return v, err
}

func streamView(ctx context.Context, tx *store.ReadTx, s *store.Stream) (StreamView, error) {
	v := StreamView{
		Agent: s.Agent, Stream: s.Name, Batches: s.Batches, LastSeenAt: s.LastSeen, Gaps: []Missing{},
		Head: &StreamHead{Index: s.LastIndex, ToSeq: s.LastSeq, Head: s.Head, BatchID: s.LastID},
	}
	if s.Missing() == 0 {
		return v, nil
	}
	gaps, err := tx.Gaps(ctx, s.Agent, s.Name, maxGaps)
	for _, g := range gaps {
		v.Gaps = append(v.Gaps, Missing{Indexes: [2]uint64{g.FirstIndex, g.LastIndex}, Seqs: [2]uint64{g.FirstSeq, g.LastSeq}})
	}
	return v, err
}

// Streams lists the streams of a key.
func (a *App) Streams(ctx context.Context, agent flight.Address, p Page) (List[StreamView], error) {
	l := List[StreamView]{Items: []StreamView{}}
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) error {
		if _, err := tx.Agent(ctx, agent); err != nil {
			return err
		}
		rows, next, err := tx.Streams(ctx, agent, page(p))
		l.Next = next
		for i := range rows {
			if err != nil {
				return err
			}
			var v StreamView
			v, err = streamView(ctx, tx, &rows[i])
			l.Items = append(l.Items, v)
		}
		return err
	})
	return l, err
}

// StreamBatches lists the batches of a stream, the highest index first.
func (a *App) StreamBatches(ctx context.Context, agent flight.Address, name string, p Page) (List[BatchView], error) {
	l := List[BatchView]{Items: []BatchView{}}
	err := a.view(ctx, ErrUnknownStream, func(tx *store.ReadTx) error {
		if _, err := tx.Stream(ctx, agent, name); err != nil {
			return err
		}
		rows, next, err := tx.StreamBatches(ctx, agent, name, page(p))
		l.Next = next
		epochs := &finder{tx: tx}
		for i := range rows {
			if err != nil {
				return err
			}
			var v BatchView
			v, err = batchView(ctx, epochs, &rows[i])
			l.Items = append(l.Items, v)
		}
		return err
	})
	return l, err
}

// How far Anchoring looks.
const (
	maxPendingLook  = 4096 // batches in no epoch
	maxAnchoredLook = 64   // newest batches of the stream that was seen last
)

// Anchoring says how far the batches of a key are anchored, or UNKNOWN_AGENT.
func (a *App) Anchoring(ctx context.Context, agent flight.Address) (AnchoringView, error) {
	var v AnchoringView
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) error {
		row, err := tx.Agent(ctx, agent)
		if err != nil {
			return err
		}
		v.Batches = row.Batches
		if v.Waiting, err = tx.PendingOf(ctx, agent, maxPendingLook); err != nil {
			return err
		}
		v.Last, err = lastAnchored(ctx, tx, agent)
		return err
	})
	return v, err
}

// lastAnchored returns the epoch of the newest batch that is in a block, nil where it
// finds none.
func lastAnchored(ctx context.Context, tx *store.ReadTx, agent flight.Address) (*EpochRef, error) {
	streams, _, err := tx.Streams(ctx, agent, store.Page{Limit: 1})
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	rows, _, err := tx.StreamBatches(ctx, agent, streams[0].Name, store.Page{Limit: maxAnchoredLook})
	epochs := &finder{tx: tx}
	for i := range rows {
		if err != nil {
			return nil, err
		}
		var ref *EpochRef
		if ref, err = epochs.ref(ctx, rows[i].Position); err == nil && ref != nil && inBlock(store.EpochState(ref.State)) {
			return ref, nil
		}
	}
	return nil, err
}
