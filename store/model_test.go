package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"karatum/flight"
)

// A model is what the store should hold, kept in the simplest way.
type model struct {
	batches []flight.Batch
	spent   map[int]int // quota units by agent
	notes   map[string]string
}

// A fate is how a drawn job or group ends.
const (
	fateCommit = iota
	fateError  // the job's function fails at its end
	fatePanic
)

type drawnJob struct {
	inserts []flight.Batch
	agents  []int
	spend   bool
	note    string // written by SQL, which opens the savepoint
	look    bool   // a read between the writes
	fate    int
}

func drawJob(t *rapid.T) (j drawnJob) {
	for range rapid.IntRange(0, 4).Draw(t, "batches") {
		n := rapid.IntRange(0, 3).Draw(t, "agent")
		stream := rapid.SampledFrom([]string{"a", "b", "\u00e9\U0001f600"}).Draw(t, "stream")
		j.inserts = append(j.inserts, testBatch(n, stream, uint64(rapid.IntRange(0, 9).Draw(t, "index"))))
		j.agents = append(j.agents, n)
	}
	j.spend = rapid.Bool().Draw(t, "spend")
	j.look = rapid.Bool().Draw(t, "look")
	j.note = rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "note")
	j.fate = rapid.SampledFrom([]int{fateCommit, fateCommit, fateCommit, fateError, fatePanic}).Draw(t, "fate")
	return j
}

var errDrawn = errors.New("drawn to fail")

// run is the job against the store. An index that is taken is skipped, as the
// application would.
func (j drawnJob) run(ctx context.Context, tx *Tx) error {
	for i, b := range j.inserts {
		same, before, after, err := tx.Around(ctx, b.Header.Agent, b.Header.Stream, b.Header.Index)
		if err != nil {
			return err
		}
		if before != nil && before.Batch.Header.Index >= b.Header.Index || after != nil && after.Batch.Header.Index <= b.Header.Index {
			return fmt.Errorf("neighbours of %d: %v, %v", b.Header.Index, before, after)
		}
		if same != nil {
			if _, err := insert(ctx, tx, b); !errors.Is(err, ErrConflict) {
				return fmt.Errorf("second insert: %v", err)
			}
			continue
		}
		if j.spend {
			if _, ok, err := tx.SpendQuota(ctx, testAgent(j.agents[i]), tx.Now(), 1<<20); err != nil || !ok {
				return errors.Join(err, errors.New("quota"))
			}
		}
		if _, err := insert(ctx, tx, b); err != nil {
			return err
		}
		if j.look {
			if s, err := tx.Stream(ctx, b.Header.Agent, b.Header.Stream); err != nil || s.LastIndex < b.Header.Index {
				return fmt.Errorf("stream behind its batch: %+v, %v", s, err)
			}
		}
		if j.note != "" {
			if err := tx.SetMeta(ctx, j.note, b.Header.Head[:]); err != nil {
				return err
			}
		}
	}
	switch j.fate {
	case fateError:
		return errDrawn
	case fatePanic:
		panic(errDrawn)
	}
	return nil
}

// apply is the job against the model.
func (m *model) apply(j drawnJob) {
	if j.fate != fateCommit {
		return
	}
	for i, b := range j.inserts {
		taken := false
		for _, have := range m.batches {
			taken = taken || have.Header.Agent == b.Header.Agent && have.Header.Stream == b.Header.Stream && have.Header.Index == b.Header.Index
		}
		if taken {
			continue
		}
		m.batches = append(m.batches, b)
		if j.spend {
			m.spent[j.agents[i]]++
		}
		if j.note != "" {
			m.notes[j.note] = b.Header.Head.String()
		}
	}
}

// TestAgainstModel draws groups of jobs, some of which fail, and groups that
// cannot be sealed, and compares the store with the model: rows after each group,
// the caches through what the next jobs decide, the counters by Check.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		opt := options(t, dir)
		seal, sealed := opt.Seal, true
		opt.Seal = func(rs []*flight.Receipt) error {
			if !sealed {
				return errDrawn
			}
			return seal(rs)
		}
		s, err := Open(t.Context(), opt)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.Close() }()
		m := model{spent: map[int]int{}, notes: map[string]string{}}
		for range rapid.IntRange(1, 5).Draw(rt, "groups") {
			jobs := rapid.SliceOfN(rapid.Custom(drawJob), 1, 5).Draw(rt, "jobs")
			sealed = rapid.IntRange(0, 4).Draw(rt, "sealed") > 0
			next := m.clone()
			for _, j := range jobs {
				next.apply(j)
			}
			runGroup(rt, s, jobs)
			if sealed || len(next.batches) == len(m.batches) {
				m = next
			}
			m.compare(t.Context(), rt, s)
			if rapid.IntRange(0, 9).Draw(rt, "reopen") == 0 {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				if s, err = Open(t.Context(), opt); err != nil {
					rt.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			rt.Fatal(err)
		}
		if err := Check(t.Context(), filepath.Join(dir, FileName)); err != nil {
			rt.Fatal(err)
		}
	})
}

