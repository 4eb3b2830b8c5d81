package app

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"karatum/chain/eas"
	"karatum/flight"
	"karatum/store"
)

// maxGaps is the most gaps that one answer lists.
const maxGaps = 200

// view runs a read and translates its error; missing is what a missing row means
// to the caller.
func (a *App) view(ctx context.Context, missing *Error, fn func(tx *store.ReadTx) error) error {
	err := a.store.View(ctx, fn)
	if errors.Is(err, store.ErrCursor) {
		return badRequest("cursor", "this list did not give out the cursor")
	}
	if missing != nil {
		err = notFound(err, missing)
	}
	return a.fault(ctx, "read", outward(err))
}

func page(p Page) store.Page { return store.Page{Cursor: p.Cursor, Limit: p.Limit} }

// mapList turns rows into what is shown.
func mapList[T, V any](rows []T, next string, view func(*T) V) List[V] {
	l := List[V]{Items: make([]V, len(rows)), Next: next}
	for i := range rows {
		l.Items[i] = view(&rows[i])
	}
	return l
}

// Batch returns a stored batch, or UNKNOWN_BATCH.
func (a *App) Batch(ctx context.Context, id flight.Hash) (BatchView, error) {
	var v BatchView
	err := a.view(ctx, ErrUnknownBatch, func(tx *store.ReadTx) error {
		b, err := tx.Batch(ctx, id)
		if err != nil {
			return err
		}
		v, err = wholeBatch(ctx, tx, &b)
		return err
	})
	return v, err
}

// wholeBatch is the view of one batch, with its receipt.
func wholeBatch(ctx context.Context, tx *store.ReadTx, b *store.Batch) (BatchView, error) {
	v, err := batchView(ctx, &finder{tx: tx}, b)
	if err != nil {
		return v, err
	}
	r, err := tx.Receipt(ctx, b.Position)
	v.Receipt = &r
	return v, err
}

func batchView(ctx context.Context, epochs *finder, b *store.Batch) (BatchView, error) {
	v := BatchView{BatchID: b.ID, Header: b.Batch.Header, Scheme: b.Batch.Scheme, Signature: b.Batch.Signature}
	var err error
	v.Epoch, err = epochs.ref(ctx, b.Position)
	return v, err
}

// A finder looks up the batches and epochs of positions. It remembers the last
// ones, in which the neighbours in a list mostly are.
type finder struct {
	tx    *store.ReadTx
	last  store.Epoch
	batch store.Batch
}

// at returns the batch at a position.
func (f *finder) at(ctx context.Context, position uint64) (*store.Batch, error) {
	if f.batch.Position == position {
		return &f.batch, nil
	}
	b, err := f.tx.BatchAt(ctx, position)
	if err != nil {
		return nil, err
	}
	f.batch = b
	return &f.batch, nil
}

// of returns the epoch of a position, one without a state where it has none yet.
func (f *finder) of(ctx context.Context, position uint64) (*store.Epoch, error) {
	if position >= f.last.First && position <= f.last.Last {
		return &f.last, nil
	}
	e, err := f.tx.EpochOf(ctx, position)
	if errors.Is(err, store.ErrNotFound) {
		return &store.Epoch{}, nil
	}
	f.last = e
	return &f.last, err
}

// ref returns what points at the epoch of a position, nil where it has none yet.
func (f *finder) ref(ctx context.Context, position uint64) (*EpochRef, error) {
	e, err := f.of(ctx, position)
	if err != nil || e.State == "" {
		return nil, err
	}
	return &EpochRef{ID: e.ID, Root: e.Root, State: string(e.State)}, nil
}

// BatchProof returns the place of a batch in its anchored epoch. The error is
// UNKNOWN_BATCH, or NOT_ANCHORED with the time of the next run.
func (a *App) BatchProof(ctx context.Context, id flight.Hash) (BatchProofView, error) {
	var v BatchProofView
	err := a.view(ctx, ErrUnknownBatch, func(tx *store.ReadTx) error {
		b, err := tx.Batch(ctx, id)
		if err != nil {
			return err
		}
		e, err := tx.EpochOf(ctx, b.Position)
		if errors.Is(err, store.ErrNotFound) || err == nil && e.TxHash == nil {
			return a.notAnchored()
		}
		if err != nil {
			return err
		}
		members, err := tx.EpochMembers(ctx, e.ID)
		if err != nil {
			return err
		}
		v = BatchProofView{BatchID: id, Epoch: EpochHead{Root: e.Root, BatchCount: e.Count()}, Anchor: a.anchorView(&e)}
		v.Proof, err = flight.EpochProof(members, int(b.Position-e.First))
		return err
	})
	return v, err
}

