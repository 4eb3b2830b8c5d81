package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"karatum/flight"
	"karatum/store"
)

// A SealedStepView is what a node can say of a step that nobody opened: which batch
// covers its number, and nothing of what is in it. Neither its record nor its proof was
// ever sent, so its hash is known only where a signed header states it.
type SealedStepView struct {
	Agent     flight.Address   `json:"agent"`
	Stream    string           `json:"stream"`
	Seq       uint64           `json:"seq"`
	Sealed    bool             `json:"sealed"`             // always true: a disclosed step has another answer
	StepHash  *flight.Hash     `json:"stepHash,omitempty"` // of the last step of a batch: the header's head
	Prev      *flight.Hash     `json:"prev,omitempty"`     // hash of the step before, of the first step of a batch: the header's prevHead
	Index     uint64           `json:"index"`              // place in the batch, from 0
	Size      uint64           `json:"size"`               // steps of the batch
	Batch     BatchView        `json:"batch"`
	Neighbors []SealedNeighbor `json:"neighbors"` // the step before and the one after, as far as there are any
}

// What is known of the step beside a sealed one.
const (
	NeighborOpened  = "opened"
	NeighborSealed  = "sealed"
	NeighborMissing = "missing" // no stored batch covers it
)

// A SealedNeighbor is the step before or after a sealed one.
type SealedNeighbor struct {
	Seq     uint64 `json:"seq"`
	Known   string `json:"known"`             // opened, sealed or missing
	Verdict string `json:"verdict,omitempty"` // of one that is opened
}

// SealedStep returns what is known of a step that was never disclosed. The error is
// UNKNOWN_STEP where no stored batch covers the number, and says why that is.
func (a *App) SealedStep(ctx context.Context, agent flight.Address, stream string, seq uint64) (SealedStepView, error) {
	v := SealedStepView{Agent: agent, Stream: stream, Seq: seq, Sealed: true}
	err := a.view(ctx, ErrUnknownStep, func(tx *store.ReadTx) error {
		st, err := tx.Stream(ctx, agent, stream)
		if err != nil {
			return err
		}
		b, err := tx.BatchFrom(ctx, agent, stream, seq)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		h := &b.Batch.Header
		if err != nil || seq > h.ToSeq {
			return uncovered(ctx, tx, &st, seq, err == nil, h.Index+1)
		}
		if v.Batch, err = wholeBatch(ctx, tx, &b); err != nil {
			return err
		}
		v.Index, v.Size = seq-h.FromSeq, h.ToSeq-h.FromSeq+1
		if seq == h.FromSeq {
			v.Prev = &v.Batch.Header.PrevHead
		}
		if seq == h.ToSeq {
			v.StepHash = &v.Batch.Header.Head
		}
		return v.neighbors(ctx, tx, &st)
	})
	return v, err
}

// uncovered says why no stored batch covers a step: it lies past the last one, or in the
// gap that begins at the index next, which is 0 where nothing lies before it.
func uncovered(ctx context.Context, tx *store.ReadTx, st *store.Stream, seq uint64, after bool, next uint64) error {
	if seq > st.LastSeq {
		return noStep("this node has no batch that reaches step %d; the last step of the stream that one covers is %d", seq, st.LastSeq)
	}
	if !after {
		next = 0
	}
	g, err := tx.GapFrom(ctx, st.Agent, st.Name, next)
	if err != nil {
		return err
	}
	return noStep("step %d is in a gap: no batch with the steps %d to %d was ever delivered to this node", seq, g.FirstSeq, g.LastSeq)
}

func noStep(format string, args ...any) error {
	return &Error{Code: ErrUnknownStep.Code, Status: http.StatusNotFound, Message: fmt.Sprintf(format, args...)}
}

// neighbors fills in the step before and the step after. Batches with neighbouring
// indexes have no step between them, and others have at least one.
func (v *SealedStepView) neighbors(ctx context.Context, tx *store.ReadTx, st *store.Stream) error {
	h := &v.Batch.Header
	marks, err := tx.StepMarks(ctx, v.Agent, v.Stream, v.Seq-min(v.Seq, 1), v.Seq+1, 3)
	if err != nil {
		return err
	}
	v.Neighbors = []SealedNeighbor{}
	add := func(seq uint64, edge bool, index uint64) error {
		n := SealedNeighbor{Seq: seq, Known: NeighborSealed}
		for _, m := range marks {
			if m.Seq == seq {
				n.Known, n.Verdict = NeighborOpened, m.State
			}
		}
		if edge {
			_, err := tx.BatchOfIndex(ctx, v.Agent, v.Stream, index)
			if errors.Is(err, store.ErrNotFound) {
				n.Known = NeighborMissing
			} else if err != nil {
				return err
			}
		}
		v.Neighbors = append(v.Neighbors, n)
		return nil
	}
	if v.Seq > 0 {
		if err := add(v.Seq-1, v.Seq == h.FromSeq, h.Index-1); err != nil {
			return err
		}
	}
	if v.Seq < st.LastSeq {
		return add(v.Seq+1, v.Seq == h.ToSeq, h.Index+1)
	}
	return nil
}

// OpenedSteps are the first opened steps of a batch, and how many there are in all.
type OpenedSteps struct {
	Steps []TapeStep
	Count uint64
}

// BatchSteps returns the opened steps of a batch by number, up to limit; every other one
// is sealed. The error is UNKNOWN_BATCH.
func (a *App) BatchSteps(ctx context.Context, id flight.Hash, limit int) (OpenedSteps, error) {
	out := OpenedSteps{Steps: []TapeStep{}}
	err := a.view(ctx, ErrUnknownBatch, func(tx *store.ReadTx) error {
		b, err := tx.Batch(ctx, id)
		if err != nil {
			return err
		}
		h := &b.Batch.Header
		marks, err := tx.StepMarks(ctx, h.Agent, h.Stream, h.FromSeq, h.ToSeq, limit)
		if err != nil {
			return err
		}
		for _, m := range marks {
			out.Steps = append(out.Steps, TapeStep(m))
		}
		out.Count = uint64(len(marks))
		if len(marks) == limit { // there may be more
			out.Count, err = tx.CountSteps(ctx, h.Agent, h.Stream, h.FromSeq, h.ToSeq)
		}
		return err
	})
	return out, err
}
