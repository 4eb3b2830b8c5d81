package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"karatum/flight"
	"karatum/flight/merkle"
)

// Check reads a whole database that no process has open and recomputes what it
// holds: SQLite's own integrity and foreign keys, every batchId, contiguous
// positions, every receipt group's root and signature, every epoch's root, and
// the counters of streams and agents. It changes nothing. The error wraps
// [ErrDamaged] and names the first thing found wrong. It takes about 20 µs a
// batch.
func Check(ctx context.Context, file string) (err error) {
	if err := lookAtFile(file, true); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(file, readerPragmas))
	if err != nil {
		return mapErr(err)
	}
	defer func() { err = errors.Join(err, mapErr(db.Close())) }()
	db.SetMaxOpenConns(1)
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return mapErr(err)
	}
	defer tx.Rollback() // it only reads
	c := &checker{ReadTx: ReadTx{q: plainTx{tx}}}
	for _, check := range []func(context.Context) error{
		c.sqlite, c.batches, c.receipts, c.epochs, c.streams, c.gaps, c.agents, c.tallies,
	} {
		if err := check(ctx); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// plainTx is a queryer without prepared statements.
type plainTx struct{ tx *sql.Tx }

func (q plainTx) fail(err error) error { return mapErr(err) }

func (q plainTx) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return q.tx.QueryContext(ctx, text, args...)
}