func (a *App) notAnchored() error {
	return &Error{
		Code: "NOT_ANCHORED", Status: http.StatusConflict, Message: "the batch is stored and waits for its epoch to be anchored",
		Details: map[string]any{"nextRun": a.crons.next("anchor")},
	}
}

func (a *App) anchorView(e *store.Epoch) AnchorView {
	v := AnchorView{
		ChainID: e.ChainID, EAS: flight.Address(a.anchor.Network.EAS), SchemaUID: flight.Hash(eas.EpochSchemaUID()),
		Attester: a.keys.Anchor.Address(), State: string(e.State),
	}
	if e.TxHash != nil {
		v.TxHash, v.BlockNumber, v.BlockHash, v.AttestationUID = e.TxHash, e.BlockNumber, e.BlockHash, e.AttestationUID
		v.EAS, v.SchemaUID, v.Attester = e.EAS, e.SchemaUID, e.Attester
	}
	return v
}

// Epochs lists the epochs, newest first.
func (a *App) Epochs(ctx context.Context, p Page) (List[EpochView], error) {
	var l List[EpochView]
	err := a.view(ctx, nil, func(tx *store.ReadTx) error {
		rows, next, err := tx.Epochs(ctx, page(p))
		l = mapList(rows, next, a.epochHead)
		return err
	})
	return l, err
}

func (a *App) epochHead(e *store.Epoch) EpochView {
	return EpochView{
		ID: e.ID, Root: e.Root, BatchCount: e.Count(), First: e.First, Last: e.Last, CreatedAt: e.CreatedAt, Anchor: a.anchorView(e),
		Times: map[string]uint64{string(e.State): e.StateAt},
	}
}

// Epoch returns an epoch by its root or number, with its members and history, or
// UNKNOWN_EPOCH.
func (a *App) Epoch(ctx context.Context, rootOrID string) (EpochView, error) {
	var v EpochView
	err := a.view(ctx, ErrUnknownEpoch, func(tx *store.ReadTx) error {
		e, err := findEpoch(ctx, tx, rootOrID)
		if err != nil {
			return err
		}
		v = a.epochHead(&e)
		events, err := tx.EpochEvents(ctx, e.ID)
		if err != nil {
			return err
		}
		for _, ev := range events {
			v.Times[string(ev.State)] = ev.At
			v.LastError = ev.Note
		}
		v.Batches, err = tx.EpochMembers(ctx, e.ID)
		return err
	})
	return v, err
}

func findEpoch(ctx context.Context, tx *store.ReadTx, rootOrID string) (store.Epoch, error) {
	if root, err := flight.ParseHash(rootOrID); err == nil {
		return tx.EpochByRoot(ctx, root)
	}
	id, err := strconv.ParseUint(rootOrID, 10, 53)
	if err != nil {
		return store.Epoch{}, store.ErrNotFound
	}
	return tx.Epoch(ctx, id)
}

// Equivocations lists the evidence against one key, or all of it, newest first.
func (a *App) Equivocations(ctx context.Context, agent *flight.Address, p Page) (List[EvidenceView], error) {
	var l List[EvidenceView]
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) error {
		if agent != nil {
			if _, err := tx.Agent(ctx, *agent); err != nil {
				return err
			}
		}
		rows, next, err := tx.EvidenceList(ctx, agent, page(p))
		l = mapList(rows, next, evidenceView)
		return err
	})
	return l, err
}

// Equivocation returns one evidence by its number, or UNKNOWN_EVIDENCE.
func (a *App) Equivocation(ctx context.Context, id uint64) (EvidenceView, error) {
	var v EvidenceView
	err := a.view(ctx, ErrNoEvidence, func(tx *store.ReadTx) error {
		row, err := tx.EvidenceByID(ctx, id)
		v = evidenceView(&row)
		return err
	})
	return v, err
}

func evidenceView(e *store.Evidence) EvidenceView {
	return EvidenceView{ID: e.ID, Agent: e.Agent, Stream: e.Stream, Index: e.Index, Reason: e.Reason, SeenAt: e.At, Evidence: e.JSON}
}

// DeleteReveals removes the published fields of a step, its claim excepted. What
// others have copied stays with them.
func (a *App) DeleteReveals(ctx context.Context, hash flight.Hash) error {
	err := a.store.Update(ctx, func(tx *store.Tx) error { return tx.DeleteReveals(ctx, hash) })
	return a.fault(ctx, "delete reveals", notFound(err, ErrUnknownStep))
}
