package recorder

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"karatum/flight"
	"karatum/flight/recorder/internal/testnode"
)

// direct serves requests in this process, without a socket. A handler that aborts
// is a broken connection.
type direct struct{ h http.Handler }

func (d direct) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("connection broken")
		}
	}()
	w := httptest.NewRecorder()
	d.h.ServeHTTP(w, r)
	return w.Result(), nil
}

// dial points the recorder at a node in this process.
func (s *setup) dial(node *testnode.Node) Options {
	o := s.options()
	o.NodeURL, o.HTTPClient = "http://node", &http.Client{Transport: direct{node}}
	return o
}

// bodies returns the signed batches of a segment's text.
func bodies(data []byte) (out [][]byte) {
	for line := range bytes.Lines(data) {
		if r, err := parseLine(bytes.TrimSuffix(line, []byte{'\n'})); err == nil && r.kind == "batch" {
			out = append(out, r.body)
		}
	}
	return out
}

// checkNode fails where the node saw two histories, or where its streams are not
// gapless.
func checkNode(t *testing.T, node *testnode.Node) {
	t.Helper()
	for _, e := range node.Evidence() {
		t.Errorf("equivocation %s: batch %d and %d of %s", e.Reason, e.A.Header.Index, e.B.Header.Index, e.A.Header.Stream)
	}
	last := map[string]flight.Header{}
	for _, h := range node.Headers() {
		if p, ok := last[h.Stream]; ok && (h.Index != p.Index+1 || h.FromSeq != p.ToSeq+1) || !ok && h.Index != 0 {
			t.Errorf("stream %s: batch %d (steps %d to %d) does not follow %d", h.Stream, h.Index, h.FromSeq, h.ToSeq, p.Index)
		}
		last[h.Stream] = h
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCutAtEveryByte cuts a journal of several batches at every byte while the node
// holds all that was sent. Whatever is left, the recorder must go on, deliver, and
// never show the node two histories. The guard file knows nothing here, so that
// the node's head alone has to tell; every few bytes it is as it was.
func TestCutAtEveryByte(t *testing.T) {
	const parts = 2 // in parallel
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			s.dir = filepath.Join(memoryDir(t), "journal")
			opt := s.options()
			opt.RetainPlaintext = false
			r, err := Open(t.Context(), opt)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				recordN(t, r, 1)
				flush(t, r)
			}
			recordN(t, r, 1)
			closeNow(r)
			whole := readFile(t, segmentPath(s.dir, 1))
			for n := part; n <= len(whole); n += parts * cutEvery {
				s.cut(n, whole, r.Status().Stream, n%7 != 0)
			}
		})
	}
}

func (s *setup) cut(n int, whole []byte, stream string, blind bool) {
	s.t.Helper()
	sent := len(bodies(whole))
	handed := int64(sent - 1)
	if blind {
		handed = -1
	}
	if err := errors.Join(os.RemoveAll(s.dir), os.MkdirAll(s.dir, 0o700), writeGuard(s.dir, stream, handed),
		os.WriteFile(segmentPath(s.dir, 1), whole[:n], 0o600)); err != nil {
		s.t.Fatal(err)
	}
	node := s.node.Clone()
	s.errs = errorLog{}
	r, err := Open(s.t.Context(), s.dial(node))
	if err != nil {
		s.t.Fatalf("cut at %d: %v", n, err)
	}
	ref := recordN(s.t, r, 1)[0]
	flush(s.t, r)
	closeNow(r)
	checkNode(s.t, node)
	if got := len(node.Headers()); got != sent+1 {
		s.t.Errorf("cut at %d: the node holds %d batches, want %d", n, got, sent+1)
	}
	clean := n > 0 && whole[n-1] == '\n' || n < len(whole) && whole[n] == '\n'
	if torn := s.errs.has(ErrTorn); torn == clean {
		s.t.Errorf("cut at %d: torn tail reported: %v, want %v", n, torn, !clean)
	}
	d, err := r.Disclose(ref.Stream, ref.Seq, "args")
	if err != nil {
		s.t.Fatalf("cut at %d: disclose: %v", n, err)
	}
	kept := len(bodies(append(bytes.Clone(whole[:n]), '\n'))) == sent
	if same := d.Batch.Header.Stream == stream; kept != same {
		s.t.Errorf("cut at %d: all batches left: %v, same stream: %v", n, kept, same)
	}
}

// TestDamageInTheMiddle changes bytes before the last line: the journal must be
// refused with a message of its own, and stay as it is.
func TestDamageInTheMiddle(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	for range 2 {
		recordN(t, r, 2)
		flush(t, r)
	}
	closeNow(r)
	path := segmentPath(s.dir, 1)
	whole := readFile(t, path)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for at := 0; at < last; at += 13 {
		bad := bytes.Clone(whole)
		bad[at] ^= 0x20
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), s.options()); !errors.Is(err, ErrDamaged) || errors.Is(err, ErrTorn) {
			t.Fatalf("byte %d changed: %v, want ErrDamaged", at, err)
		}
		if !bytes.Equal(readFile(t, path), bad) {
			t.Fatalf("byte %d changed: the refused journal was written to", at)
		}
		if rep, err := Check(s.dir); err == nil && len(rep.Problems) == 0 {
			t.Errorf("byte %d changed: Check finds nothing", at)
		}
	}
}

