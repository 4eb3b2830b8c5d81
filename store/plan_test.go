package store

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"karatum/flight"
)

// An allowance is a step of a plan that would be refused otherwise, in statements
// with a text.
type allowance struct{ step, text, why string }

// allowances are all that read in order or sort. One that is not needed any more
// fails the test.
var allowances = []allowance{
	{"SCAN CONSTANT ROW", "", "no table"},
	{"SCAN 16-ROW VALUES CLAUSE", "INSERT INTO batch", "the rows that are given"},
	{"SCAN j VIRTUAL TABLE", "FROM json_each(?) j", "the ids that are given"},
	{"SCAN step", "INSERT INTO batch", "skipped while no foreign key is violated, which none is"},
	{"SCAN (subquery-1)", "SELECT sum(g) FROM", "the anchoring transactions of a day"},
	{"epoch_tx_by_time", "SELECT sum(g) FROM", "the anchoring transactions of a day"},
	{"TEMP B-TREE", "SELECT sum(g) FROM", "the anchoring transactions of a day"},
	{"SCAN (subquery-2)", "SELECT count(*) FROM (SELECT 1 FROM step", "as many as the caller counts"},
	{"INDEX epoch_open", "state <> 'final'", "the open epochs of a partial index are few"},
	{"INDEX recheck_open", "SELECT min(agent_id)", "the first entry"},
	{"SCAN receipt_group", "ORDER BY first_position DESC LIMIT 1", "the last row"},
}

// elsewhere are files whose statements no node runs while it serves.
var elsewhere = map[string]string{
	"check.go":   "reads all of a database that no process has open",
	"copy.go":    "reads all of a database that no process has open",
	"migrate.go": "reads the schema, once",
}

// TestQueryPlans runs every statement of the store once, then asks SQLite how it
// runs each: none may scan a table, sort, or read an index from some place to its
// end, unless it stops at a limit. That no statement is left out is held against
// the package's source.
func TestQueryPlans(t *testing.T) {
	texts := exercised(t)
	for file, fragments := range sqlFragments(t) {
		for _, f := range fragments {
			if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(plain(text), f) }) {
				t.Errorf("%s: exerciseReads and exerciseWrites do not run\n\t%s", file, f)
			}
		}
	}
	s := fresh(t)
	used := map[int]bool{}
	for _, text := range texts {
		for _, step := range plan(t, s, text) {
			if !slow(text, step) {
				continue
			}
			i := slices.IndexFunc(allowances, func(a allowance) bool { return strings.Contains(step, a.step) && strings.Contains(plain(text), a.text) })
			if used[i] = true; i < 0 {
				t.Errorf("%s\n\t%s", step, plain(text))
			}
		}
	}
	for i, a := range allowances {
		if !used[i] {
			t.Errorf("no statement needs the allowance %q in %q", a.step, a.text)
		}
	}
}

// openEnded is a range of an index with one end.
var openEnded = regexp.MustCompile(`\((\w+=\? AND )*\w+[<>]\?\)$`)

// slow reports whether a step of a plan may read more rows than it gives back.
func slow(text, step string) bool {
	if strings.Contains(step, "TEMP B-TREE") || strings.HasPrefix(step, "SCAN") {
		return true
	}
	return openEnded.MatchString(step) && !strings.Contains(text, "LIMIT")
}

// exercised returns the texts of all statements that reads and writes prepare.
func exercised(t *testing.T) (texts []string) {
	t.Helper()
	s := fresh(t)
	ctx := t.Context()
	put(t, s, testBatch(1, "a", 0), testBatch(1, "a", 3), testBatch(1, "a", 1))
	update(t, s, func(tx *Tx) error { // as many as one INSERT carries
		for i := range uint64(chunkRows) {
			if _, err := insert(ctx, tx, testBatch(3, "a", i)); err != nil {
				return err
			}
		}
		return nil
	})
	exerciseWrites(ctx, t, s)
	read(t, s, func(tx *ReadTx) error { return exerciseReads(ctx, tx) })
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
	return append(texts, selectNext)
}

