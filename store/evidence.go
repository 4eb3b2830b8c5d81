package store

import (
	"context"

	"karatum/flight"
)

// Evidence is one stored equivocation. JSON is the document that proves itself.
type Evidence struct {
	ID     uint64
	Agent  flight.Address
	Stream string
	Index  uint64
	Reason string
	JSON   []byte
	At     uint64 // unix ms
}

const selectEvidence = `SELECT e.id, a.address, s.name, e.idx, e.reason, e.json, e.at
	FROM evidence e CROSS JOIN agent a ON a.id = e.agent_id CROSS JOIN stream s ON s.id = e.stream_id`

func scanEvidence(s scanner) (e Evidence, err error) {
	err = s.Scan(num(&e.ID), bytesTo(e.Agent[:]), &e.Stream, num(&e.Index), &e.Reason, &e.JSON, num(&e.At))
	return e, err
}

// EvidenceByID returns one, or [ErrNotFound].
func (r *ReadTx) EvidenceByID(ctx context.Context, id uint64) (Evidence, error) {
	if id > 1<<62 {
		return Evidence{}, ErrNotFound
	}
	return first(ctx, r, scanEvidence, selectEvidence+` WHERE e.id = ?`, id)
}

// EvidenceList lists the evidence against one key, or all where agent is nil, the
// newest first.
func (r *ReadTx) EvidenceList(ctx context.Context, agent *flight.Address, p Page) ([]Evidence, string, error) {
	below, err := p.below()
	if err != nil {
		return nil, "", err
	}
	text, args := selectEvidence+` WHERE e.id < ? ORDER BY e.id DESC LIMIT ?`, []any{below, p.limit() + 1}
	if agent != nil {
		text = selectEvidence + ` WHERE e.agent_id = (SELECT id FROM agent WHERE address = ?) AND e.id < ? ORDER BY e.id DESC LIMIT ?`
		args = append([]any{agent[:]}, args...)
	}
	rows, err := list(ctx, r, scanEvidence, text, args...)
	rows, next := page(rows, p.limit(), func(e Evidence) string { return cursor(e.ID) })
	return rows, next, err
}

// Evidence returns the document stored for an index of a stream, or [ErrNotFound].
func (r *ReadTx) Evidence(ctx context.Context, agent flight.Address, stream string, index uint64) (doc []byte, err error) {
	id, err := r.streamID(ctx, agent, stream)
	if err != nil {
		return nil, err
	}
	err = r.one(ctx, []any{&doc}, `SELECT json FROM evidence WHERE stream_id = ? AND idx = ?`, id, index)
	return doc, err
}

// LatestEvidence returns the document stored last for a key, or [ErrNotFound].
func (r *ReadTx) LatestEvidence(ctx context.Context, agent flight.Address) (doc []byte, err error) {
	err = r.one(ctx, []any{&doc}, `SELECT json FROM evidence WHERE agent_id = (SELECT id FROM agent WHERE address = ?)
		ORDER BY id DESC LIMIT 1`, agent[:])
	return doc, err
}

// EvidenceCount returns how many are stored for a key.
func (tx *Tx) EvidenceCount(ctx context.Context, agent flight.Address) (uint64, error) {
	a, err := tx.w.agent(ctx, agent)
	if err != nil {
		return 0, err
	}
	return a.evidence, nil
}

// AddEvidence stores a document for an index of a stored stream and raises the
// agent's flag. The error is [ErrConflict] where one is stored for that index,
// [ErrNotFound] where the stream is not.
func (tx *Tx) AddEvidence(ctx context.Context, agent flight.Address, stream string, index uint64, reason string, doc []byte, now uint64) error {
	id, err := tx.streamID(ctx, agent, stream)
	if err != nil {
		return err
	}
	a, err := tx.touchAgent(ctx, agent)
	if err != nil {
		return err
	}
	tx.w.group.bytes += len(doc)
	_, err = tx.exec(`INSERT INTO evidence (agent_id, stream_id, idx, reason, json, at) VALUES (?, ?, ?, ?, ?, ?)`,
		a.id, id, index, reason, doc, now)
	if err == nil {
		a.evidence++
		a.spoil(&tx.w.group) // exec has written the row as it was
	}
	return err
}
