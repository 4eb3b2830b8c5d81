package app

import (
	"context"
	"slices"

	"karatum/flight"
	"karatum/store"
)

// A NetworkView names the network on which a node anchors.
type NetworkView struct {
	Name    string `json:"name"`
	ChainID uint64 `json:"chainId"`
	Public  bool   `json:"public"` // false for the embedded dev chain, which nobody else sees
}

// Network returns the network on which the node anchors.
func (a *App) Network() NetworkView {
	n := a.anchor.Network
	return NetworkView{Name: n.Name, ChainID: n.ChainID, Public: n.Public}
}

// maxTapeBatches is the most batches of one tape: with one step in each, a tape of
// more steps is cut there.
const maxTapeBatches = 200

// A TapeView is the newest part of a stream, oldest first: which steps were
// delivered, opened and anchored.
type TapeView struct {
	Agent   flight.Address `json:"agent"`
	Stream  string         `json:"stream"`
	From    uint64         `json:"from"` // first and last step of the part
	To      uint64         `json:"to"`
	Batches []TapeBatch    `json:"batches"`
	Gaps    []Missing      `json:"gaps"`   // that reach into the part
	Opened  []TapeStep     `json:"opened"` // every other delivered step is sealed
}

// A TapeBatch is one batch of a tape.
type TapeBatch struct {
	Index    uint64      `json:"index"`
	BatchID  flight.Hash `json:"batchId"`
	FromSeq  uint64      `json:"fromSeq"`
	ToSeq    uint64      `json:"toSeq"`
	Anchored bool        `json:"anchored"` // its epoch is in a block
}

// A TapeStep is one opened step of a tape.
type TapeStep struct {
	Seq       uint64 `json:"seq"`
	State     string `json:"state"`
	ClaimKind string `json:"claimKind,omitempty"`
}

// Tape returns the last steps of a stream, at most the given number, or
// UNKNOWN_STREAM.
func (a *App) Tape(ctx context.Context, agent flight.Address, stream string, steps uint64) (TapeView, error) {
	v := TapeView{Agent: agent, Stream: stream, Batches: []TapeBatch{}, Gaps: []Missing{}, Opened: []TapeStep{}}
	err := a.view(ctx, ErrUnknownStream, func(tx *store.ReadTx) error {
		st, err := tx.Stream(ctx, agent, stream)
		if err != nil {
			return err
		}
		v.To = st.LastSeq
		v.From = st.LastSeq + 1 - min(steps, st.LastSeq+1)
		rows, err := tapeRows(ctx, tx, &v)
		if err != nil {
			return err
		}
		if err := tapeBatches(ctx, tx, &v, rows); err != nil {
			return err
		}
		return tapeMarks(ctx, tx, &v)
	})
	return v, err
}

// tapeRows reads the newest batches, newest first, until they reach the begin of the
// tape: most tapes hold far fewer than there may be.
func tapeRows(ctx context.Context, tx *store.ReadTx, v *TapeView) (rows []store.Batch, err error) {
	p := store.Page{Limit: maxTapeBatches / 8}
	for len(rows) < maxTapeBatches {
		var part []store.Batch
		part, p.Cursor, err = tx.StreamBatches(ctx, v.Agent, v.Stream, p)
		rows = append(rows, part...)
		if err != nil || p.Cursor == "" || rows[len(rows)-1].Batch.Header.FromSeq <= v.From {
			break
		}
	}
	return rows, err
}

// tapeBatches takes the rows, newest first, that reach into the tape.
func tapeBatches(ctx context.Context, tx *store.ReadTx, v *TapeView, rows []store.Batch) error {
	epochs := &finder{tx: tx}
	for i := range rows {
		h := &rows[i].Batch.Header
		if h.ToSeq < v.From {
			break
		}
		if i == maxTapeBatches-1 { // the rows end before the tape does
			v.From = max(v.From, h.FromSeq)
		}
		e, err := epochs.of(ctx, rows[i].Position)
		if err != nil {
			return err
		}
		v.Batches = append(v.Batches, TapeBatch{Index: h.Index, BatchID: rows[i].ID, FromSeq: h.FromSeq, ToSeq: h.ToSeq, Anchored: inBlock(e.State)})
	}
	for i, j := 0, len(v.Batches)-1; i < j; i, j = i+1, j-1 {
		v.Batches[i], v.Batches[j] = v.Batches[j], v.Batches[i]
	}
	return nil
}

func inBlock(s store.EpochState) bool {
	return s == store.EpochIncluded || s == store.EpochSafe || s == store.EpochFinal
}

func tapeMarks(ctx context.Context, tx *store.ReadTx, v *TapeView) error {
	gaps, err := tx.LastGaps(ctx, v.Agent, v.Stream, maxTapeBatches)
	if err != nil {
		return err
	}
	for _, g := range slices.Backward(gaps) {
		if g.LastSeq >= v.From {
			v.Gaps = append(v.Gaps, Missing{Indexes: [2]uint64{g.FirstIndex, g.LastIndex}, Seqs: [2]uint64{g.FirstSeq, g.LastSeq}})
		}
	}
	marks, err := tx.StepMarks(ctx, v.Agent, v.Stream, v.From, v.To, int(v.To-v.From+1))
	for _, m := range marks {
		v.Opened = append(v.Opened, TapeStep(m))
	}
	return err
}
