package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"karatum/flight"
	"karatum/flight/merkle"
	"karatum/store"
)

// How much one snapshot of an export reads. A snapshot is given up between two
// parts, and nothing is written to the reader while one is held.
const (
	exportBatches = 256
	exportSteps   = 16 // each may open a claim of 1 MiB
	exportKept    = 32 // epochs, and receipt groups, that are remembered; 200 KB each at most
)

// An Export is an agent's record, ready to be written. It holds what was stored
// when it was made: batches, disclosures and evidence keep their place, so they are
// read in parts up to a mark, and no snapshot is held for long. Of what changes
// without a place, verdicts and the progress of anchors, it tells what the part
// that it reads them in sees.
type Export struct {
	a        *App
	agent    flight.Address
	mark     store.Mark
	manifest ArchiveManifest

	out      *archiveWriter
	epochs   map[uint64]*exportEpoch // by number
	receipts map[uint64][]flight.Receipt
	anchors  map[uint64]bool // chain ids
	claims   map[uint64]bool
}

type exportEpoch struct {
	store.Epoch
	proofs []flight.Proof
}

// Export prepares the record of an agent, or returns UNKNOWN_AGENT.
func (a *App) Export(ctx context.Context, agent flight.Address) (*Export, error) {
	e := &Export{a: a, agent: agent, epochs: map[uint64]*exportEpoch{}, receipts: map[uint64][]flight.Receipt{}, anchors: map[uint64]bool{}, claims: map[uint64]bool{}}
	err := a.view(ctx, ErrUnknownAgent, func(tx *store.ReadTx) error {
		row, err := tx.Agent(ctx, agent)
		if err != nil {
			return err
		}
		v, err := agentView(ctx, tx, &row)
		if err != nil {
			return err
		}
		if e.mark, err = tx.Mark(ctx); err != nil {
			return err
		}
		e.manifest = ArchiveManifest{Format: ArchiveFormat, Agent: agent, Node: a.keys.Receipt.Address(), ExportedAt: a.nowMs()}
		e.manifest.NodeClaims, err = json.Marshal(v)
		return err
	})
	return e, err
}

// Write writes the archive, once. Memory does not grow with the record. An error
// leaves w with an archive that ends early, which a verification refuses.
func (e *Export) Write(ctx context.Context, w io.Writer) error {
	e.out = newArchiveWriter(w)
	err := e.batches(ctx)
	if err == nil {
		err = e.disclosures(ctx)
	}
	if err == nil {
		err = e.evidence(ctx)
	}
	if err != nil {
		return err
	}
	e.manifest.Chains = ArchiveChains{Anchors: rising(e.anchors), Claims: rising(e.claims)}
	return e.out.close(&e.manifest)
}

// rising returns the keys in order, never nil.
func rising(set map[uint64]bool) []uint64 {
	return append([]uint64{}, slices.Sorted(maps.Keys(set))...)
}

// An archivedBatch is one line of batches.
type archivedBatch struct {
	Batch   flight.Batch    `json:"batch"`
	Receipt *flight.Receipt `json:"receipt"`
	Proof   *BatchProofView `json:"proof,omitempty"`
}

