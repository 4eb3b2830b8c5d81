package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"karatum/flight"
)

func TestStreamAndGaps(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	agent := testAgent(1)
	for _, c := range []struct {
		index uint64
		gaps  []Gap
		steps uint64
	}{
		{2, []Gap{{0, 1, 0, 19}}, 30},
		{9, []Gap{{0, 1, 0, 19}, {3, 8, 30, 89}}, 100},
		{5, []Gap{{0, 1, 0, 19}, {3, 4, 30, 49}, {6, 8, 60, 89}}, 100},
		{0, []Gap{{1, 1, 10, 19}, {3, 4, 30, 49}, {6, 8, 60, 89}}, 100},
		{8, []Gap{{1, 1, 10, 19}, {3, 4, 30, 49}, {6, 7, 60, 79}}, 100},
		{1, []Gap{{3, 4, 30, 49}, {6, 7, 60, 79}}, 100},
		{10, []Gap{{3, 4, 30, 49}, {6, 7, 60, 79}}, 110},
		{12, []Gap{{3, 4, 30, 49}, {6, 7, 60, 79}, {11, 11, 110, 119}}, 130},
	} {
		put(t, s, testBatch(1, "é😀", c.index))
		read(t, s, func(tx *ReadTx) error {
			gaps, err := tx.Gaps(ctx, agent, "é😀", 10)
			if err != nil || !slices.Equal(gaps, c.gaps) {
				t.Errorf("after %d: gaps = %v, %v; want %v", c.index, gaps, err, c.gaps)
			}
			last, err := tx.LastGaps(ctx, agent, "é😀", 2)
			slices.Reverse(last)
			if err != nil || !slices.Equal(last, c.gaps[max(len(c.gaps)-2, 0):]) {
				t.Errorf("after %d: the last gaps = %v, %v; all are %v", c.index, last, err, c.gaps)
			}
			a, err := tx.Agent(ctx, agent)
			if err != nil || a.Steps != c.steps || a.Streams != 1 {
				t.Errorf("after %d: agent = %+v, %v; want %d steps", c.index, a, err, c.steps)
			}
			return nil
		})
	}
	read(t, s, func(tx *ReadTx) error {
		st, err := tx.Stream(ctx, agent, "é😀")
		want := testBatch(1, "é😀", 12).Header
		if err != nil || st.LastIndex != 12 || st.LastSeq != want.ToSeq || st.Head != want.Head || st.LastID != want.ID() || st.Batches != 8 || st.Missing() != 5 {
			t.Errorf("stream = %+v, %v", st, err)
		}
		return nil
	})
}

// TestPages walks every list with every page size and expects each row once, in
// the same order.
func TestPages(t *testing.T) {
	clk := newClock()
	opt := options(t, t.TempDir())
	opt.Now = clk.now
	s := openStore(t, opt)
	ctx := t.Context()
	for n := range 7 {
		clk.ms.Add(int64(n % 2)) // some are seen in one millisecond
		put(t, s, testBatch(n, "a", 0), testBatch(0, fmt.Sprint("s", n), 0), testBatch(1, "a", uint64(n+1)))
		update(t, s, func(tx *Tx) error {
			if err := tx.AddEvidence(ctx, testAgent(n%2), "a", uint64(n), "SAME_INDEX", []byte("{}"), tx.Now()); err != nil {
				return err
			}
			return tx.UpsertStep(ctx, testStep(0, uint64(n), 0, "", nil))
		})
		update(t, s, func(tx *Tx) error { return nextEpoch(ctx, tx) })
	}
	agent := testAgent(0)
	for name, walk := range map[string]func(tx *ReadTx, p Page) ([]string, string, error){
		"Agents":        lister(func(tx *ReadTx, p Page) ([]Agent, string, error) { return tx.Agents(ctx, p) }, func(a Agent) any { return a.Address }),
		"Batches":       lister(func(tx *ReadTx, p Page) ([]Batch, string, error) { return tx.Batches(ctx, p) }, func(b Batch) any { return b.Position }),
		"StreamBatches": lister(func(tx *ReadTx, p Page) ([]Batch, string, error) { return tx.StreamBatches(ctx, testAgent(1), "a", p) }, func(b Batch) any { return b.Batch.Header.Index }),
		"Streams":       lister(func(tx *ReadTx, p Page) ([]Stream, string, error) { return tx.Streams(ctx, agent, p) }, func(s Stream) any { return s.Name }),
		"Evidence":      lister(func(tx *ReadTx, p Page) ([]Evidence, string, error) { return tx.EvidenceList(ctx, nil, p) }, func(e Evidence) any { return e.ID }),
		"EvidenceOf":    lister(func(tx *ReadTx, p Page) ([]Evidence, string, error) { return tx.EvidenceList(ctx, &agent, p) }, func(e Evidence) any { return e.Index }),
		"Epochs":        lister(func(tx *ReadTx, p Page) ([]Epoch, string, error) { return tx.Epochs(ctx, p) }, func(e Epoch) any { return e.ID }),
		"Steps":         lister(func(tx *ReadTx, p Page) ([]Step, string, error) { return tx.Steps(ctx, agent, "", p) }, func(s Step) any { return s.Hash }),
		"StreamSteps":   lister(func(tx *ReadTx, p Page) ([]Step, string, error) { return tx.StreamSteps(ctx, agent, "a", p) }, func(s Step) any { return s.Seq }),
	} {
		read(t, s, func(tx *ReadTx) error {
			all, next, err := walk(tx, Page{Limit: MaxPage})
			if err != nil || next != "" || len(all) < 4 {
				t.Errorf("%s: %d rows, next %q, %v", name, len(all), next, err)
			}
			for limit := 1; limit <= len(all); limit++ {
				var got []string
				p := Page{Limit: limit}
				for more := true; more; more = p.Cursor != "" {
					rows, next, err := walk(tx, p)
					if err != nil || len(rows) > limit {
						t.Fatalf("%s: %d rows of %d, %v", name, len(rows), limit, err)
					}
					got, p.Cursor = append(got, rows...), next
				}
				if !slices.Equal(got, all) {
					t.Errorf("%s by %d: %v, want %v", name, limit, got, all)
				}
			}
			for _, bad := range []string{"x", "-1", "1.2.3", "1e3", " 1", "99999999999999999999"} {
				if _, _, err := walk(tx, Page{Cursor: bad}); !errors.Is(err, ErrCursor) {
					t.Errorf("%s: cursor %q = %v, want ErrCursor", name, bad, err)
				}
			}
			return nil
		})
	}
}

