package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"karatum/flight"
	"karatum/flight/recorder/internal/testnode"
)

// inBubble runs the test on a fake clock with a recorder whose node is in this
// process. refuse sees every request.
func inBubble(t *testing.T, refuse func(*http.Request) *testnode.Refusal, run func(t *testing.T, s *setup, r *Recorder)) {
	t.Helper()
	s := newSetup(t)
	synctest.Test(t, func(t *testing.T) {
		node, err := testnode.New()
		if err != nil {
			t.Fatal(err)
		}
		s.node = node
		node.Before = refuse
		o := s.dial(node)
		o.Interval = 0 // the default
		r, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer closeNow(r)
		run(t, s, r)
		checkNode(t, node)
	})
}

func TestInterval(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *setup, r *Recorder) {
		recordN(t, r, 1)
		time.Sleep(100 * time.Second)
		recordN(t, r, 2)
		time.Sleep(19 * time.Second)
		synctest.Wait()
		if n := len(s.node.Headers()); n != 0 {
			t.Errorf("%d batches after 119 s, want none", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h := s.node.Headers(); len(h) != 1 || h[0].ToSeq != 2 {
			t.Errorf("headers %+v after 121 s, want one batch of three steps", h)
		}
		recordN(t, r, 1)
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if h := s.node.Headers(); len(h) != 2 {
			t.Errorf("%d batches, want 2", len(h))
		}
	})
}

// TestOfflineForDays records for three days without a node. Nothing may be lost,
// and when the node is back everything must arrive in order by itself, in few
// batches.
func TestOfflineForDays(t *testing.T) {
	for name, down := range map[string]func(*http.Request) bool{
		"unreachable":     func(*http.Request) bool { return true },
		"broken at posts": func(r *http.Request) bool { return r.Method == "POST" },
	} {
		t.Run(name, func(t *testing.T) {
			var online atomic.Bool
			var attempts atomic.Int64
			refuse := func(r *http.Request) *testnode.Refusal {
				attempts.Add(1)
				if !online.Load() && down(r) {
					return &testnode.Refusal{}
				}
				return nil
			}
			inBubble(t, refuse, func(t *testing.T, s *setup, r *Recorder) {
				for range 72 {
					recordN(t, r, 1)
					time.Sleep(time.Hour)
				}
				synctest.Wait()
				if n, most := attempts.Load(), int64(72*time.Hour/(lastBackoff/2)); n > most+20 || n < most/3 {
					t.Errorf("%d attempts in three days, want about one in five minutes", n)
				}
				online.Store(true)
				time.Sleep(lastBackoff + time.Second)
				synctest.Wait()
				h := s.node.Headers()
				if len(h) == 0 || len(h) > 2 || h[len(h)-1].ToSeq != 71 {
					t.Errorf("headers %+v, want 72 steps in one or two batches", h)
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	answers := []*testnode.Refusal{
		{Status: 429, Code: "BATCH_QUOTA", RetryAfter: "3600"},
		{Status: 507, Code: "DISK_FULL", RetryAfter: "Sat, 01 Jan 2000 06:00:00 GMT"}, // the bubble's clock starts at that day's midnight
	}
	var mu sync.Mutex // covers posts
	var posts []time.Time
	seen := func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(posts)
	}
	refuse := func(r *http.Request) *testnode.Refusal {
		if r.Method != "POST" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		posts = append(posts, time.Now())
		if len(posts) > len(answers) {
			return nil
		}
		return answers[len(posts)-1]
	}
	inBubble(t, refuse, func(t *testing.T, s *setup, r *Recorder) {
		recordN(t, r, 1)
		var ne *NodeError
		if err := r.Flush(t.Context()); !errors.As(err, &ne) || ne.Code != "BATCH_QUOTA" || ne.RetryAfter != time.Hour {
			t.Errorf("flush = %v, want BATCH_QUOTA for an hour", err)
		}
		if err := r.Flush(t.Context()); !errors.As(err, &ne) || len(seen()) != 1 {
			t.Errorf("flush in the quiet hour = %v after %d posts, want the same answer and no post", err, len(seen()))
		}
		time.Sleep(7 * time.Hour)
		synctest.Wait()
		posts := seen()
		if len(posts) != 3 || len(s.node.Headers()) != 1 {
			t.Fatalf("posts at %v, want three and the batch stored", posts)
		}
		for i, earliest := range []time.Duration{time.Hour, 6*time.Hour - time.Hour} {
			if wait := posts[i+1].Sub(posts[i]); wait < earliest-time.Minute || wait > earliest+time.Minute+earliest/10 {
				t.Errorf("post %d came %v after the one before, want %v and some jitter", i+1, wait, earliest)
			}
		}
	})
}

// TestRecordDoesNotWait records while the node holds the connection open.
func TestRecordDoesNotWait(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	s := newSetup(t)
	s.node.Before = func(r *http.Request) *testnode.Refusal {
		if r.Method == "POST" {
			arrived <- struct{}{}
			<-release
		}
		return nil
	}
	r := s.open()
	recordN(t, r, 1)
	flushed := make(chan error, 1)
	go func() { flushed <- r.Flush(t.Context()) }()
	<-arrived
	recordN(t, r, 100)
	if st := r.Status(); st.Steps != 101 || st.Waiting != 100 || !st.Inflight {
		t.Errorf("status %+v, want 100 steps waiting behind one batch in flight", st)
	}
	close(release)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	go func() { <-arrived }()
	flush(t, r)
	checkNode(t, s.node)
}

// TestFlushTarget lets steps arrive all the time: Flush must come back.
func TestFlushTarget(t *testing.T) {
	s := newSetup(t)
	var r *Recorder
	s.node.After = func(flight.Header) *testnode.Refusal {
		recordN(t, r, 1)
		return nil
	}
	r = s.open()
	recordN(t, r, 1)
	flush(t, r)
	if st := r.Status(); st.Waiting != 1 {
		t.Errorf("status %+v, want the step that came meanwhile to wait", st)
	}
}

// TestBadReceipts refuses answers that prove nothing and asks again.
func TestBadReceipts(t *testing.T) {
	s := newSetup(t)
	good := s.node.Clone()
	answers := []string{
		`{}`, `not JSON`, `{"batchId":"0x00"}`,
		`{"batchId":"` + flight.Hash{1}.String() + `","position":1}`,
	}
	served := 0
	o := s.options()
	o.NodeURL, o.HTTPClient = "http://node", &http.Client{Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" && served < len(answers) {
			w.WriteHeader(201)
			_, _ = w.Write([]byte(answers[served]))
			served++
			return
		}
		good.ServeHTTP(w, r)
	})}}
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(r)
	recordN(t, r, 1)
	for range answers {
		if err := r.Flush(t.Context()); err == nil {
			t.Errorf("answer %d was taken for a receipt", served-1)
		}
	}
	flush(t, r)
	if n := len(good.Headers()); n != 1 {
		t.Errorf("the node holds %d batches, want 1", n)
	}
}

// TestRedirect must not carry a signed batch to another host.
func TestRedirect(t *testing.T) {
	s := newSetup(t)
	o := s.options()
	var hosts []string
	o.NodeURL, o.HTTPClient = "http://node", &http.Client{Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.URL.Host)
		http.Redirect(w, r, "http://elsewhere"+r.URL.Path, http.StatusTemporaryRedirect)
	})}}
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(r)
	recordN(t, r, 1)
	if err := r.Flush(t.Context()); err == nil || strings.Contains(strings.Join(hosts, " "), "elsewhere") {
		t.Errorf("flush = %v, hosts asked: %v", err, hosts)
	}
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("boom") }