// TestTornTails covers the ends that a crash leaves: each is cut off, said, and
// nothing before it is lost.
func TestTornTails(t *testing.T) {
	half := appendRaw(nil, "receipt", "receipt", []byte(`"ü`))
	for name, tail := range map[string][]byte{
		"half a line":         []byte(`{"crc":"0123`),
		"half a character":    half[:bytes.IndexByte(half, 0xc3)+1],
		"zeros":               make([]byte, 4096),
		"line then zeros":     append([]byte(`{"crc":"00000000","t":"step"`), make([]byte, 700)...),
		"newlines":            []byte("\n\n\n"),
		"a line of another":   []byte(`{"crc":"00000000","t":"step"}` + "\n"),
		"bytes of no meaning": {0xff, 0xfe, '\n', 0x80, '"'},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t)
			r := s.open()
			want := recordN(t, r, 3)[2]
			closeNow(r)
			path := segmentPath(s.dir, 1)
			good := readFile(t, path)
			if err := os.WriteFile(path, append(bytes.Clone(good), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			r = s.open()
			if !s.errs.has(ErrTorn) || s.errs.has(ErrDamaged) {
				t.Errorf("OnError heard %v, want ErrTorn", s.errs.all())
			}
			if c := r.journal.state(); c.Prev != want.Hash || c.Seq != 3 {
				t.Errorf("the chain ends at step %d %s, want 2 %s", c.Seq-1, c.Prev, want.Hash)
			}
			recordN(t, r, 1)
			flush(t, r)
			if !bytes.HasPrefix(readFile(t, path), good) {
				t.Error("whole lines were changed")
			}
			checkNode(t, s.node)
		})
	}
}

// copyDir copies a journal, as a backup does.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(to, f.Name()), readFile(t, filepath.Join(from, f.Name())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoredCopy restores an old copy of the journal after the original went on.
func TestRestoredCopy(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir, stream string){
		"into a new directory": func(*testing.T, string, string) {},
		// As where the file system gives no lasting inode numbers, or a virtual
		// machine went back to a snapshot: only the node can tell.
		"with a matching guard": func(t *testing.T, dir, stream string) {
			if err := writeGuard(dir, stream, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t)
			r := s.open()
			recordN(t, r, 2)
			flush(t, r)
			recordN(t, r, 3) // waiting in the copy, delivered by the original
			backup := filepath.Join(t.TempDir(), "backup")
			copyDir(t, s.dir, backup)
			recordN(t, r, 2)
			flush(t, r)
			old := r.Status().Stream
			closeNow(r)
			s.dir = backup
			spoil(t, backup, old)
			r = s.open()
			ref := recordN(t, r, 1)[0]
			flush(t, r)
			checkNode(t, s.node)
			var change *StreamChange
			if !errors.As(errors.Join(s.errs.all()...), &change) || change.Old != old || change.Moved < 3 {
				t.Fatalf("OnError heard %v, want a change of stream with 3 or more steps", s.errs.all())
			}
			d, err := r.Disclose(ref.Stream, ref.Seq, "args")
			if err != nil || d.Batch.Header.Stream != change.New {
				t.Errorf("Disclose = %v; want a step of %s", err, change.New)
			}
			if d, err = r.Disclose(old, 1, "args"); err != nil || d.Batch.Header.Stream != old {
				t.Errorf("Disclose of a delivered step = %v; want the old stream", err)
			}
		})
	}
}

func TestDeletedJournal(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	recordN(t, r, 2)
	flush(t, r)
	first := r.Status().Stream
	closeNow(r)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	r = s.open()
	recordN(t, r, 2)
	flush(t, r)
	checkNode(t, s.node)
	if second := r.Status().Stream; first == second || !strings.HasPrefix(second, "main-") || len(second) != len("main-01234567") {
		t.Errorf("streams %s and %s, want two drawn names", first, second)
	}
}

// TestTwoRecorders starts two recorders with one key: on one journal the second is
// refused; on two journals, even where one is a copy of the other, they write two
// streams.
func TestTwoRecorders(t *testing.T) {
	s := newSetup(t)
	a := s.open()
	if _, err := Open(t.Context(), s.options()); !errors.Is(err, ErrLocked) {
		t.Fatalf("second recorder on one journal: %v, want ErrLocked", err)
	}
	recordN(t, a, 2)
	flush(t, a)
	first := s.dir
	s.dir = filepath.Join(t.TempDir(), "copy")
	copyDir(t, first, s.dir)
	b := s.open()
	for range 3 {
		recordN(t, a, 1)
		recordN(t, b, 1)
		flush(t, b)
		flush(t, a)
	}
	checkNode(t, s.node)
	if a.Status().Stream == b.Status().Stream {
		t.Errorf("both write %s", a.Status().Stream)
	}
}

