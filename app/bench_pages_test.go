package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"karatum/store"
)

// TestFillPages fills a small database and has the store recompute all of it, then
// looks for something to ask of every page that takes a name.
func TestFillPages(t *testing.T) {
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if done, err := filled(dir); done || err != nil {
		t.Fatalf("an absent directory: %v, %v", done, err)
	}
	if err := fillPages(t.Context(), dir, string(schema), 3000, 200); err != nil {
		t.Fatal(err)
	}
	if done, err := filled(dir); !done || err != nil {
		t.Fatalf("a filled directory: %v, %v", done, err)
	}
	if err := store.Check(t.Context(), filepath.Join(dir, store.FileName)); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{Dir: dir, Schema: string(schema), Now: time.Now, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.View(t.Context(), func(tx *store.ReadTx) error {
		c, err := tx.Counts(t.Context())
		if c.Batches != 3000 || c.Steps != 200 || c.Evidence == 0 || c.Epochs != 5 {
			t.Errorf("counts = %+v", c)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	targets, err := survey(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if len(target.Asks) == 0 {
			t.Errorf("nothing to ask of %s", target.Name)
		}
	}
	all, unknown, err := extend(targets, []byte(`{"paths":{"/agents/{address}":{"get":{}},"/new":{"get":{}},"/new/{id}":{"get":{}},"/v1/x":{"get":{}},"/put":{"post":{}}}}`))
	if err != nil || len(all) != len(targets)+1 || all[len(targets)].Name != "/new" || !slices.Equal(unknown, []string{"/new/:id"}) {
		t.Errorf("extended by %v, unknown %v, %v", all[len(targets):], unknown, err)
	}
}

func TestMatchesRoute(t *testing.T) {
	for _, c := range []struct {
		route, link string
		want        bool
	}{
		{"/new/:id", "/new/7", true}, {"/new/:id", "/new/", false}, {"/new/:id", "/new", false}, {"/new/:id", "/new/7/more", false},
		{"/new/:id", "/old/7", false}, {"/new/:id", "/new/7?part=2", false}, {"/new/:id/more", "/new/7/more", true},
	} {
		if got := matches(c.route, c.link); got != c.want {
			t.Errorf("matches(%s, %s) = %v", c.route, c.link, got)
		}
	}
}

// TestFilledRefusesOthers keeps the benchmark from writing to an operator's
// database.
func TestFilledRefusesOthers(t *testing.T) {
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	st, err := store.Open(t.Context(), store.Options{Dir: dir, Schema: string(schema), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	o := BenchPagesOptions{Data: dir, Schema: string(schema)}
	if _, err := BenchPages(t.Context(), o); !errors.Is(err, ErrDataDir) {
		t.Errorf("an operator's directory: %v, want ErrDataDir", err)
	}
	lock, err := store.LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := BenchPages(t.Context(), o); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a directory in use: %v, want ErrLocked", err)
	}
}

func TestBenchPagesReport(t *testing.T) {
	r := BenchPagesReport{Unasked: []string{"/new/:id"}, Pages: []PageLine{
		{Page: "/good", Warm: PageTimes{Requests: 200, P95: 19, P99: 59}, Cold: PageTimes{Requests: 1, P95: 30, P99: 30}},
		{Page: "/slow", Warm: PageTimes{Requests: 200, P95: 21}},
		{Page: "/uneven", Cold: PageTimes{Requests: 200, P99: 61}},
	}}
	for i := range r.Pages {
		l := &r.Pages[i]
		l.Missed = l.Cold.missed() || l.Warm.missed()
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil || r.Missed() != 3 || strings.Count(out.String(), "MISSED") != 3 {
		t.Errorf("%d missed, %v:\n%s", r.Missed(), err, &out)
	}
}