func (e *Export) batches(ctx context.Context) error {
	for stream, more := "", true; more; {
		err := e.a.view(ctx, nil, func(tx *store.ReadTx) (err error) {
			stream, err = tx.StreamAfter(ctx, e.agent, stream)
			if more = !errors.Is(err, store.ErrNotFound); !more {
				return nil
			}
			return err
		})
		if err == nil && more {
			err = e.stream(ctx, stream)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stream writes the batches of a stream. One that is younger than the mark has none.
func (e *Export) stream(ctx context.Context, name string) error {
	for index, full := uint64(0), true; full; {
		var lines []archivedBatch
		err := e.a.view(ctx, nil, func(tx *store.ReadTx) error {
			rows, err := tx.StreamFrom(ctx, e.agent, name, index, e.mark, exportBatches)
			lines = make([]archivedBatch, len(rows))
			for i := 0; i < len(rows) && err == nil; i++ {
				lines[i], err = e.batch(ctx, tx, &rows[i])
			}
			return err
		})
		if err != nil {
			return err
		}
		if index == 0 && len(lines) > 0 {
			e.manifest.Counts.Streams++
		}
		for i := range lines {
			h := &lines[i].Batch.Header
			e.manifest.Counts.Missing += h.Index - index
			index = h.Index + 1
			if err := e.addBatch(&lines[i]); err != nil {
				return err
			}
		}
		full = len(lines) == exportBatches
	}
	return nil
}

func (e *Export) addBatch(line *archivedBatch) error {
	e.manifest.Counts.Batches++
	if line.Proof != nil {
		e.manifest.Counts.Anchored++
		e.anchors[line.Proof.Anchor.ChainID] = true
	}
	return e.out.add(membersBatches, line)
}

func (e *Export) batch(ctx context.Context, tx *store.ReadTx, b *store.Batch) (archivedBatch, error) {
	line := archivedBatch{Batch: b.Batch}
	r, err := e.receipt(ctx, tx, b.Position)
	if err != nil {
		return line, err
	}
	line.Receipt = r
	ep, err := e.epoch(ctx, tx, b.Position)
	if err != nil || ep.TxHash == nil {
		return line, err
	}
	line.Proof = &BatchProofView{BatchID: b.ID, Epoch: EpochHead{Root: ep.Root, BatchCount: ep.Count()}, Proof: ep.proofs[b.Position-ep.First], Anchor: e.a.anchorView(&ep.Epoch)}
	return line, nil
}

// receipt returns the receipt of a position; neighbours share a group.
func (e *Export) receipt(ctx context.Context, tx *store.ReadTx, position uint64) (*flight.Receipt, error) {
	for first, rs := range e.receipts {
		if position >= first && position-first < uint64(len(rs)) {
			return &rs[position-first], nil
		}
	}
	rs, err := tx.ReceiptGroup(ctx, position)
	if err != nil {
		return nil, err
	}
	if len(e.receipts) >= exportKept {
		clear(e.receipts)
	}
	e.receipts[rs[0].Position] = rs
	return &rs[position-rs[0].Position], nil
}

// epoch returns the epoch of a position with its proofs, an empty one where there
// is none yet.
func (e *Export) epoch(ctx context.Context, tx *store.ReadTx, position uint64) (*exportEpoch, error) {
	for _, ep := range e.epochs {
		if position >= ep.First && position <= ep.Last {
			return ep, nil
		}
	}
	row, err := tx.EpochOf(ctx, position)
	if errors.Is(err, store.ErrNotFound) {
		return &exportEpoch{}, nil
	}
	if err != nil {
		return nil, err
	}
	ids, err := tx.EpochMembers(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	ep := &exportEpoch{Epoch: row}
	if _, ep.proofs, err = merkle.Proofs(ids); err != nil {
		return nil, err
	}
	if len(e.epochs) >= exportKept {
		clear(e.epochs)
	}
	e.epochs[row.ID] = ep
	return ep, nil
}

// An archivedStep is one line of disclosures.
type archivedStep struct {
	Disclosure json.RawMessage `json:"disclosure"`
	NodeClaims NodeClaims      `json:"nodeClaims"`
}

func (e *Export) disclosures(ctx context.Context) error {
	for after, full := uint64(0), true; full; {
		var lines []archivedStep
		err := e.a.view(ctx, nil, func(tx *store.ReadTx) error {
			rows, last, err := tx.StepsAfter(ctx, e.agent, after, e.mark, exportSteps)
			lines = make([]archivedStep, len(rows))
			for i := 0; i < len(rows) && err == nil; i++ {
				lines[i], err = e.step(ctx, tx, &rows[i])
			}
			after, full = last, len(rows) == exportSteps
			return err
		})
		if err != nil {
			return err
		}
		for i := range lines {
			e.manifest.Counts.Disclosures++
			if err := e.out.add(membersDisclosures, &lines[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Export) step(ctx context.Context, tx *store.ReadTx, s *store.Step) (archivedStep, error) {
	line := archivedStep{NodeClaims: NodeClaims{Late: s.Late, OpenedAt: s.OpenedAt, Verdict: VerdictView{
		Verdict: s.Verdict, ChainID: s.ChainID, TxHash: s.TxHash, Final: s.Final, At: s.CheckedAt}}}
	if s.BlockNumber != 0 {
		line.NodeClaims.Verdict.BlockNumber = &s.BlockNumber
	}
	b, err := tx.BatchAt(ctx, s.Position)
	if err != nil {
		return line, err
	}
	if s.TxHash != nil {
		e.claims[s.ChainID] = true
	}
	line.Disclosure, err = disclosureJSON(&b, s)
	return line, err
}

func (e *Export) evidence(ctx context.Context) error {
	for after, full := uint64(0), true; full; {
		var rows []store.Evidence
		err := e.a.view(ctx, nil, func(tx *store.ReadTx) (err error) {
			rows, err = tx.EvidenceAfter(ctx, e.agent, after, e.mark, exportSteps)
			return err
		})
		if err != nil {
			return err
		}
		for i := range rows {
			e.manifest.Counts.Evidence++
			after = rows[i].ID
			if err := e.out.add(membersEvidence, json.RawMessage(rows[i].JSON)); err != nil {
				return err
			}
		}
		full = len(rows) == exportSteps
	}
	return nil
}
