package store

import (
	"context"

	"karatum/flight"
)

// A Stream is the state of one (agent, stream). LastIndex, LastSeq, Head and LastID
// are those of the batch with the highest index.
type Stream struct {
	id                  uint64
	Agent               flight.Address
	Name                string
	FirstSeen, LastSeen uint64 // unix ms
	Batches             uint64
	LastIndex, LastSeq  uint64
	Head, LastID        flight.Hash
}

// Missing returns how many batches below the highest index are not stored.
func (s *Stream) Missing() uint64 { return s.LastIndex + 1 - s.Batches }

// A Gap is a run of missing batches and the steps that they must hold, all ends
// inclusive.
type Gap struct{ FirstIndex, LastIndex, FirstSeq, LastSeq uint64 }

const selectStream = `SELECT s.id, a.address, s.name, s.first_seen, max(s.filled_at, b.received_at), b.idx + 1 - s.missing, b.idx, b.to_seq, b.head, b.id
	FROM stream s CROSS JOIN agent a ON a.id = s.agent_id
	CROSS JOIN batch b ON b.stream_id = s.id AND b.idx = (SELECT max(idx) FROM batch WHERE stream_id = s.id)`

func scanStream(r scanner) (s Stream, err error) {
	err = r.Scan(num(&s.id), bytesTo(s.Agent[:]), &s.Name, num(&s.FirstSeen), num(&s.LastSeen), num(&s.Batches),
		num(&s.LastIndex), num(&s.LastSeq), bytesTo(s.Head[:]), bytesTo(s.LastID[:]))
	return s, err
}

// streamID returns the row id of a stream, or [ErrNotFound].
func (r *ReadTx) streamID(ctx context.Context, agent flight.Address, name string) (id uint64, err error) {
	owner, err := r.agentID(ctx, agent)
	if err != nil {
		return 0, err
	}
	err = r.one(ctx, []any{num(&id)}, `SELECT id FROM stream WHERE agent_id = ? AND name = ?`, owner, name)
	return id, err
}

// Stream returns a stream, or [ErrNotFound].
func (r *ReadTx) Stream(ctx context.Context, agent flight.Address, name string) (Stream, error) {
	id, err := r.streamID(ctx, agent, name)
	if err != nil {
		return Stream{}, err
	}
	return first(ctx, r, scanStream, selectStream+` WHERE s.id = ?`, id)
}

// Streams lists the streams of a key by name. An unknown key is an empty list.
func (r *ReadTx) Streams(ctx context.Context, agent flight.Address, p Page) ([]Stream, string, error) {
	after, err := p.above()
	if err != nil {
		return nil, "", err
	}
	// The cursor is a row id, which has one short form; the name is looked up.
	rows, err := list(ctx, r, scanStream, selectStream+` WHERE s.agent_id = (SELECT id FROM agent WHERE address = ?)
		AND s.name > coalesce((SELECT name FROM stream WHERE id = ?), '') ORDER BY s.name LIMIT ?`, agent[:], after, p.limit()+1)
	rows, next := page(rows, p.limit(), func(s Stream) string { return cursor(s.id) })
	return rows, next, err
}

// Gaps returns the gaps of a stream from the lowest index on, at most limit. An
// unknown stream has none.
func (r *ReadTx) Gaps(ctx context.Context, agent flight.Address, name string, limit int) ([]Gap, error) {
	return list(ctx, r, scanGap, selectGap+` ORDER BY first_index LIMIT ?`, agent[:], name, limit)
}

// LastGaps returns the gaps of a stream from the highest index down, at most limit.
// An unknown stream has none.
func (r *ReadTx) LastGaps(ctx context.Context, agent flight.Address, name string, limit int) ([]Gap, error) {
	return list(ctx, r, scanGap, selectGap+` ORDER BY first_index DESC LIMIT ?`, agent[:], name, limit)
}

// GapFrom returns the gap of a stream that begins at an index, or [ErrNotFound].
func (r *ReadTx) GapFrom(ctx context.Context, agent flight.Address, name string, index uint64) (Gap, error) {
	return first(ctx, r, scanGap, selectGap+` AND first_index = ?`, agent[:], name, index)
}

const selectGap = `SELECT first_index, last_index, first_seq, last_seq FROM gap WHERE stream_id =
	(SELECT id FROM stream WHERE agent_id = (SELECT id FROM agent WHERE address = ?) AND name = ?)`

func scanGap(s scanner) (g Gap, err error) {
	err = s.Scan(num(&g.FirstIndex), num(&g.LastIndex), num(&g.FirstSeq), num(&g.LastSeq))
	return g, err
}