type checker struct {
	ReadTx
	last uint64 // position of the last batch
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// none runs a query that must return no row; what it returns is the complaint.
func (c *checker) none(ctx context.Context, what, text string) error {
	return c.each(ctx, func(s scanner) error {
		var detail string
		if err := s.Scan(&detail); err != nil {
			return err
		}
		return damaged("%s: %s", what, detail)
	}, text)
}

func (c *checker) sqlite(ctx context.Context) error {
	err := c.each(ctx, func(s scanner) error {
		var finding string
		if err := s.Scan(&finding); err != nil || finding == "ok" {
			return err
		}
		return damaged("integrity: %s", finding)
	}, `PRAGMA integrity_check(1)`)
	if err != nil {
		return err
	}
	return c.none(ctx, "foreign key", `SELECT "table" || ' refers to a missing ' || parent FROM pragma_foreign_key_check LIMIT 1`)
}

func (c *checker) batches(ctx context.Context) error {
	return c.each(ctx, func(s scanner) error {
		b, err := scanBatch(s)
		if err != nil {
			return err
		}
		if c.last++; b.Position != c.last {
			return damaged("no batch at position %d", c.last)
		}
		if b.ID != b.Batch.ID() {
			return damaged("the batch at position %d is not what its id says", b.Position)
		}
		return nil
	}, selectBatch+` ORDER BY b.position`)
}

func (c *checker) receipts(ctx context.Context) error {
	groups, err := list(ctx, &c.ReadTx, scanReceiptGroup, selectReceiptGroup+` ORDER BY first_position`)
	if err != nil {
		return err
	}
	next := uint64(1)
	for _, g := range groups {
		if g.first != next || g.size == 0 {
			return damaged("no receipt for position %d", next)
		}
		next += g.size
		rs, err := c.receiptsOf(ctx, g)
		if err != nil {
			return err
		}
		if err := checkGroup(g, rs); err != nil {
			return damaged("receipts at position %d: %v", g.first, err)
		}
	}
	if next != c.last+1 {
		return damaged("receipts reach position %d, batches end at %d", next-1, c.last)
	}
	return nil
}

func checkGroup(g receiptGroup, rs []flight.Receipt) error {
	digest := flight.TextDigest(rs[0].Text())
	if g.grouped {
		items := make([]flight.Hash, len(rs))
		for i := range rs {
			items[i] = rs[i].Item()
		}
		root, err := merkle.Root(items)
		if err != nil || root != g.root {
			return errors.Join(errors.New("the root is another"), err)
		}
		digest = flight.TextDigest(flight.GroupText(g.root, g.size))
	}
	signer, err := g.signature.Recover(digest)
	if err == nil && signer != g.node {
		err = fmt.Errorf("signed by %s, not by %s", signer, g.node)
	}
	return err
}

func (c *checker) epochs(ctx context.Context) error {
	epochs, err := list(ctx, &c.ReadTx, scanEpoch, selectEpoch+` ORDER BY first_position`)
	if err != nil {
		return err
	}
	next := uint64(1)
	for _, e := range epochs {
		ids, err := c.batchIDs(ctx, e.First, e.Last)
		if err != nil {
			return err
		}
		root, err := flight.EpochRoot(ids)
		if err != nil || e.First != next || e.Last < e.First || uint64(len(ids)) != e.Count() || root != e.Root {
			return damaged("epoch %d is not the batches from %d to %d", e.ID, e.First, e.Last)
		}
		next = e.Last + 1
	}
	return nil
}

func (c *checker) streams(ctx context.Context) error {
	return c.none(ctx, "stream", `SELECT s.id || ' does not agree with its batches' FROM stream s
		LEFT JOIN (SELECT stream_id, count(*) AS n, max(idx) AS top FROM batch GROUP BY stream_id) t ON t.stream_id = s.id
		WHERE s.missing IS NOT t.top + 1 - t.n LIMIT 1`)
}

// gaps compares the table with what lies between the stored batches.
func (c *checker) gaps(ctx context.Context) error {
	const holes = `SELECT stream_id, prev_idx + 1, idx - 1, prev_seq + 1, from_seq - 1 FROM
		(SELECT stream_id, idx, from_seq, coalesce(lag(idx) OVER w, -1) AS prev_idx, coalesce(lag(to_seq) OVER w, -1) AS prev_seq
		FROM batch WINDOW w AS (PARTITION BY stream_id ORDER BY idx)) WHERE idx > prev_idx + 1`
	const rows = `SELECT stream_id, first_index, last_index, first_seq, last_seq FROM gap`
	for _, diff := range []string{holes + ` EXCEPT ` + rows, rows + ` EXCEPT ` + holes} {
		if err := c.none(ctx, "gap", `SELECT stream_id || ' does not agree with its batches' FROM (`+diff+`) LIMIT 1`); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) agents(ctx context.Context) error {
	return c.none(ctx, "agent", `SELECT a.id || ' does not agree with its rows' FROM agent a
		LEFT JOIN (SELECT agent_id, count(*) AS streams, sum(t.n) AS batches, sum(b.to_seq + 1) AS steps FROM stream s
			JOIN (SELECT stream_id, count(*) AS n, max(idx) AS top FROM batch GROUP BY stream_id) t ON t.stream_id = s.id
			JOIN batch b ON b.stream_id = s.id AND b.idx = t.top GROUP BY agent_id) s ON s.agent_id = a.id
		LEFT JOIN (SELECT agent_id, count(*) AS n FROM evidence GROUP BY agent_id) e ON e.agent_id = a.id
		LEFT JOIN (SELECT agent_id, count(*) AS n FROM step WHERE opened <> 0 GROUP BY agent_id) t ON t.agent_id = a.id
		WHERE a.streams <> coalesce(s.streams, 0) OR a.batches <> coalesce(s.batches, 0) OR a.steps <> coalesce(s.steps, 0)
			OR a.evidence <> coalesce(e.n, 0) OR a.opened <> coalesce(t.n, 0) LIMIT 1`)
}

func (c *checker) tallies(ctx context.Context) error {
	return c.none(ctx, "tally", `SELECT t.agent_id || ' does not agree with its verdicts' FROM tally t
		LEFT JOIN (SELECT agent_id, chain_id = 31337 AS dev, kind, sum(contradicted > 0) AS contradicted,
			sum(contradicted = 0 AND confirmed > 0) AS confirmed,
			sum(contradicted = 0 AND confirmed = 0 AND unverifiable > 0) AS unverifiable,
			sum(self_transfer > 0) AS self, sum(zero_amount > 0) AS zero, sum(late > 0) AS late
			FROM claim_tx GROUP BY 1, 2, 3) v ON v.agent_id = t.agent_id AND v.dev = t.dev AND v.kind = t.kind
		WHERE t.confirmed <> v.confirmed OR t.contradicted <> v.contradicted OR t.unverifiable <> v.unverifiable
			OR t.self_transfer <> v.self OR t.zero_amount <> v.zero OR t.late <> v.late OR v.agent_id IS NULL
			OR t.counterparties <> (SELECT count(*) FROM counterparty p WHERE p.agent_id = t.agent_id AND p.dev = t.dev AND p.kind = t.kind) LIMIT 1`)
}
