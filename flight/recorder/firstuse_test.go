package recorder

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"karatum/flight"
)

// names fails where the error's message lacks a part: what happened, where, and what
// to do.
func names(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: does not say %q", err, part)
		}
	}
}

// TestOpenSaysWhatIsWrong opens what cannot be opened.
func TestOpenSaysWhatIsWrong(t *testing.T) {
	s := newSetup(t)
	s.open()
	_, err := Open(t.Context(), s.options())
	names(t, err, s.dir, "another recorder", "a journal of its own")
	if !errors.Is(err, ErrLocked) {
		t.Errorf("in use: %v", err)
	}

	odd := filepath.Join(t.TempDir(), "journal")
	if err := os.MkdirAll(filepath.Join(odd, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := s.options()
	o.Journal = odd
	if _, err = Open(t.Context(), o); errors.Is(err, ErrLocked) {
		t.Errorf("no lock can be made, which is not another recorder's: %v", err)
	}
	names(t, err, odd)

	o = s.options()
	o.NodeURL = "127.0.0.1:8080"
	_, err = Open(t.Context(), o)
	names(t, err, "127.0.0.1:8080", "http://127.0.0.1:8080")

	other, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	copied := newSetup(t)
	closeNow(copied.open())
	o = copied.options()
	o.Signer = Local(other)
	_, err = Open(t.Context(), o)
	names(t, err, copied.dir, copied.key.Address().String(), other.Address().String())

	_, err = OpenReader(filepath.Join(odd, "none"))
	_, err2 := Check(filepath.Join(odd, "none"))
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err2, fs.ErrNotExist) {
		t.Errorf("no journal: %v, %v", err, err2)
	}
	names(t, err, "no journal in "+odd)
	names(t, err2, "no journal in "+odd)
}

// TestFlushSaysWhatIsWrong points the recorder at what is no node. Nothing may be
// signed for it.
func TestFlushSaysWhatIsWrong(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"another server": http.NotFound,
		"a portal":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome")) },
		"a redirect":     func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	} {
		s := newSetup(t)
		srv := httptest.NewServer(h)
		o := s.options()
		o.NodeURL = srv.URL
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		recordN(t, r, 1)
		err = r.Flush(t.Context())
		names(t, err, srv.URL, "is the URL right?")
		if st := r.Status(); st.Inflight || st.Batches != 0 || st.Waiting != 1 {
			t.Errorf("%s: %+v, want nothing signed", name, st)
		}
		srv.Close()
		names(t, r.Flush(t.Context()), srv.URL, "cannot be reached")
		closeNow(r)
	}
}

// TestNothingIsSentUnguarded lets the guard fail to be written: however often the
// sender tries, the batch must not leave before it is.
func TestNothingIsSentUnguarded(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	recordN(t, r, 1)
	inTheWay := filepath.Join(s.dir, guardName+".tmp")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		names(t, r.Flush(t.Context()), inTheWay)
	}
	if h := s.node.Headers(); len(h) != 0 {
		t.Errorf("%d batches were sent", len(h))
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if why, err := checkGuard(s.dir, &cursor{Stream: r.Status().Stream}); err != nil || !strings.Contains(why, "lost batch 0") {
		t.Errorf("the guard does not know of the batch: %q, %v", why, err)
	}
	checkNode(t, s.node)
}
