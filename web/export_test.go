package web

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"karatum/app"
)

func TestExport(t *testing.T) {
	w := newWorld(t, "")
	path := w.expand("/v1/flight/agents/{agent}/export")
	r, body := w.do("GET", path, nil)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != mediaGzip || !strings.Contains(r.Header.Get("Content-Disposition"), w.key.Address().String()+".tar.gz") {
		t.Fatalf("status %d, %v", r.StatusCode, r.Header)
	}
	v := app.VerifyArchive(t.Context(), bytes.NewReader(body), app.VerifyOptions{})
	if !v.OK || v.Archive.Agent != w.key.Address() || v.Archive.Counts.Batches == 0 {
		t.Errorf("%s: %+v", v.Verdict, v.Archive)
	}
	if r, body := w.do("HEAD", path, nil); r.StatusCode != 200 || len(body) > 0 || r.Header.Get("Content-Type") != mediaGzip {
		t.Errorf("HEAD: %d, %d bytes, %v", r.StatusCode, len(body), r.Header)
	}
	for path, want := range map[string]int{"/v1/flight/agents/{nobody}/export": 404, "/v1/flight/agents/x/export": 400} {
		if r, body := w.do("GET", w.expand(path), nil); r.StatusCode != want || !strings.Contains(string(body), `"code"`) {
			t.Errorf("%s: %d %s, want %d", path, r.StatusCode, body, want)
		}
	}
}

func TestExportCosts(t *testing.T) {
	s := &Server{reads: newLimiter(1200, 250), cfg: Config{Now: func() time.Time { return time.Unix(1e9, 0) }}}
	client := netip.MustParseAddr("192.0.2.1")
	for i, ok := range []bool{true, true, false} {
		if err := s.payExport(client); (err == nil) != ok {
			t.Errorf("export %d: %v", i, err)
		}
	}
	err := s.payExport(client)
	var e *app.Error
	if !errors.As(err, &e) || e.Status != http.StatusTooManyRequests || e.RetryAfter < time.Second {
		t.Errorf("with nothing left: %v", err)
	}
}

// A client that waits as long as it is told gets its export, whatever it had left, and
// a bucket that is smaller than the price is not asked for all of it.
func TestExportAfterTheWait(t *testing.T) {
	for _, burst := range []int{1, 5, 99, 100, 101, 150, 600} {
		now := time.Unix(1e9, 0)
		s := &Server{reads: newLimiter(1200, burst), cfg: Config{Now: func() time.Time { return now }}}
		client := netip.MustParseAddr("192.0.2.1")
		ask := func() error {
			if got, wait := s.reads.take(client, 1, now); got == 0 { // the token of every read
				return rateLimited(wait)
			}
			return s.payExport(client)
		}
		s.reads.take(client, burst-1, now) // one is left
		err := ask()
		for tries := 0; err != nil; tries++ {
			var e *app.Error
			if !errors.As(err, &e) || tries == 2 {
				t.Fatalf("burst %d: after two waits %v", burst, err)
			}
			now = now.Add(e.RetryAfter)
			err = ask()
		}
	}
}

func TestExportsAtOnce(t *testing.T) {
	e := places{most: exportsOpen, each: exportsEach}
	a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	for i, step := range []struct {
		client netip.Addr
		leave  bool
		ok     bool
	}{{a, false, true}, {a, false, true}, {a, false, false}, {b, false, true}, {b, false, true}, {c, false, false}, {a, true, true}, {c, false, true}, {a, false, false}, {b, true, true}, {a, false, true}} {
		if step.leave {
			e.leave(step.client)
			continue
		}
		if got := e.enter(step.client); got != step.ok {
			t.Errorf("step %d: enter = %v, want %v", i, got, step.ok)
		}
	}
	for _, client := range []netip.Addr{a, a, b, c} {
		e.leave(client)
	}
	if len(e.open) != 0 {
		t.Errorf("after all have left: %v", e.open)
	}
}
