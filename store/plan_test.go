package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"karatum/flight"
)

// TestQueryPlans runs every read and every kind of write once, then asks SQLite
// how it runs each statement that the store has prepared: none may scan a table
// or sort.
func TestQueryPlans(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	put(t, s, testBatch(1, "a", 0), testBatch(1, "a", 3), testBatch(1, "a", 1))
	exerciseWrites(ctx, t, s)
	read(t, s, func(tx *ReadTx) error { return exerciseReads(ctx, tx) })
	var texts []string
	s.stmts.Range(func(text, _ any) bool { texts = append(texts, text.(string)); return true })
	err := s.onWriter(ctx, func(w *writer) error {
		for text := range w.stmts.stmts {
			texts = append(texts, text)
		}
		return nil
	})
	if err != nil || len(texts) < 70 {
		t.Fatalf("%d statements, %v", len(texts), err)
	}
	for _, text := range texts {
		for _, step := range plan(t, s, text) {
			// The open rows of these partial indexes are few by themselves.
			few := strings.Contains(step, "INDEX epoch_open") || strings.Contains(step, "INDEX replay_open") || strings.Contains(step, "INDEX recheck_open")
			if strings.Contains(step, "TEMP B-TREE") && !strings.Contains(text, "GROUP BY chain_id, sender, nonce") ||
				strings.HasPrefix(step, "SCAN") && !few && !bounded(text, step) {
				t.Errorf("%s\n\t%s", step, strings.Join(strings.Fields(text), " "))
			}
		}
	}
}

// bounded tells whether a statement reads a table in order and stops at its limit
// or first row.
func bounded(text, step string) bool {
	return strings.Contains(text, "LIMIT") && !strings.Contains(step, "USING") && strings.Contains(text, "ORDER BY first_position DESC") ||
		step == "SCAN CONSTANT ROW" || step == "SCAN (subquery-1)" ||
		strings.Contains(text, "max(") && !strings.Contains(text, "FROM batch WHERE") && strings.HasPrefix(text, "SELECT (SELECT")
}

func plan(t *testing.T, s *Store, text string) (steps []string) {
	t.Helper()
	if !strings.Contains("SELECT INSERT UPDATE DELETE", text[:6]) {
		return nil
	}
	rows, err := s.readers.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, make([]any, strings.Count(text, "?"))...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

func exerciseWrites(ctx context.Context, t *testing.T, s *Store) {
	t.Helper()
	agent, hash := testAgent(1), testHash("tx")
	update(t, s, func(tx *Tx) error {
		first := testStep(1, 1, 1, "", &hash)
		second := testStep(1, 1, 1, flight.ClaimNative, &hash)
		party, other := testAgent(5), testAgent(6)
		v := StepVerdict{StepHash: first.Hash, Counterparty: &party}
		v.Verdict.State = flight.Confirmed
		v2 := v
		v2.Counterparty = &other
		var e *Epoch
		return errors.Join(
			tx.UpsertStep(ctx, first), tx.UpsertStep(ctx, second), tx.SetVerdict(ctx, v), tx.SetVerdict(ctx, v2), tx.DeleteReveals(ctx, first.Hash),
			tx.AddEvidence(ctx, agent, "a", 0, "ORDER", []byte("{}"), 1), nextEpoch(ctx, tx),
			func() error { got, err := tx.Epoch(ctx, 1); e = &got; return err }(),
			tx.AddEpochTx(ctx, EpochTx{EpochID: 1, Hash: hash, Raw: []byte{1}}), tx.EpochTxSent(ctx, hash, nil), tx.EpochTxSent(ctx, hash, errors.New("x")),
			tx.SetEpochState(ctx, e.ID, EpochPending, EpochFailed, ""), tx.SettleEpoch(ctx, e.ID, EpochFailed, EpochSafe, EpochAnchor{TxHash: hash}),
			tx.PutRecheck(ctx, agent, 1, hash), tx.PutOffRecheck(ctx, 1, hash, 1), tx.FinishRecheck(ctx, 1, hash),
			func() error { _, err := tx.PutReplay(ctx, 1, hash, "full", hash); return err }(),
			tx.SetReplay(ctx, 1, ReplayQueued, ReplayFailed, nil),
			func() error { _, err := tx.PutReplay(ctx, 1, hash, "full", hash); return err }(),
			tx.AddCronRun(ctx, CronRun{Job: "a"}), tx.SetMeta(ctx, "k", []byte{1}),
		)
	})
	put(t, s, testBatch(2, "a", 0), testBatch(1, "a", 2)) // an agent and a stream that exist, and a filled gap
}

func exerciseReads(ctx context.Context, tx *ReadTx) error {
	agent, hash, p := testAgent(1), testHash("tx"), Page{}
	id := testBatch(1, "a", 0)
	pages := Page{Cursor: "5"}
	drop := func(_ any, err error) error {
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}
	drop3 := func(_ any, _ string, err error) error { return err }
	return errors.Join(
		drop(tx.Batch(ctx, id.ID())), drop(tx.BatchAt(ctx, 1)), drop(tx.BatchOfIndex(ctx, agent, "a", 0)), drop(tx.Receipt(ctx, 1)),
		drop3(tx.Batches(ctx, p)), drop3(tx.StreamBatches(ctx, agent, "a", pages)), drop(tx.Stream(ctx, agent, "a")), drop3(tx.Streams(ctx, agent, p)),
		drop(tx.Gaps(ctx, agent, "a", 9)), drop(tx.Agent(ctx, agent)), drop3(tx.Agents(ctx, p)), drop(tx.Counts(ctx)),
		drop3(tx.EvidenceList(ctx, nil, p)), drop3(tx.EvidenceList(ctx, &agent, p)), drop(tx.EvidenceByID(ctx, 1)),
		drop(tx.Evidence(ctx, agent, "a", 0)), drop(tx.LatestEvidence(ctx, agent)),
		drop(tx.Pending(ctx, 9)), drop(tx.Epoch(ctx, 1)), drop(tx.EpochByRoot(ctx, hash)), drop(tx.EpochOf(ctx, 1)), drop3(tx.Epochs(ctx, p)),
		drop(tx.OpenEpochs(ctx)), drop(tx.EpochMembers(ctx, 1)), drop(tx.EpochEvents(ctx, 1)), drop(tx.EpochTxs(ctx, 1)), drop(tx.GasSince(ctx, 1)),
		func() error { _, _, err := tx.HighestOpenNonce(ctx, 1, agent); return err }(),
		drop(tx.Step(ctx, hash)), drop(tx.StepAt(ctx, agent, "a", 1)), drop(tx.StepMarks(ctx, agent, "a", 0, 9)), drop3(tx.Steps(ctx, agent, p)), drop3(tx.StreamSteps(ctx, agent, "a", p)),
		drop(tx.StepsOfTx(ctx, 1, hash)), drop(tx.Tallies(ctx, agent)), drop(tx.StepMarks(ctx, agent, "a", 0, 9)),
		drop(tx.Recheck(ctx, 1, hash)), drop(tx.RecheckOpen(ctx, agent)), drop(tx.DueRechecks(ctx, 1<<50, 9)),
		drop(tx.Replay(ctx, 1, hash, "full")), drop(tx.ReplaysOpen(ctx)), drop(tx.NextReplay(ctx)),
		drop(tx.CronRuns(ctx, "a", 9)), drop(tx.Meta(ctx, "k")),
	)
}
