// Package storetest makes large databases for benchmarks and soak tests in a
// fraction of the time that ingest would take.
package storetest

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the driver that the store uses

	"karatum/flight"
)

// A Shape says what Fill makes: Batches over as many agents, each with one stream
// named Stream, in turns, so that the rows of one agent lie apart as they do after
// real use.
type Shape struct {
	Agents, Batches int
	Stream          string
	ReceivedAt      uint64 // unix ms, of the first batch; each is 1 ms later
	Seal            func([]*flight.Receipt) error
}

// groupSize is how many batches share a receipt signature.
const groupSize = 256

// AgentAddress returns the address of the n-th agent of a filled database.
func AgentAddress(n int) (a flight.Address) {
	h := flight.Keccak256(binary.BigEndian.AppendUint64([]byte("agent"), uint64(n)))
	copy(a[:], h[:])
	return a
}

// Header returns the header of batch index of the n-th agent: ten steps each. Its
// agent's key is unknown, so nothing that holds it is signed validly.
func Header(n int, stream string, index uint64) flight.Header {
	head := func(index uint64) flight.Hash {
		return flight.Keccak256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(stream), uint64(n)), index))
	}
	h := flight.Header{Agent: AgentAddress(n), Stream: stream, Index: index, FromSeq: index * 10, ToSeq: index*10 + 9,
		Head: head(index), Root: head(index + 1<<32), CreatedAt: 1_700_000_000}
	if index > 0 {
		h.PrevHead = head(index - 1)
	}
	return h
}

// Fill writes rows straight into the file of a store that was opened once and is
// closed. The file then holds no epoch.
func Fill(ctx context.Context, file string, s Shape) (err error) {
	u := url.URL{Scheme: "file", Path: file}
	db, err := sql.Open("sqlite", u.String()+"?_pragma=synchronous(OFF)&_pragma=journal_mode(OFF)&_pragma=cache_size(-262144)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := fill(ctx, db, s); err != nil {
		return fmt.Errorf("fill %s: %w", file, err)
	}
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
	return err
}

func fill(ctx context.Context, db *sql.DB, s Shape) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "DROP INDEX batch_by_id"); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *sql.Tx, Shape) error{agents, batches} {
		if err := step(ctx, tx, s); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "CREATE INDEX batch_by_id ON batch (id_key)"); err != nil {
		return err
	}
	return tx.Commit()
}

// count returns how many batches the n-th agent has.
func (s Shape) count(n int) int { return (s.Batches - n + s.Agents - 1) / s.Agents }

func agents(ctx context.Context, tx *sql.Tx, s Shape) error {
	agent, err := tx.PrepareContext(ctx, `INSERT INTO agent (id, address, first_seen, last_seen, streams, batches, steps, opened, evidence,
		quota, reveal_day, reveal_bytes) VALUES (?, ?, ?, ?, 1, ?, ?, 0, 0, x'', 0, 0)`)
	if err != nil {
		return err
	}
	stream, err := tx.PrepareContext(ctx, `INSERT INTO stream (id, agent_id, name, first_seen, missing, filled_at) VALUES (?, ?, ?, ?, 0, 0)`)
	if err != nil {
		return err
	}
	for n := range min(s.Agents, s.Batches) {
		k := s.count(n)
		h := Header(n, s.Stream, uint64(k-1))
		firstSeen, lastSeen := s.ReceivedAt+uint64(n), s.ReceivedAt+uint64(n+(k-1)*s.Agents)
		if _, err := agent.ExecContext(ctx, n+1, h.Agent[:], firstSeen, lastSeen, k, h.ToSeq+1); err != nil {
			return err
		}
		if _, err := stream.ExecContext(ctx, n+1, n+1, s.Stream, firstSeen); err != nil {
			return err
		}
	}
	return nil
}

func batches(ctx context.Context, tx *sql.Tx, s Shape) error {
	row, err := tx.PrepareContext(ctx, `INSERT INTO batch (position, stream_id, idx, from_seq, to_seq, created_at, received_at, anchor_by,
		id_key, scheme, id, prev_head, head, root, signature) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	var group []*flight.Receipt
	for i := range s.Batches {
		n := i % s.Agents
		h := Header(n, s.Stream, uint64(i/s.Agents))
		r := &flight.Receipt{BatchID: h.ID(), Position: uint64(i + 1), ReceivedAt: s.ReceivedAt + uint64(i), AnchorBy: s.ReceivedAt/1000 + 1200}
		_, err := row.ExecContext(ctx, r.Position, n+1, h.Index, h.FromSeq, h.ToSeq, h.CreatedAt, r.ReceivedAt, r.AnchorBy,
			int64(binary.BigEndian.Uint64(r.BatchID[:8])), r.BatchID[:], h.PrevHead[:], h.Head[:], h.Root[:], make([]byte, 65))
		if err != nil {
			return err
		}
		if group = append(group, r); len(group) == groupSize || i == s.Batches-1 {
			if err := seal(ctx, tx, s, group); err != nil {
				return err
			}
			group = nil
		}
	}
	return nil
}

func seal(ctx context.Context, tx *sql.Tx, s Shape, group []*flight.Receipt) error {
	if err := s.Seal(group); err != nil {
		return err
	}
	r := group[0]
	var root []byte
	if r.Group != nil {
		root = r.Group.Root[:]
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO receipt_group (first_position, size, node, root, signature) VALUES (?, ?, ?, ?, ?)`,
		r.Position, len(group), r.Node[:], root, r.Signature[:])
	return err
}