// runGroup runs the jobs in one group, on the writer, and checks each answer.
func runGroup(t *rapid.T, s *Store, drawn []drawnJob) {
	ctx := context.Background()
	var jobs []*job
	for _, d := range drawn {
		jobs = append(jobs, &job{ctx: ctx, done: make(chan error, 1), fn: func(tx *Tx) error { return d.run(ctx, tx) }})
	}
	if err := s.onWriter(ctx, func(w *writer) error { w.run(jobs); return nil }); err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		err := <-j.done
		if (j.panicked != nil) != (drawn[i].fate == fatePanic) || err != nil && j.panicked == nil && !errors.Is(err, errDrawn) ||
			err == nil && drawn[i].fate != fateCommit {
			t.Fatalf("job %d of fate %d: %v", i, drawn[i].fate, err)
		}
	}
}

func (m *model) clone() model {
	c := model{batches: append([]flight.Batch(nil), m.batches...), spent: map[int]int{}, notes: map[string]string{}}
	for k, v := range m.spent {
		c.spent[k] = v
	}
	for k, v := range m.notes {
		c.notes[k] = v
	}
	return c
}

func (m *model) compare(ctx context.Context, t *rapid.T, s *Store) {
	err := s.View(ctx, func(tx *ReadTx) error {
		c, err := tx.Counts(ctx)
		if err != nil || c.Batches != uint64(len(m.batches)) {
			t.Fatalf("%d batches, %v; want %d", c.Batches, err, len(m.batches))
		}
		for i, want := range m.batches {
			got, err := tx.BatchAt(ctx, uint64(i+1))
			if err != nil || got.Batch != want || got.ID != want.ID() {
				t.Fatalf("position %d = %+v, %v; want %+v", i+1, got, err, want)
			}
			if r, err := tx.Receipt(ctx, uint64(i+1)); err != nil || r.Verify() != nil {
				t.Fatalf("receipt of %d: %v", i+1, errors.Join(err, r.Verify()))
			}
		}
		for k, want := range m.notes {
			if got, err := tx.Meta(ctx, k); err != nil || fmt.Sprintf("0x%x", got) != want {
				t.Fatalf("note %s = %x, %v; want %s", k, got, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(ctx, func(tx *Tx) error {
		for n := range 4 {
			a, err := tx.w.agent(ctx, testAgent(n))
			if err != nil {
				return err
			}
			total := 0
			for _, b := range a.quota {
				total += int(b.n)
			}
			if total != m.spent[n] {
				t.Fatalf("agent %d has spent %d, want %d", n, total, m.spent[n])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestQuota compares the sliding window with a list of spendings.
func TestQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 6).Draw(t, "limit")
		now := uint64(1_700_000_000_000)
		var q quota
		var spent []uint64
		for range rapid.IntRange(0, 40).Draw(t, "calls") {
			now += uint64(rapid.IntRange(0, 6*60*60*1000).Draw(t, "pause"))
			exact, coarse := 0, 0
			for _, at := range spent {
				if at+quotaSpan > now {
					exact++
				}
				if (at/bucketMs+1)*bucketMs+quotaSpan > now {
					coarse++
				}
			}
			after, retryAt, ok := q.spend(now, limit)
			if ok != (coarse < limit) {
				t.Fatalf("ok = %v with %d of %d spent", ok, coarse, limit)
			}
			if ok && exact >= limit {
				t.Fatalf("allowed %d in 24 h, the limit is %d", exact+1, limit)
			}
			if !ok && limit > 0 {
				if retryAt <= now {
					t.Fatalf("retryAt %d is not after %d", retryAt, now)
				}
				if _, _, again := after.spend(retryAt, limit); !again {
					t.Fatal("still refused at retryAt")
				}
				if _, _, early := after.spend(retryAt-1, limit); early {
					t.Fatal("allowed before retryAt")
				}
			}
			if ok {
				spent = append(spent, now)
			}
			back, err := parseQuota(after.bytes())
			if err != nil || fmt.Sprint(back) != fmt.Sprint(after) {
				t.Fatalf("stored %v, read %v, %v", after, back, err)
			}
			q = after
		}
	})
}

func FuzzParseQuota(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseQuota(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(q) > maxBuckets+1 {
			t.Errorf("%d buckets", len(q))
		}
	})
}
