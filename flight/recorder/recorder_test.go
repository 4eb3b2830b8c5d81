package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"karatum/flight"
	"karatum/flight/recorder/internal/testnode"
)

// A setup is one agent key, a node and a journal directory.
type setup struct {
	t    *testing.T
	key  *flight.Key
	node *testnode.Node
	url  string
	dir  string
	errs errorLog
}

// errorLog collects what OnError hears.
type errorLog struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorLog) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.errs...)
}

func (l *errorLog) has(target error) bool { return errors.Is(errors.Join(l.all()...), target) }

// memoryDir returns a directory in memory where the system has one: tests that open
// thousands of journals would spend their time in fsync.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "karatum-recorder-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	key, err := flight.KeyFromBytes(append(make([]byte, 31), 7))
	if err != nil {
		t.Fatal(err)
	}
	node, err := testnode.New()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(node)
	t.Cleanup(srv.Close)
	return &setup{t: t, key: key, node: node, url: srv.URL, dir: filepath.Join(t.TempDir(), "journal")}
}

func (s *setup) options() Options {
	return Options{
		Journal: s.dir, Signer: Local(s.key), NodeURL: s.url, Interval: time.Hour,
		OnError: s.errs.add, RetainPlaintext: true,
	}
}

func (s *setup) open() *Recorder {
	s.t.Helper()
	r, err := Open(s.t.Context(), s.options())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { closeNow(r) })
	return r
}

// closeNow closes without waiting for a node that may be gone.
func closeNow(r *Recorder) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Close(ctx)
}

func recordN(t *testing.T, r *Recorder, n int) []Ref {
	t.Helper()
	var refs []Ref
	for i := range n {
		ref, err := r.Record(t.Context(), Step{Kind: "tool", Name: "probe", Args: map[string]any{"i": i}, Result: "done"})
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	return refs
}

func flush(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRecordFlushDisclose(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	claim := &flight.Claim{Kind: flight.ClaimNative, To: flight.Address{1}, Amount: big.NewInt(25)}
	ref, err := r.Record(t.Context(), Step{
		Kind: "tx", Name: "pay", Args: map[string]any{"to": "bob"}, Claim: claim, ChainID: 31337, TxHash: flight.Hash{9},
	})
	if err != nil {
		t.Fatal(err)
	}
	recordN(t, r, 4)
	if _, err := r.Disclose(ref.Stream, ref.Seq, "claim"); !errors.Is(err, ErrNotSigned) {
		t.Errorf("Disclose before the flush: %v, want ErrNotSigned", err)
	}
	flush(t, r)
	if h := s.node.Headers(); len(h) != 1 || h[0].ToSeq != 4 || h[0].Stream != ref.Stream {
		t.Fatalf("node holds %+v, want one batch of 5 steps", h)
	}
	d, err := r.Disclose("main", 0, "claim", "args")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	back, err := flight.ParseDisclosure(raw)
	if err != nil {
		t.Fatal(err)
	}
	rep := back.Verify()
	if rep.Err() != nil || rep.StepHash != ref.Hash || rep.Claim == nil || rep.Claim.Amount.Cmp(claim.Amount) != 0 {
		t.Errorf("report %+v, want the recorded step with its claim", rep)
	}
	if len(back.Reveal) != 2 || back.Reveal[0].Field != "args" {
		t.Errorf("revealed %v, want args and claim", back.Reveal)
	}
	if errs := s.errs.all(); len(errs) != 0 {
		t.Errorf("OnError heard %v", errs)
	}
}

func TestReopenContinues(t *testing.T) {
	s := newSetup(t)
	for range 3 {
		r := s.open()
		recordN(t, r, 2)
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h := s.node.Headers()
	if len(h) != 3 || h[2].Index != 2 || h[2].FromSeq != 4 || h[2].PrevHead != h[1].Head {
		t.Errorf("headers %+v, want three that follow each other", h)
	}
	if errs := s.errs.all(); len(errs) != 0 {
		t.Errorf("OnError heard %v", errs)
	}
}

func newTestPost(node http.Handler, b *flight.Batch) (int, error) {
	raw, err := json.Marshal(b)
	w := httptest.NewRecorder()
	node.ServeHTTP(w, httptest.NewRequest("POST", "/v1/flight/batches", bytes.NewReader(raw)))
	return w.Code, err
}