// TestCrashWhileMoving finishes a change of stream that a crash interrupted.
func TestCrashWhileMoving(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	refs := recordN(t, r, 5)
	if _, err := r.journal.leave("a test asks for it", 0); err != nil {
		t.Fatal(err)
	}
	closeNow(r)
	path := segmentPath(s.dir, 2)
	whole := readFile(t, path)
	lines := bytes.SplitAfter(whole, []byte{'\n'})
	for keep := 1; keep < len(lines); keep++ {
		if err := os.WriteFile(path, bytes.Join(lines[:keep], nil), 0o600); err != nil {
			t.Fatal(err)
		}
		r = s.open()
		if got := r.Status(); got.Steps != 5 || got.Waiting != 5 {
			t.Fatalf("%d lines kept: %+v, want all 5 steps", keep, got)
		}
		closeNow(r)
	}
	r = s.open()
	flush(t, r)
	for i, ref := range refs {
		d, err := r.Disclose(ref.Stream, ref.Seq, "args")
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if v, _ := d.Reveal[0].Value.Get("i"); v.Num != float64(i) {
			t.Errorf("step %d opens %v", i, d.Reveal[0].Value)
		}
	}
	checkNode(t, s.node)
}

// TestSameBytes breaks the answer to a stored batch in every way: the recorder
// sends the same bytes until it hears a receipt, across restarts too.
func TestSameBytes(t *testing.T) {
	s := newSetup(t)
	var got [][]byte
	refusals := []*testnode.Refusal{{}, {Status: 503}, {Status: 425, Code: "CLOCK_SKEW"}, {Status: 507, Code: "DISK_FULL"}, {Status: 400, Code: "BAD_REQUEST"}}
	s.node.After = func(flight.Header) *testnode.Refusal {
		if len(refusals) == 0 {
			return nil
		}
		x := refusals[0]
		refusals = refusals[1:]
		return x
	}
	s.node.Before = func(r *http.Request) *testnode.Refusal {
		if r.Method == "POST" {
			var b bytes.Buffer
			if _, err := b.ReadFrom(r.Body); err != nil {
				t.Error(err)
			}
			got = append(got, bytes.Clone(b.Bytes()))
			r.Body = struct {
				*bytes.Reader
				nopCloser
			}{Reader: bytes.NewReader(b.Bytes())}
		}
		return nil
	}
	for answered := false; !answered; {
		r, err := Open(t.Context(), s.dial(s.node)) // sends the batch in flight by itself
		if err != nil {
			t.Fatal(err)
		}
		recordN(t, r, 1)
		answered = r.Flush(t.Context()) == nil
		closeNow(r)
	}
	for i, b := range got[:5] {
		if !bytes.Equal(b, got[0]) {
			t.Errorf("post %d is another batch: %s", i, b)
		}
	}
	checkNode(t, s.node)
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

// TestRefused meets a node that holds another history: the stream is left, its
// steps are delivered in a new one.
func TestRefused(t *testing.T) {
	s := newSetup(t)
	r := s.open()
	refs := recordN(t, r, 2)
	// A thief of the key has written the stream while the recorder was between its
	// look at the head and its post.
	s.node.Before = func(req *http.Request) *testnode.Refusal {
		if req.Method == "POST" {
			s.node.Before = nil
			h := flight.Header{
				Agent: s.key.Address(), Stream: refs[0].Stream, ToSeq: 1, Head: flight.Hash{1}, Root: flight.Hash{2},
				CreatedAt: uint64(time.Now().Unix()),
			}
			b := h.Sign(s.key, flight.EIP191)
			if res, err := newTestPost(s.node, &b); err != nil || res != 201 {
				t.Errorf("the thief's post: %d %v", res, err)
			}
		}
		return nil
	}
	flush(t, r)
	var ne *NodeError
	if err := errors.Join(s.errs.all()...); !errors.As(err, &ne) || ne.Evidence == nil || ne.Evidence.Reason != flight.SameIndex {
		t.Errorf("OnError heard %v, want the verified evidence", err)
	}
	d, err := r.Disclose(refs[1].Stream, refs[1].Seq, "args")
	if err != nil || d.Batch.Header.Stream == refs[1].Stream {
		t.Errorf("Disclose: %v; want the step in the new stream", err)
	}
	recordN(t, r, 1)
	flush(t, r)
	if rep, err := Check(s.dir); err != nil || len(rep.Problems) != 0 || rep.Refused != 1 || len(rep.Streams) != 2 {
		t.Errorf("Check = %+v, %v", rep, err)
	}
}
