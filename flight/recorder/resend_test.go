package recorder

import (
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"karatum/flight/recorder/internal/testnode"
)

// deliver records and flushes n batches of one step each.
func deliver(t *testing.T, r *Recorder, n int) {
	t.Helper()
	for range n {
		recordN(t, r, 1)
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestResend(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	deliver(t, r, 3)
	before := s.node.Headers()
	s.node.Forget()

	rep, err := Resend(t.Context(), s.dir, s.url, nil, nil)
	if err != nil || rep.Batches != 3 || rep.Receipted != 3 || len(rep.Refused) > 0 {
		t.Fatalf("resend: %+v, %v", rep, err)
	}
	after := s.node.Headers()
	if len(after) != len(before) {
		t.Fatalf("the node has %d batches, had %d", len(after), len(before))
	}
	for i := range after {
		if after[i] != before[i] {
			t.Errorf("batch %d: %+v, was %+v", i, after[i], before[i])
		}
	}
	if rep, err = Resend(t.Context(), s.dir, s.url, nil, nil); err != nil || rep.Receipted != 3 || len(s.node.Headers()) != 3 {
		t.Errorf("once more: %+v, %v, the node has %d", rep, err, len(s.node.Headers()))
	}
	deliver(t, r, 1) // the recorder goes on where it was
	if got := s.node.Headers(); len(got) != 4 || len(s.node.Evidence()) > 0 {
		t.Errorf("after the resend: %d batches, %d pieces of evidence", len(got), len(s.node.Evidence()))
	}
}

func TestResendWaits(t *testing.T) {
	s, other := newSetup(t), newSetup(t)
	deliver(t, s.open(), 1)
	asked := 0
	other.node.Before = func(*http.Request) *testnode.Refusal {
		if asked++; asked > 1 {
			return nil
		}
		return &testnode.Refusal{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED", RetryAfter: "1"}
	}
	var told time.Duration
	rep, err := Resend(t.Context(), s.dir, other.url, nil, func(d time.Duration, _ error) { told = d })
	if err != nil || rep.Receipted != 1 || told != time.Second {
		t.Errorf("%+v, %v, waited %v", rep, err, told)
	}
}

func TestResendRefusals(t *testing.T) {
	s := newSetup(t)
	deliver(t, s.open(), 2)
	for _, tt := range []struct {
		code               string
		receipted, refused int
		fails              bool
	}{
		{"EQUIVOCATION", 1, 1, false},
		{"CLOCK_SKEW", 0, 0, true},
	} {
		first, other := true, newSetup(t)
		other.node.Before = func(*http.Request) *testnode.Refusal {
			if !first {
				return nil
			}
			first = false
			return &testnode.Refusal{Status: http.StatusConflict, Code: tt.code}
		}
		rep, err := Resend(t.Context(), s.dir, other.url, nil, nil)
		if (err != nil) != tt.fails || rep.Receipted != tt.receipted || len(rep.Refused) != tt.refused {
			t.Errorf("%s: %+v, %v", tt.code, rep, err)
		}
		var ne *NodeError
		if tt.fails && (!errors.As(err, &ne) || ne.Code != tt.code) {
			t.Errorf("%s: %v", tt.code, err)
		}
	}
	if _, err := Resend(t.Context(), filepath.Join(t.TempDir(), "none"), s.url, nil, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no journal: %v", err)
	}
	if _, err := Resend(t.Context(), s.dir, "ftp://node", nil, nil); err == nil {
		t.Error("a URL that is no node's was taken")
	}
}