// TestRecordErrors gives Record what cannot be recorded: it says so twice, to the
// caller and to OnError, and the next step is recorded as if nothing had been.
func TestRecordErrors(t *testing.T) {
	s := newSetup(t)
	o := s.options()
	o.OnError = func(err error) {
		s.errs.add(err)
		panic("a handler that panics")
	}
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(r)
	bad := map[string]Step{
		"no kind":         {},
		"unknown kind":    {Kind: "noise"},
		"unknown status":  {Kind: "note", Status: "maybe"},
		"long name":       {Kind: "note", Name: strings.Repeat("n", 129)},
		"bad name":        {Kind: "note", Name: "\xff"},
		"not JSON":        {Kind: "note", Args: func() {}},
		"panics":          {Kind: "note", Args: panics{}},
		"bad raw JSON":    {Kind: "note", Args: json.RawMessage(`{"a":1,"a":2}`)},
		"too large":       {Kind: "note", Result: strings.Repeat("x", 1<<20)},
		"unsafe integer":  {Kind: "note", Result: uint64(1<<53 + 1)},
		"claim of nobody": {Kind: "tx", Claim: &flight.Claim{Kind: flight.ClaimNative}},
		"unknown claim":   {Kind: "tx", Claim: &flight.Claim{Kind: "mint"}},
		"half a tx":       {Kind: "tx", ChainID: 1},
		"before 1970":     {Kind: "note", At: time.Unix(-1, 0)},
	}
	for name, step := range bad {
		if ref, err := r.Record(t.Context(), step); !errors.Is(err, ErrStep) || ref != (Ref{}) {
			t.Errorf("%s: %+v, %v; want ErrStep", name, ref, err)
		}
	}
	if n := len(s.errs.all()); n != len(bad) {
		t.Errorf("OnError heard %d errors, want %d", n, len(bad))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ref, err := r.Record(ctx, Step{Kind: "note"}); err != nil || ref.Seq != 0 {
		t.Errorf("first good step: %+v, %v; want seq 0, cancelled or not", ref, err)
	}
	closeNow(r)
	if _, err := r.Record(t.Context(), Step{Kind: "note"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	if err := r.Flush(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Flush after Close: %v, want ErrClosed", err)
	}
}

// TestCommitmentsOnly keeps no plaintext, not even salts.
func TestCommitmentsOnly(t *testing.T) {
	s := newSetup(t)
	o := s.options()
	o.RetainPlaintext, o.Scheme = false, flight.EIP191
	r, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(r)
	ref, err := r.Record(t.Context(), Step{Kind: "llm", Prompt: "the secret prompt"})
	if err != nil {
		t.Fatal(err)
	}
	flush(t, r)
	text := string(readFile(t, segmentPath(s.dir, 1)))
	if strings.Contains(text, "secret") || strings.Contains(text, "salt") {
		t.Errorf("the journal holds plaintext: %s", text)
	}
	if _, err := r.Disclose(ref.Stream, ref.Seq, "prompt"); !errors.Is(err, ErrNotFound) {
		t.Errorf("opening it: %v, want ErrNotFound", err)
	}
	d, err := r.Disclose(ref.Stream, ref.Seq)
	if err != nil || d.Batch.Scheme != flight.EIP191 {
		t.Errorf("showing it unopened: %v", err)
	}
}

// TestWrongAgent refuses to go on with another key's journal.
func TestWrongAgent(t *testing.T) {
	s := newSetup(t)
	closeNow(s.open())
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	o := s.options()
	o.Signer = Local(key)
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrAgent) {
		t.Errorf("Open = %v, want ErrAgent", err)
	}
	if r := s.open(); r.Agent() != s.key.Address() {
		t.Error("the journal's own key is refused now")
	}
}
