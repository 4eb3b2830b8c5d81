package store

import (
	"context"

	"karatum/flight"
)

// An Agent is the counters of one key.
type Agent struct {
	id                  uint64
	Address             flight.Address
	FirstSeen, LastSeen uint64 // unix ms
	Streams, Batches    uint64
	Steps               uint64 // sum over streams of highest toSeq + 1, gaps included
	Opened              uint64 // distinct steps with at least one opened field
	Evidence            uint64 // stored equivocations
}

const selectAgent = `SELECT id, address, first_seen, last_seen, streams, batches, steps, opened, evidence FROM agent`

func scanAgent(s scanner) (a Agent, err error) {
	err = s.Scan(num(&a.id), bytesTo(a.Address[:]), num(&a.FirstSeen), num(&a.LastSeen), num(&a.Streams), num(&a.Batches),
		num(&a.Steps), num(&a.Opened), num(&a.Evidence))
	return a, err
}

// Agent returns a key's counters, or [ErrNotFound].
func (r *ReadTx) Agent(ctx context.Context, addr flight.Address) (Agent, error) {
	return first(ctx, r, scanAgent, selectAgent+` WHERE address = ?`, addr[:])
}

// Agents lists the keys, the last seen first; those of one millisecond the
// newest first.
func (r *ReadTx) Agents(ctx context.Context, p Page) ([]Agent, string, error) {
	keys, ok, err := p.keys(2)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		keys = []int64{1<<62 - 1, 0}
	}
	rows, err := list(ctx, r, scanAgent,
		selectAgent+` WHERE (last_seen, id) < (?, ?) ORDER BY last_seen DESC, id DESC LIMIT ?`, keys[0], keys[1], p.limit()+1)
	rows, next := page(rows, p.limit(), func(a Agent) string { return cursor(a.LastSeen, a.id) })
	return rows, next, err
}

// agentID returns the row id of a key, or [ErrNotFound].
func (r *ReadTx) agentID(ctx context.Context, addr flight.Address) (id uint64, err error) {
	err = r.one(ctx, []any{num(&id)}, `SELECT id FROM agent WHERE address = ?`, addr[:])
	return id, err
}

// Counts are totals of the whole node.
type Counts struct {
	Batches, Agents, Streams, Epochs, Evidence, Steps uint64
	Anchored                                          uint64 // batches that have an epoch
}

// Counts returns the totals. They are ids of last rows: no table is counted.
func (r *ReadTx) Counts(ctx context.Context) (c Counts, err error) {
	err = r.one(ctx, []any{num(&c.Batches), num(&c.Agents), num(&c.Streams), num(&c.Epochs), num(&c.Evidence), num(&c.Steps), num(&c.Anchored)},
		`SELECT (SELECT max(position) FROM batch), (SELECT max(id) FROM agent), (SELECT max(id) FROM stream), (SELECT max(id) FROM epoch),
		(SELECT max(id) FROM evidence), (SELECT max(id) FROM step), (SELECT max(last_position) FROM epoch)`)
	return c, err
}
