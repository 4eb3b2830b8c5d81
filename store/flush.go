package store

import "strings"

// chunkRows is how many batches one INSERT carries: it spreads the fixed cost of
// running a statement.
const chunkRows = 16

const batchColumns = 15

var (
	insertOne  = insertBatches(1)
	insertMany = insertBatches(chunkRows)
)

func insertBatches(n int) string {
	values := "(" + strings.Repeat("?,", batchColumns-1) + "?)"
	return `INSERT INTO batch (position, stream_id, idx, from_seq, to_seq, created_at, received_at, anchor_by, id_key, scheme,
		id, prev_head, head, root, signature) VALUES ` + strings.Repeat(values+",", n-1) + values
}

// flush writes the rows that the group has staged: agents, streams, batches, in
// the order in which they refer to each other.
func (w *writer) flush() error {
	for _, a := range w.group.agents {
		if err := w.writeAgent(a); err != nil {
			return err
		}
	}
	w.group.agents = w.group.agents[:0]
	for _, s := range w.group.streams {
		if err := w.writeStream(s); err != nil {
			return err
		}
	}
	w.group.streams = w.group.streams[:0]
	return w.writeBatches()
}

func (w *writer) writeAgent(a *agentRow) error {
	if a.id == 0 { // its only job was undone
		a.dirty = false
		return nil
	}
	text := `UPDATE agent SET last_seen = ?, streams = ?, batches = ?, steps = ?, opened = ?, evidence = ?, reveal_day = ?,
		reveal_bytes = ?, quota = ? WHERE id = ?`
	args := []any{int64(a.lastSeen), int64(a.streams), int64(a.batches), int64(a.steps), int64(a.opened), int64(a.evidence),
		int64(a.revealDay), int64(a.revealBytes), a.quota.bytes(), int64(a.id)}
	if !a.stored {
		text = `INSERT INTO agent (last_seen, streams, batches, steps, opened, evidence, reveal_day, reveal_bytes, quota, id,
			address, first_seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
		args = append(args, a.addr[:], int64(a.firstSeen))
	}
	if _, err := w.exec(text, args...); err != nil {
		return err
	}
	w.unwrite(func(stored bool) func() {
		return func() { a.stored = stored; a.spoil(&w.group) }
	}(a.stored))
	a.stored, a.dirty = true, false
	return nil
}

func (w *writer) writeStream(s *streamRow) error {
	if s.id == 0 {
		s.dirty = false
		return nil
	}
	text := `UPDATE stream SET missing = ?, filled_at = ? WHERE id = ?`
	args := []any{int64(s.missing), int64(s.filledAt), int64(s.id)}
	if !s.stored {
		text = `INSERT INTO stream (missing, filled_at, id, agent_id, name, first_seen) VALUES (?, ?, ?, ?, ?, ?)`
		args = append(args, int64(s.key.agent), s.key.name, int64(s.firstSeen))
	}
	if _, err := w.exec(text, args...); err != nil {
		return err
	}
	w.unwrite(func(stored bool) func() {
		return func() { s.stored = stored; s.spoil(&w.group) }
	}(s.stored))
	s.stored, s.dirty = true, false
	return nil
}

// unwrite keeps what a rollback of the running job's savepoint would make
// unwritten again. Without a savepoint only the whole group can be undone, and
// then the cached rows go.
func (w *writer) unwrite(undo func()) {
	if tx := w.group.tx; tx != nil && tx.savepoint {
		tx.written = append(tx.written, undo)
	}
}

func (w *writer) writeBatches() error {
	g := &w.group
	args := make([]any, 0, chunkRows*batchColumns)
	for g.flushed < len(g.staged) {
		n, text := 1, insertOne
		if len(g.staged)-g.flushed >= chunkRows {
			n, text = chunkRows, insertMany
		}
		args = args[:0]
		for _, b := range g.staged[g.flushed : g.flushed+n] {
			args = appendBatch(args, b)
		}
		if _, err := w.exec(text, args...); err != nil {
			return err
		}
		g.flushed += n
	}
	return nil
}

func appendBatch(args []any, b stagedBatch) []any {
	h := &b.Batch.Batch.Header
	return append(args, int64(b.Position), int64(b.stream), int64(h.Index), int64(h.FromSeq), int64(h.ToSeq), int64(h.CreatedAt),
		int64(b.ReceivedAt), int64(b.AnchorBy), idKey(b.ID), schemeNumber(b.Batch.Batch.Scheme),
		b.ID[:], h.PrevHead[:], h.Head[:], h.Root[:], b.Batch.Batch.Signature[:])
}