func lister[T any](rows func(*ReadTx, Page) ([]T, string, error), key func(T) any) func(*ReadTx, Page) ([]string, string, error) {
	return func(tx *ReadTx, p Page) ([]string, string, error) {
		got, next, err := rows(tx, p)
		keys := make([]string, len(got))
		for i := range got {
			keys[i] = fmt.Sprint(key(got[i]))
		}
		return keys, next, err
	}
}

func TestEvidence(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	put(t, s, testBatch(1, "a", 0))
	add := func(index uint64, doc string) error {
		return s.Update(ctx, func(tx *Tx) error {
			return tx.AddEvidence(ctx, testAgent(1), "a", index, "SAME_INDEX", []byte(doc), tx.Now())
		})
	}
	if err := errors.Join(add(0, `{"n":0}`), add(3, `{"n":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := add(3, `{"n":4}`); !errors.Is(err, ErrConflict) {
		t.Errorf("second evidence of an index = %v, want ErrConflict", err)
	}
	err := s.Update(ctx, func(tx *Tx) error { return tx.AddEvidence(ctx, testAgent(1), "other", 0, "ORDER", nil, 0) })
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("evidence of an unknown stream = %v, want ErrNotFound", err)
	}
	update(t, s, func(tx *Tx) error {
		n, err := tx.EvidenceCount(ctx, testAgent(1))
		if err != nil || n != 2 {
			t.Errorf("count = %d, %v; want 2", n, err)
		}
		for want, got := range map[string]func() ([]byte, error){
			`{"n":0}`: func() ([]byte, error) { return tx.Evidence(ctx, testAgent(1), "a", 0) },
			`{"n":3}`: func() ([]byte, error) { return tx.LatestEvidence(ctx, testAgent(1)) },
		} {
			if doc, err := got(); err != nil || string(doc) != want {
				t.Errorf("evidence = %s, %v; want %s", doc, err, want)
			}
		}
		return nil
	})
}

func TestEpochs(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	put(t, s, testBatch(1, "a", 0), testBatch(1, "a", 1), testBatch(1, "a", 2))
	ids := []flight.Hash{}
	read(t, s, func(tx *ReadTx) error {
		waiting, err := tx.Pending(ctx, 2)
		for _, b := range waiting {
			ids = append(ids, b.ID)
		}
		if len(waiting) != 2 || waiting[0].Position != 1 {
			t.Errorf("pending = %+v", waiting)
		}
		return err
	})
	root, err := flight.EpochRoot(ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		root        flight.Hash
		first, last uint64
	}{{root, 2, 3}, {root, 1, 4}, {root, 1, 0}, {flight.Hash{1}, 1, 2}, {root, 1, 600}} {
		err := s.Update(ctx, func(tx *Tx) error { _, err := tx.InsertEpoch(ctx, c.root, c.first, c.last, 1); return err })
		if !errors.Is(err, ErrConflict) {
			t.Errorf("epoch %+v = %v, want ErrConflict", c, err)
		}
	}
	var e *Epoch
	update(t, s, func(tx *Tx) (err error) { e, err = tx.InsertEpoch(ctx, root, 1, 2, 84532); return err })
	sender := testAgent(9)
	tx1 := EpochTx{EpochID: e.ID, ChainID: 84532, Sender: sender, Nonce: 7, Hash: flight.Hash{1}, Raw: []byte("raw"), GasLimit: 100}
	tx2 := tx1
	tx2.Hash, tx2.GasLimit = flight.Hash{2}, 110 // a replacement
	update(t, s, func(tx *Tx) error {
		return errors.Join(tx.AddEpochTx(ctx, tx1), tx.EpochTxSent(ctx, tx1.Hash, errors.New("refused")), tx.AddEpochTx(ctx, tx2), tx.EpochTxSent(ctx, tx2.Hash, nil))
	})
	gas := func(want uint64) {
		t.Helper()
		read(t, s, func(tx *ReadTx) error {
			if got, err := tx.GasSince(ctx, 0); err != nil || got != want {
				t.Errorf("gas = %d, %v; want %d", got, err, want)
			}
			return nil
		})
	}
	gas(110)
	at := EpochAnchor{TxHash: tx2.Hash, BlockNumber: 5, BlockHash: flight.Hash{5}, BlockTime: 6, EAS: testAgent(3), SchemaUID: flight.Hash{7},
		AttestationUID: flight.Hash{8}, Attester: sender, GasUsed: 90}
	update(t, s, func(tx *Tx) error { return tx.SettleEpoch(ctx, e.ID, EpochPending, EpochIncluded, at) })
	gas(90)
	for name, fn := range map[string]func(tx *Tx) error{
		"SetEpochState": func(tx *Tx) error { return tx.SetEpochState(ctx, e.ID, EpochPending, EpochFailed, "") },
		"SettleEpoch":   func(tx *Tx) error { return tx.SettleEpoch(ctx, e.ID, EpochPending, EpochSafe, at) },
		"EpochTxSent":   func(tx *Tx) error { return tx.EpochTxSent(ctx, flight.Hash{99}, nil) },
		"AddEpochTx":    func(tx *Tx) error { return tx.AddEpochTx(ctx, tx1) },
	} {
		if err := s.Update(ctx, fn); !errors.Is(err, ErrConflict) {
			t.Errorf("%s = %v, want ErrConflict", name, err)
		}
	}
	read(t, s, func(tx *ReadTx) error {
		got, err := tx.EpochByRoot(ctx, root)
		if err != nil || got.State != EpochIncluded || *got.TxHash != tx2.Hash || *got.BlockNumber != 5 || got.BlockTime != 6 || got.Count() != 2 {
			t.Errorf("epoch = %+v, %v", got, err)
		}
		if of, err := tx.EpochOf(ctx, 2); err != nil || of.ID != e.ID {
			t.Errorf("epoch of 2 = %+v, %v", of, err)
		}
		if _, err := tx.EpochOf(ctx, 3); !errors.Is(err, ErrNotFound) {
			t.Errorf("epoch of 3 = %v, want ErrNotFound", err)
		}
		if m, err := tx.EpochMembers(ctx, e.ID); err != nil || !slices.Equal(m, ids) {
			t.Errorf("members = %v, %v", m, err)
		}
		if n, ok, err := tx.HighestOpenNonce(ctx, 84532, sender); err != nil || !ok || n != 7 {
			t.Errorf("nonce = %d, %v, %v", n, ok, err)
		}
		txs, err := tx.EpochTxs(ctx, e.ID)
		if err != nil || len(txs) != 2 || txs[0].Error != "refused" || txs[0].SentAt != 0 || txs[1].SentAt == 0 || string(txs[1].Raw) != "raw" {
			t.Errorf("txs = %+v, %v", txs, err)
		}
		return nil
	})
	update(t, s, func(tx *Tx) error { return tx.SetEpochState(ctx, e.ID, EpochIncluded, EpochFinal, "deep") })
	read(t, s, func(tx *ReadTx) error {
		if _, ok, err := tx.HighestOpenNonce(ctx, 84532, sender); err != nil || ok {
			t.Errorf("a final epoch has an open nonce, %v", err)
		}
		open, err := tx.OpenEpochs(ctx)
		events, err2 := tx.EpochEvents(ctx, e.ID)
		if len(open) != 0 || len(events) != 3 || events[2].Note != "deep" {
			t.Errorf("open = %v, events = %v", open, events)
		}
		return errors.Join(err, err2)
	})
}

// testStep is an opened step of stream "a", ten to a batch.
func testStep(agent int, seq, chain uint64, kind string, tx *flight.Hash) *Step {
	b := testBatch(agent, "a", seq/10)
	s := &Step{Hash: testHash("step", agent, seq), BatchID: b.ID(), Agent: testAgent(agent), Stream: "a", Seq: seq, At: 5,
		Record: json.RawMessage(`{"v":1}`), Proof: json.RawMessage(`{}`), ChainID: chain, TxHash: tx, Verdict: flight.Unverified(flight.NoClaim)}
	if kind != "" {
		s.Claim, s.ClaimKind, s.Opened = json.RawMessage(`{"salt":"0x"}`), kind, []string{"claim"}
		s.Verdict = flight.Unverified(flight.TxNotFound)
	}
	return s
}

func TestUpsertStep(t *testing.T) {
	clk := newClock()
	opt := options(t, t.TempDir())
	opt.Now = clk.now
	s := openStore(t, opt)
	ctx := t.Context()
	tx1 := testHash("tx")
	upsert := func(st *Step) error { return s.Update(ctx, func(tx *Tx) error { return tx.UpsertStep(ctx, st) }) }
	step := testStep(1, 3, 1, "", &tx1)
	step.Opened, step.Reveals = []string{"args"}, map[string]json.RawMessage{"args": json.RawMessage("12345")}
	if err := upsert(step); !errors.Is(err, ErrNotFound) {
		t.Errorf("step of no batch = %v, want ErrNotFound", err)
	}
	put(t, s, testBatch(1, "a", 0))
	if err := upsert(step); err != nil {
		t.Fatal(err)
	}
	claim := testStep(1, 3, 1, "tx.success", &tx1)
	claim.Reveals = map[string]json.RawMessage{"args": json.RawMessage("other"), "result": json.RawMessage("678")}
	if err := errors.Join(upsert(claim), upsert(claim)); err != nil {
		t.Fatal(err)
	}
	read(t, s, func(tx *ReadTx) error {
		got, err := tx.Step(ctx, step.Hash)
		if err != nil || !slices.Equal(got.Opened, []string{"args", "claim"}) || string(got.Claim) != string(claim.Claim) || got.ClaimKind != "tx.success" ||
			string(got.Reveals["args"]) != "12345" || string(got.Reveals["result"]) != "678" || got.Verdict.Reason != flight.TxNotFound || *got.TxHash != tx1 {
			t.Errorf("step = %+v, %v", got, err)
		}
		a, err := tx.Agent(ctx, testAgent(1))
		if err != nil || a.Opened != 1 {
			t.Errorf("agent = %+v, %v", a, err)
		}
		return nil
	})
	bytesToday := func(want uint64) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			if n, err := tx.RevealBytesToday(ctx, testAgent(1)); err != nil || n != want {
				t.Errorf("published %d, %v; want %d", n, err, want)
			}
			return nil
		})
	}
	bytesToday(8)
	update(t, s, func(tx *Tx) error { return tx.DeleteReveals(ctx, step.Hash) })
	bytesToday(8)
	clk.ms.Add(dayMs)
	bytesToday(0)
	read(t, s, func(tx *ReadTx) error {
		got, err := tx.StepAt(ctx, testAgent(1), "a", 3)
		if err != nil || len(got.Reveals) != 0 || len(got.Claim) == 0 {
			t.Errorf("after deletion: %+v, %v", got, err)
		}
		return nil
	})
	twin := testStep(1, 3, 1, "", &tx1)
	twin.Hash = flight.Hash{1}
	if err := upsert(twin); !errors.Is(err, ErrConflict) {
		t.Errorf("another step of one number = %v, want ErrConflict", err)
	}
}

// TestTallies draws verdicts and compares the counters with a recount.
// A page of steps ends early where much is kept open of them, and loses none.
func TestStepPagesAreBounded(t *testing.T) {
	s, ctx, agent := fresh(t), t.Context(), testAgent(1)
	put(t, s, testBatch(1, "a", 0))
	same := testHash("tx")
	sizes := []int{pageBytes, 10, pageBytes / 2, 0, 0, pageBytes / 2, pageBytes / 2, pageBytes + 9, 0, 3 * pageBytes}
	for seq, n := range sizes {
		st := testStep(1, uint64(seq), 8453, "", &same)
		if n > 0 {
			st.ClaimKind, st.Claim = "other", make([]byte, n)
		}
		update(t, s, func(tx *Tx) error { return tx.UpsertStep(ctx, st) })
	}
	for name, page := range map[string]func(*ReadTx, Page) ([]Step, string, error){
		"of a key":    func(tx *ReadTx, p Page) ([]Step, string, error) { return tx.Steps(ctx, agent, "", p) },
		"of a stream": func(tx *ReadTx, p Page) ([]Step, string, error) { return tx.StreamSteps(ctx, agent, "a", p) },
		"of a transaction": func(tx *ReadTx, p Page) ([]Step, string, error) {
			after, err := p.key(0)
			if err != nil {
				return nil, "", err
			}
			steps, next, err := tx.StepsOfTx(ctx, 8453, same, uint64(after), p.Limit)
			if next == 0 {
				return steps, "", err
			}
			return steps, cursor(next), err
		},
	} {
		got, parts := map[uint64]int{}, 0
		for p := (Page{Limit: 9}); parts == 0 || p.Cursor != ""; parts++ {
			read(t, s, func(tx *ReadTx) error {
				steps, next, err := page(tx, p)
				p.Cursor = next
				bytes, last := 0, 0
				for _, st := range steps {
					if got[st.Seq] = len(st.Claim); len(st.Claim) > 0 {
						bytes, last = bytes+len(st.Claim), len(st.Claim)
					}
				}
				if len(steps) == 0 || bytes-last > pageBytes {
					t.Errorf("%s: a part of %d steps with %d bytes open", name, len(steps), bytes)
				}
				return err
			})
		}
		for seq, n := range sizes {
			if have, ok := got[uint64(seq)]; !ok || have != n {
				t.Errorf("%s: step %d has %d bytes open, listed %v; want %d", name, seq, have, ok, n)
			}
		}
		if parts < 4 {
			t.Errorf("%s: %d parts", name, parts)
		}
	}
}

func TestTallies(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		agent := round + 10 // a fresh key in one database
		put(t, s, testBatch(agent, "a", 0))
		txs := []flight.Hash{testHash("t", 0), testHash("t", 1), testHash("t", 2)}
		verdicts := map[uint64]StepVerdict{}
		kinds := map[uint64]string{}
		where := map[uint64][2]int{} // chain, tx
		for range rapid.IntRange(1, 25).Draw(rt, "changes") {
			seq := uint64(rapid.IntRange(0, 9).Draw(rt, "seq"))
			if _, ok := where[seq]; !ok {
				where[seq] = [2]int{rapid.SampledFrom([]int{1, DevChain}).Draw(rt, "chain"), rapid.IntRange(0, 2).Draw(rt, "tx")}
				kinds[seq] = rapid.SampledFrom([]string{"", flight.ClaimNative, flight.ClaimTxSuccess}).Draw(rt, "kind")
				verdicts[seq] = StepVerdict{Verdict: flight.Unverified(flight.TxNotFound)}
			} else if kinds[seq] == "" && rapid.Bool().Draw(rt, "open") {
				kinds[seq], verdicts[seq] = flight.ClaimNative, StepVerdict{Verdict: flight.Unverified(flight.TxNotFound)}
			} else {
				v := StepVerdict{At: 9, Self: rapid.Bool().Draw(rt, "self"), Zero: rapid.Bool().Draw(rt, "zero"), Late: rapid.Bool().Draw(rt, "late")}
				v.Verdict.State = rapid.SampledFrom([]flight.State{flight.Confirmed, flight.Contradicted, flight.Unverifiable}).Draw(rt, "state")
				if n := rapid.IntRange(0, 2).Draw(rt, "party"); n > 0 {
					a := testAgent(n)
					v.Counterparty = &a
				}
				v.StepHash = testStep(agent, seq, 0, "", nil).Hash
				update(t, s, func(tx *Tx) error { return tx.SetVerdict(ctx, v) })
				verdicts[seq] = v
				continue
			}
			update(t, s, func(tx *Tx) error {
				return tx.UpsertStep(ctx, testStep(agent, seq, uint64(where[seq][0]), kinds[seq], &txs[where[seq][1]]))
			})
		}
		want := recount(verdicts, kinds, where)
		read(t, s, func(tx *ReadTx) error {
			got, err := tx.Tallies(ctx, testAgent(agent))
			for _, g := range got {
				if g.Tally != want[[2]string{fmt.Sprint(g.Dev), g.Kind}] {
					rt.Errorf("%v %q: %+v, want %+v", g.Dev, g.Kind, g.Tally, want[[2]string{fmt.Sprint(g.Dev), g.Kind}])
				}
				delete(want, [2]string{fmt.Sprint(g.Dev), g.Kind})
			}
			for k, w := range want {
				if w != (Tally{}) {
					rt.Errorf("no tally for %v, want %+v", k, w)
				}
			}
			return err
		})
	})
}

func recount(verdicts map[uint64]StepVerdict, kinds map[uint64]string, where map[uint64][2]int) map[[2]string]Tally {
	type group struct {
		states           map[flight.State]bool
		self, zero, late bool
	}
	groups := map[[2]string]map[[2]int]*group{}
	parties := map[[2]string]map[flight.Address]bool{}
	for seq, v := range verdicts {
		for _, kind := range []string{"", kinds[seq]} {
			if kinds[seq] == "" {
				continue
			}
			k := [2]string{fmt.Sprint(where[seq][0] == DevChain), kind}
			if groups[k] == nil {
				groups[k], parties[k] = map[[2]int]*group{}, map[flight.Address]bool{}
			}
			g := groups[k][where[seq]]
			if g == nil {
				g = &group{states: map[flight.State]bool{}}
				groups[k][where[seq]] = g
			}
			g.states[v.Verdict.State] = true
			g.self, g.zero, g.late = g.self || v.Self, g.zero || v.Zero, g.late || v.Late
			if v.Counterparty != nil {
				parties[k][*v.Counterparty] = true
			}
		}
	}
	out := map[[2]string]Tally{}
	one := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	for k, txs := range groups {
		t := Tally{Counterparties: uint64(len(parties[k]))}
		for _, g := range txs {
			bad, good := g.states[flight.Contradicted], g.states[flight.Confirmed]
			t.Contradicted += one(bad)
			t.Confirmed += one(!bad && good)
			t.Unverifiable += one(!bad && !good)
			t.Self, t.Zero, t.Late = t.Self+one(g.self), t.Zero+one(g.zero), t.Late+one(g.late)
		}
		out[k] = t
	}
	return out
}

// TestRecheckFair gives one key many due jobs and others one each, and expects
// every key in the first answer whatever the time.
func TestRecheckFair(t *testing.T) {
	clk := newClock()
	opt := options(t, t.TempDir())
	opt.Now = clk.now
	s := openStore(t, opt)
	ctx := t.Context()
	for n := range 6 {
		put(t, s, testBatch(n, "a", 0))
	}
	update(t, s, func(tx *Tx) error {
		for i := range MaxRechecks + 20 {
			if err := tx.PutRecheck(ctx, testAgent(0), 1, testHash("hog", i)); err != nil {
				return err
			}
		}
		for n := 1; n < 6; n++ {
			if err := tx.PutRecheck(ctx, testAgent(n), 1, testHash("tx", n)); err != nil {
				return err
			}
		}
		if n, err := tx.RecheckOpen(ctx, testAgent(0)); err != nil || n != MaxRechecks {
			t.Errorf("open = %d, %v; want %d", n, err, MaxRechecks)
		}
		return nil
	})
	for round := range uint64(10) {
		read(t, s, func(tx *ReadTx) error {
			jobs, err := tx.DueRechecks(ctx, uint64(clk.ms.Load())+round*1000, 12)
			seen := map[flight.Address]int{}
			for _, j := range jobs {
				seen[j.Agent]++
			}
			if err != nil || len(jobs) != 12 || len(seen) != 6 || seen[testAgent(0)] != 7 {
				t.Errorf("round %d: %d jobs of %d keys, %v", round, len(jobs), len(seen), err)
			}
			few, err := tx.DueRechecks(ctx, uint64(clk.ms.Load())+round*1000, 4)
			if err != nil || len(few) != 4 {
				t.Errorf("round %d: %d jobs, %v", round, len(few), err)
			}
			return nil
		})
	}
	tx1 := testHash("tx", 1)
	update(t, s, func(tx *Tx) error { return tx.PutOffRecheck(ctx, 1, tx1, tx.Now()+5000) })
	read(t, s, func(tx *ReadTx) error {
		j, err := tx.Recheck(ctx, 1, tx1)
		jobs, err2 := tx.DueRechecks(ctx, uint64(clk.ms.Load()), 1000)
		if !j.Open || j.Attempts != 1 || len(jobs) != MaxRechecks+4 {
			t.Errorf("job = %+v, %d due", j, len(jobs))
		}
		return errors.Join(err, err2)
	})
	update(t, s, func(tx *Tx) error { return errors.Join(tx.FinishRecheck(ctx, 1, tx1), tx.FinishRecheck(ctx, 1, tx1)) })
	if err := s.Update(ctx, func(tx *Tx) error { return tx.PutOffRecheck(ctx, 1, tx1, 1) }); !errors.Is(err, ErrConflict) {
		t.Errorf("put off a finished job = %v, want ErrConflict", err)
	}
	update(t, s, func(tx *Tx) error { return tx.PutRecheck(ctx, testAgent(1), 1, tx1) }) // a reorg
	read(t, s, func(tx *ReadTx) error {
		j, err := tx.Recheck(ctx, 1, tx1)
		if !j.Open || j.Attempts != 0 {
			t.Errorf("reopened job = %+v", j)
		}
		return err
	})
	hasten := func(tx *Tx) error { return tx.HastenRecheck(ctx, testAgent(1), 1, tx1) }
	update(t, s, func(tx *Tx) error { return tx.PutOffRecheck(ctx, 1, tx1, tx.Now()+5000) })
	for _, name := range []string{"put off", "finished"} {
		update(t, s, hasten)
		read(t, s, func(tx *ReadTx) error {
			j, err := tx.Recheck(ctx, 1, tx1)
			if !j.Open || j.Attempts != 0 || j.DueAt != j.FirstAt {
				t.Errorf("hastened, %s job = %+v", name, j)
			}
			return err
		})
		update(t, s, func(tx *Tx) error { return tx.FinishRecheck(ctx, 1, tx1) })
	}
	full := testHash("full")
	if err := s.Update(ctx, func(tx *Tx) error { return tx.HastenRecheck(ctx, testAgent(0), 1, full) }); !errors.Is(err, ErrConflict) {
		t.Errorf("a further job of a key with %d = %v, want ErrConflict", MaxRechecks, err)
	}
}

func TestFinalBlocks(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	put(t, s, testBatch(1, "a", 0))
	here, gone := testHash("here"), testHash("gone")
	txs := []flight.Hash{testHash("tx", 0), testHash("tx", 1), testHash("tx", 1)}
	for i, v := range []StepVerdict{
		{BlockNumber: 7, BlockHash: here, Final: true},
		{BlockNumber: 7, BlockHash: gone, Final: true}, {BlockNumber: 7, BlockHash: gone, Final: true}, // of one transaction
	} {
		st := testStep(1, uint64(i), 1, flight.ClaimNative, &txs[i])
		v.StepHash, v.Verdict.State = st.Hash, flight.Confirmed
		update(t, s, func(tx *Tx) error { return errors.Join(tx.UpsertStep(ctx, st), tx.SetVerdict(ctx, v)) })
	}
	for _, c := range []struct {
		chain, below uint64
		want         uint64
		err          error
	}{{1, 8, 7, nil}, {1, 7, 0, ErrNotFound}, {2, 8, 0, ErrNotFound}} {
		read(t, s, func(tx *ReadTx) error {
			if got, err := tx.FinalBlockBelow(ctx, c.chain, c.below); got != c.want || !errors.Is(err, c.err) {
				t.Errorf("below %d of chain %d: %d, %v", c.below, c.chain, got, err)
			}
			return nil
		})
	}
	read(t, s, func(tx *ReadTx) error {
		off, err := tx.FinalTxsOff(ctx, 1, 7, here, 9)
		if want := []ClaimedTx{{txs[1], testAgent(1)}}; !slices.Equal(off, want) {
			t.Errorf("off the chain: %v, want %v", off, want)
		}
		return err
	})
}

func TestReplays(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	var p Replay
	put := func(tx *Tx) (err error) {
		p, err = tx.PutReplay(ctx, 1, flight.Hash{1}, "full", flight.Hash{2})
		return err
	}
	start := func(tx *Tx) error { _, err := tx.StartReplay(ctx); return err }
	finish := func(to ReplayState) func(*Tx) error {
		return func(tx *Tx) error { return tx.FinishReplay(ctx, p.ID, to, []byte(`{"a":1}`), []byte(`{"b":2}`)) }
	}
	release := func(tx *Tx) error { return tx.ReleaseReplay(ctx, p.ID) }
	cancel := func(tx *Tx) error { return tx.CancelReplay(ctx, p.ID) }
	again := func(tx *Tx) error { return tx.RequeueReplay(ctx, p.ID) }
	restart := func(tx *Tx) error { return tx.RecoverReplays(ctx) }
	for i, c := range []struct {
		name     string
		do       func(*Tx) error
		err      error
		state    ReplayState
		attempts int
		open     uint64
	}{
		{"ask", put, nil, ReplayQueued, 0, 1},
		{"finish what does not run", finish(ReplayDone), ErrConflict, ReplayQueued, 0, 1},
		{"queue what is queued", again, ErrConflict, ReplayQueued, 0, 1},
		{"start", start, nil, ReplayRunning, 1, 1},
		{"start with an empty queue", start, ErrNotFound, ReplayRunning, 1, 1},
		{"ask for what runs", put, nil, ReplayRunning, 1, 1},
		{"the node stops", release, nil, ReplayQueued, 0, 1},
		{"stop what does not run", release, ErrConflict, ReplayQueued, 0, 1},
		{"start", start, nil, ReplayRunning, 1, 1},
		{"the node is killed", restart, nil, ReplayQueued, 1, 1},
		{"start", start, nil, ReplayRunning, 2, 1},
		{"fail", finish(ReplayFailed), nil, ReplayFailed, 2, 0},
		{"ask again", put, nil, ReplayQueued, 0, 1},
		{"cancel what waits", cancel, nil, ReplayCancelled, 0, 0},
		{"cancel what is cancelled", cancel, ErrConflict, ReplayCancelled, 0, 0},
		{"ask for what the operator cancelled", put, nil, ReplayCancelled, 0, 0},
		{"run it after all", again, nil, ReplayQueued, 0, 1},
		{"start", start, nil, ReplayRunning, 1, 1},
		{"cancel what runs", cancel, nil, ReplayCancelled, 1, 0},
		{"finish what was cancelled", finish(ReplayDone), ErrConflict, ReplayCancelled, 1, 0},
		{"run it after all", again, nil, ReplayQueued, 0, 1},
		{"start", start, nil, ReplayRunning, 1, 1},
		{"done", finish(ReplayDone), nil, ReplayDone, 1, 0},
		{"ask for what is done", put, nil, ReplayDone, 1, 0},
		{"cancel what is done", cancel, ErrConflict, ReplayDone, 1, 0},
		{"nothing to recover", restart, nil, ReplayDone, 1, 0},
		{"run what is done again", again, nil, ReplayQueued, 0, 1},
	} {
		if err := s.Update(ctx, c.do); !errors.Is(err, c.err) {
			t.Errorf("%d, %s: %v, want %v", i, c.name, err, c.err)
		}
		read(t, s, func(tx *ReadTx) error {
			got, err := tx.ReplayByID(ctx, p.ID)
			n, err2 := tx.ReplaysOpen(ctx)
			ended := got.State == ReplayDone || got.State == ReplayFailed
			if got.State != c.state || got.Attempts != c.attempts || n != c.open || (got.Result != nil) != ended || (got.Summary != nil) != ended {
				t.Errorf("%d, %s: %+v, %d open; want %s after %d attempts, %d open", i, c.name, got, n, c.state, c.attempts, c.open)
			}
			return errors.Join(err, err2)
		})
	}
	for _, c := range []struct {
		tx       flight.Hash
		prefixes []string // in the order in which they are asked for
		want     string
	}{{flight.Hash{7}, []string{"none"}, "none"}, {flight.Hash{8}, []string{"none", "full"}, "full"}, {flight.Hash{9}, nil, ""}} {
		update(t, s, func(tx *Tx) error {
			for _, prefix := range c.prefixes {
				if _, err := tx.PutReplay(ctx, 1, c.tx, prefix, flight.Hash{2}); err != nil {
					return err
				}
			}
			return nil
		})
		read(t, s, func(tx *ReadTx) error {
			got, err := tx.ReplayOf(ctx, 1, c.tx)
			if got.Prefix != c.want || errors.Is(err, ErrNotFound) != (c.want == "") {
				t.Errorf("replay of %v = %q, %v; want %q", c.prefixes, got.Prefix, err, c.want)
			}
			return nil
		})
	}
}

// TestReplayLists pages through replays, of which several were queued in one
// millisecond, by every state.
func TestReplayLists(t *testing.T) {
	s, ctx := fresh(t), t.Context()
	want := map[ReplayState][]uint64{}
	for round := range 3 {
		update(t, s, func(tx *Tx) error { // in one millisecond
			for i := range 3 {
				p, err := tx.PutReplay(ctx, 1, flight.Hash{byte(round), byte(i)}, "full", flight.Hash{2})
				if err != nil {
					return err
				}
				state := ReplayQueued
				if i == 0 {
					state = ReplayCancelled
					err = tx.CancelReplay(ctx, p.ID)
				}
				if err != nil {
					return err
				}
				want[state], want[""] = append(want[state], p.ID), append(want[""], p.ID)
			}
			return nil
		})
	}
	for _, state := range []ReplayState{"", ReplayQueued, ReplayCancelled, ReplayDone} {
		var got []uint64
		for at, rounds := "", 0; rounds == 0 || at != ""; rounds++ {
			read(t, s, func(tx *ReadTx) error {
				rows, next, err := tx.Replays(ctx, state, Page{Cursor: at, Limit: 2})
				for _, p := range rows {
					got = append(got, p.ID)
				}
				at = next
				return err
			})
		}
		slices.Reverse(got)
		if !slices.Equal(got, want[state]) {
			t.Errorf("%q: %v, want %v, the last queued first", state, got, want[state])
		}
	}
	read(t, s, func(tx *ReadTx) error {
		if _, _, err := tx.Replays(ctx, "", Page{Cursor: "5"}); !errors.Is(err, ErrCursor) {
			t.Errorf("another list's cursor = %v", err)
		}
		return nil
	})
}

func TestCronRuns(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	update(t, s, func(tx *Tx) error {
		for i := range uint64(keptRuns + 30) {
			for _, job := range []string{"anchor", "recheck"} {
				if err := tx.AddCronRun(ctx, CronRun{Job: job, Start: i, End: i + 1, Note: "n", Error: "e"}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	read(t, s, func(tx *ReadTx) error {
		runs, err := tx.CronRuns(ctx, "anchor", 1000)
		if len(runs) != keptRuns || !reflect.DeepEqual(runs[0], CronRun{Job: "anchor", Start: keptRuns + 29, End: keptRuns + 30, Note: "n", Error: "e"}) {
			t.Errorf("%d runs, the last %+v", len(runs), runs[0])
		}
		return err
	})
}

func TestKeyLocks(t *testing.T) {
	l := NewKeyLocks()
	keys := []StreamKey{{testAgent(1), "a"}, {testAgent(1), "b"}, {testAgent(2), "a"}}
	counts := make([]int, len(keys))
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 200 {
				k := (n + i) % len(keys)
				if i%5 == 0 { // all of them, named in any order and twice
					unlock := l.LockAll([]StreamKey{keys[k], keys[(k+1)%3], keys[k], keys[(k+2)%3]})
					for j := range counts {
						counts[j]++
					}
					unlock()
					continue
				}
				unlock := l.Lock(keys[k])
				counts[k]++
				unlock()
			}
		})
	}
	wg.Wait()
	if total := counts[0] + counts[1] + counts[2]; total != 16*(160+40*3) {
		t.Errorf("counted %d", total)
	}
	if len(l.locks) != 0 {
		t.Errorf("%d locks are left", len(l.locks))
	}
}
