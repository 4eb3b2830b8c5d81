package store

import (
	"context"
	"errors"
	"fmt"

	"karatum/flight"
)

// cacheRows is how many agents, and how many streams, the writer remembers: up
// to twice this number, some 600 bytes each.
const cacheRows = 8192

// heads are the writer's copies of agent and stream rows. A row is put in when
// it is first asked for, absent rows included, so that a batch that continues
// its stream needs no query. A changed row stays in until it is written.
type heads struct {
	agents  generations[flight.Address, *agentRow]
	streams generations[streamKey, *streamRow]
}

type streamKey struct {
	agent uint64
	name  string
}

func newHeads() heads {
	return heads{generations[flight.Address, *agentRow]{young: map[flight.Address]*agentRow{}},
		generations[streamKey, *streamRow]{young: map[streamKey]*streamRow{}}}
}

// age forgets rows that were not asked for since the young generation last
// filled up. It is called between groups, when no row waits to be written.
func (h *heads) age() {
	h.agents.age()
	h.streams.age()
}

// generations is a map that forgets: what is used moves to young, and when young
// is full it replaces old.
type generations[K comparable, V any] struct{ young, old map[K]V }

func (g *generations[K, V]) get(k K) (V, bool) {
	if v, ok := g.young[k]; ok {
		return v, true
	}
	v, ok := g.old[k]
	if ok {
		g.young[k] = v
		delete(g.old, k)
	}
	return v, ok
}

func (g *generations[K, V]) drop(k K) {
	delete(g.young, k)
	delete(g.old, k)
}

func (g *generations[K, V]) age() {
	if len(g.young) >= cacheRows {
		g.old, g.young = g.young, make(map[K]V, cacheRows)
	}
}

// A dropper is a cached row.
type dropper interface{ drop(*heads) }

// An agentRow is an agent as the writer knows it. Its id is 0 where the table has
// no such row and the group has not made one.
type agentRow struct {
	agentData
	addr   flight.Address
	stored bool   // the table has the row
	dirty  bool   // in group.agents
	group  uint64 // the last group that changed it
	job    *Tx    // the last job that changed it
}

type agentData struct {
	id                                        uint64
	firstSeen, lastSeen                       uint64
	streams, batches, steps, opened, evidence uint64
	revealDay, revealBytes                    uint64
	quota                                     quota
}

func (a *agentRow) drop(h *heads) { h.agents.drop(a.addr) }

// A streamRow is a stream as the writer knows it. last is the batch of the
// highest index.
type streamRow struct {
	streamData
	key    streamKey
	stored bool
	dirty  bool
	group  uint64
	job    *Tx
}

type streamData struct {
	id                           uint64
	firstSeen, missing, filledAt uint64
	last                         *Batch
}

func (s *streamRow) drop(h *heads) { h.streams.drop(s.key) }

// An agentUndo is a row before a job changed it. Of the quota a job changes the
// last bucket in place, or appends: the buckets before are shared.
type agentUndo struct {
	row  *agentRow
	old  agentData
	last bucket
}

func (u agentUndo) restore() {
	u.row.agentData, u.row.job = u.old, nil
	if q := u.row.quota; len(q) > 0 {
		q[len(q)-1] = u.last
	}
}

type streamUndo struct {
	row *streamRow
	old streamData
}

func (u streamUndo) restore() { u.row.streamData, u.row.job = u.old, nil }

// agent returns the cached row, which has id 0 where there is no such agent.
func (w *writer) agent(ctx context.Context, addr flight.Address) (*agentRow, error) {
	if a, ok := w.cache.agents.get(addr); ok {
		return a, nil
	}
	a := &agentRow{addr: addr}
	d := &a.agentData
	r := ReadTx{q: direct{w}}
	var blob []byte
	err := r.one(ctx, []any{num(&d.id), num(&d.firstSeen), num(&d.lastSeen), num(&d.streams), num(&d.batches), num(&d.steps),
		num(&d.opened), num(&d.evidence), num(&d.revealDay), num(&d.revealBytes), &blob},
		`SELECT id, first_seen, last_seen, streams, batches, steps, opened, evidence, reveal_day, reveal_bytes, quota
		FROM agent WHERE address = ?`, addr[:])
	if err == nil {
		a.stored = true
		d.quota, err = parseQuota(blob)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	w.cache.agents.young[addr] = a
	return a, nil
}

// stream returns the cached row, which has id 0 where there is no such stream.
func (w *writer) stream(ctx context.Context, agent *agentRow, name string) (*streamRow, error) {
	if agent.id == 0 {
		return &streamRow{}, nil // not cached: its key would change with the id
	}
	key := streamKey{agent.id, name}
	if s, ok := w.cache.streams.get(key); ok {
		return s, nil
	}
	s := &streamRow{key: key}
	d := &s.streamData
	r := ReadTx{q: direct{w}}
	err := r.one(ctx, []any{num(&d.id), num(&d.firstSeen), num(&d.missing), num(&d.filledAt)},
		`SELECT id, first_seen, missing, filled_at FROM stream WHERE agent_id = ? AND name = ?`, agent.id, name)
	if err == nil {
		s.stored = true
		var last Batch
		last, err = first(ctx, &r, scanBatch, selectBatch+` WHERE b.stream_id = ? ORDER BY b.idx DESC LIMIT 1`, d.id)
		d.last = &last
		if errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("%w: stream %d has no batch", ErrDamaged, d.id)
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	w.cache.streams.young[key] = s
	return s, nil
}

// touchAgent returns the row for changing, made where there is none.
func (tx *Tx) touchAgent(ctx context.Context, addr flight.Address) (*agentRow, error) {
	w := tx.w
	a, err := w.agent(ctx, addr)
	if err != nil {
		return nil, err
	}
	if a.job != tx {
		tx.agents = append(tx.agents, agentUndo{a, a.agentData, a.quota.last()})
		a.job = tx
	}
	if a.group != w.group.number {
		a.group = w.group.number
		w.group.touched = append(w.group.touched, a)
	}
	if a.id == 0 {
		a.id, w.nextAgent = w.nextAgent, w.nextAgent+1
		a.firstSeen, a.lastSeen = tx.now, tx.now
	}
	a.spoil(&w.group)
	return a, nil
}

// touchStream returns the row for changing, made where there is none. What is
// written of it changes seldom: the caller spoils it then.
func (tx *Tx) touchStream(ctx context.Context, a *agentRow, name string) (*streamRow, error) {
	w := tx.w
	s, err := w.stream(ctx, a, name)
	if err != nil {
		return nil, err
	}
	if s.job != tx {
		tx.streams = append(tx.streams, streamUndo{s, s.streamData})
		s.job = tx
	}
	if s.group != w.group.number {
		s.group = w.group.number
		w.group.touched = append(w.group.touched, s)
	}
	if s.id == 0 {
		s.id, w.nextStream = w.nextStream, w.nextStream+1
		s.firstSeen = tx.now
		a.streams++
		s.spoil(&w.group)
	}
	return s, nil
}

// spoil notes that the row is to be written.
func (a *agentRow) spoil(g *group) {
	if !a.dirty {
		a.dirty = true
		g.agents = append(g.agents, a)
	}
}

func (s *streamRow) spoil(g *group) {
	if !s.dirty {
		s.dirty = true
		g.streams = append(g.streams, s)
	}
}