// plain writes a statement without line breaks.
func plain(text string) string { return strings.Join(strings.Fields(text), " ") }

var sqlWord = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|INDEXED BY|WHERE|AND|ORDER BY|GROUP BY|LIMIT) `)

// sqlFragments returns the pieces of SQL in the package's source, by file.
func sqlFragments(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := map[string][]string{}
	for _, name := range files {
		if _, skip := elsewhere[name]; skip || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && sqlWord.MatchString(text) {
					out[name] = append(out[name], plain(text))
				}
			}
			return true
		})
	}
	return out
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
		first.Record = []byte(`{"args":"` + hash.String() + `"}`)
		second := testStep(1, 1, 1, flight.ClaimNative, &hash)
		party, other := testAgent(5), testAgent(6)
		v := StepVerdict{StepHash: first.Hash, At: 1, Counterparty: &party}
		v.Verdict.State = flight.Confirmed
		v2 := v
		v2.Counterparty = &other
		due := testHash("due")
		var e *Epoch
		return errors.Join(
			tx.UpsertStep(ctx, first), tx.UpsertStep(ctx, second), tx.SetVerdict(ctx, v), tx.SetVerdict(ctx, v2), tx.PutRecheck(ctx, agent, 1, due), tx.DeleteReveals(ctx, first.Hash),
			tx.AddEvidence(ctx, agent, "a", 0, "ORDER", []byte("{}"), 1), nextEpoch(ctx, tx),
			func() error { got, err := tx.Epoch(ctx, 1); e = &got; return err }(),
			tx.AddEpochTx(ctx, EpochTx{EpochID: 1, Hash: hash, Raw: []byte{1}}), tx.EpochTxSent(ctx, hash, nil), tx.EpochTxSent(ctx, hash, errors.New("x")),
			tx.SetEpochState(ctx, e.ID, EpochPending, EpochFailed, ""), tx.SettleEpoch(ctx, e.ID, EpochFailed, EpochSafe, EpochAnchor{TxHash: hash}),
			tx.PutRecheck(ctx, agent, 1, hash), tx.HastenRecheck(ctx, agent, 1, hash), tx.PutOffRecheck(ctx, 1, hash, 1), tx.FinishRecheck(ctx, 1, hash),
			func() error { _, err := tx.PutReplay(ctx, 1, hash, "full", hash); return err }(),
			func() error { _, err := tx.StartReplay(ctx); return err }(), tx.ReleaseReplay(ctx, 1),
			func() error { _, err := tx.StartReplay(ctx); return err }(), tx.FinishReplay(ctx, 1, ReplayFailed, nil, nil),
			func() error { _, err := tx.PutReplay(ctx, 1, hash, "full", hash); return err }(), tx.RecoverReplays(ctx), tx.CancelReplay(ctx, 1),
			tx.AddCronRun(ctx, CronRun{Job: "a"}), tx.SetMeta(ctx, "k", []byte{1}),
		)
	})
	put(t, s, testBatch(2, "a", 0), testBatch(1, "a", 2)) // an agent and a stream that exist, and a filled gap
	if err := s.onWriter(ctx, func(w *writer) error { w.cache = newHeads(); return nil }); err != nil {
		t.Fatal(err)
	}
	put(t, s, testBatch(1, "a", 4)) // whose agent and stream are read again
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
		drop(tx.Batch(ctx, id.ID())), drop(tx.BatchAt(ctx, 1)), drop(tx.BatchOfIndex(ctx, agent, "a", 0)), drop(tx.BatchFrom(ctx, agent, "a", 15)), drop(tx.GapFrom(ctx, agent, "a", 1)), drop(tx.CountSteps(ctx, agent, "a", 0, 9)), drop(tx.Receipt(ctx, 1)),
		drop3(tx.Batches(ctx, p)), drop3(tx.StreamBatches(ctx, agent, "a", pages)), drop(tx.Stream(ctx, agent, "a")), drop3(tx.Streams(ctx, agent, p)),
		drop(tx.Gaps(ctx, agent, "a", 9)), drop(tx.LastGaps(ctx, agent, "a", 9)), drop(tx.Agent(ctx, agent)), drop3(tx.Agents(ctx, p)), drop(tx.Counts(ctx)),
		drop3(tx.EvidenceList(ctx, nil, p)), drop3(tx.EvidenceList(ctx, &agent, p)), drop(tx.EvidenceByID(ctx, 1)),
		drop(tx.Evidence(ctx, agent, "a", 0)), drop(tx.LatestEvidence(ctx, agent)),
		drop(tx.Pending(ctx, 9)), drop(tx.PendingOf(ctx, agent, 9)), drop(tx.StepsWith(ctx, agent, flight.Confirmed, 9)), drop(tx.Epoch(ctx, 1)), drop(tx.EpochByRoot(ctx, hash)), drop(tx.EpochOf(ctx, 1)), drop3(tx.Epochs(ctx, p)),
		drop(tx.OpenEpochs(ctx)), drop(tx.EpochMembers(ctx, 1)), drop(tx.EpochEvents(ctx, 1)), drop(tx.EpochTxs(ctx, 1)), drop(tx.GasSince(ctx, 1)),
		func() error { _, _, err := tx.HighestOpenNonce(ctx, 1, agent); return err }(),
		drop(tx.Step(ctx, hash)), drop(tx.StepAt(ctx, agent, "a", 1)), drop(tx.StepMarks(ctx, agent, "a", 0, 9, 9)), drop3(tx.Steps(ctx, agent, "", p)), drop3(tx.Steps(ctx, agent, flight.Confirmed, p)), drop3(tx.StreamSteps(ctx, agent, "a", p)),
		func() error { _, _, err := tx.StepsOfTx(ctx, 1, hash, 0, 9); return err }(), drop(tx.Tallies(ctx, agent)), drop(tx.StepMarks(ctx, agent, "a", 0, 9, 9)),
		drop(tx.FinalBlockBelow(ctx, 1, 9)), drop(tx.FinalTxsOff(ctx, 1, 9, hash, 9)),
		drop(tx.Recheck(ctx, 1, hash)), drop(tx.RecheckOpen(ctx, agent)), drop(tx.DueRechecks(ctx, 1<<50, 9)),
		drop(tx.Replay(ctx, 1, hash, "full")), drop(tx.ReplayOf(ctx, 1, hash)), drop(tx.ReplaysOpen(ctx)),
		drop(tx.ReplayByID(ctx, 1)), drop3(tx.Replays(ctx, "", p)), drop3(tx.Replays(ctx, ReplayDone, p)),
		drop(tx.CronRuns(ctx, "a", 9)), drop(tx.Meta(ctx, "k")),
		drop(tx.Mark(ctx)), drop(tx.StreamAfter(ctx, agent, "")), drop(tx.StreamFrom(ctx, agent, "a", 1, Mark{Position: 9}, 9)), drop(tx.ReceiptGroup(ctx, 1)),
		func() error { _, _, err := tx.StepsAfter(ctx, agent, 0, Mark{Step: 9}, 9); return err }(), drop(tx.EvidenceAfter(ctx, agent, 0, Mark{Evidence: 9}, 9)),
		drop(tx.LatestSteps(ctx, 9)), drop(tx.BatchesSince(ctx, 5)),
		drop(tx.AgentsIn(ctx, agent, agent, 9)), drop(tx.BatchesIn(ctx, HashRange{hash, hash}, 9)), drop(tx.StepsIn(ctx, HashRange{hash, hash}, 9)),
		drop(tx.StepsOfTxIn(ctx, HashRange{hash, hash}, 9)), drop(tx.EpochsIn(ctx, HashRange{hash, hash}, 9)), drop(tx.EpochTxsIn(ctx, HashRange{hash, hash}, 9)),
		func() error { _, _, err := tx.StepsOfCommitment(ctx, HashRange{hash, hash}, 9); return err }(), drop(tx.VerdictsBetween(ctx, 1, 9)),
	)
}
