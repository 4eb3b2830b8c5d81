package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"karatum/flight"
)

// agentKey is a test key only.
const agentKey = "0xf8338ef4255f7de83d0e77636e8a319c125544ee8ed1ea03df45702c0d4c8cac"

// A session is a process with a recorder in it.
type session struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

type object = map[string]any

// A reply is what a command returned and what onError heard since the last one.
type reply struct {
	Result   json.RawMessage
	Errors   []string // code and field
	Messages []string
}

func start(t *testing.T, command []string) *session {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &session{t, cmd, in, bufio.NewReader(out)}
	t.Cleanup(s.kill)
	return s
}

// kill ends the process as a crash would: no handler runs.
func (s *session) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *session) do(name string, args object) reply {
	s.t.Helper()
	line := object{"do": name}
	for k, v := range args {
		line[k] = v
	}
	text, err := json.Marshal(line)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(text, '\n')); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	got, err := s.out.ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	var r reply
	if err := json.Unmarshal(got, &r); err != nil {
		s.t.Fatalf("%s: %v in %s", name, err, got)
	}
	return r
}

// quiet is do where onError must hear nothing and nothing may be thrown.
func (s *session) quiet(name string, args object) json.RawMessage {
	s.t.Helper()
	r := s.do(name, args)
	if len(r.Errors) > 0 || bytes.Contains(r.Result, []byte("thrown")) {
		s.t.Fatalf("%s: errors %q, result %s", name, r.Errors, r.Result)
	}
	return r.Result
}

func (s *session) record(steps ...object) {
	s.t.Helper()
	for _, step := range steps {
		if got := s.quiet("record", object{"step": step}); !bytes.Contains(got, []byte(`"hash"`)) {
			s.t.Fatalf("record: %s", got)
		}
	}
}

// delivers flushes and expects everything to arrive.
func (s *session) delivers() {
	s.t.Helper()
	expect(s.t, string(compact(s.quiet("flush", nil))), `{"ok":true,"waiting":0}`)
}

// fails flushes and expects the errors, with so many steps left.
func (s *session) fails(waiting int, errors ...string) {
	s.t.Helper()
	r := s.do("flush", nil)
	expect(s.t, string(compact(r.Result)), fmt.Sprintf(`{"ok":false,"waiting":%d}`, waiting))
	if len(r.Errors) != len(errors) {
		s.t.Fatalf("errors %q, want %q", r.Errors, errors)
	}
	for i, e := range errors {
		expect(s.t, r.Errors[i], e)
	}
}

func (s *session) stream() string {
	s.t.Helper()
	var v struct{ Stream string }
	if err := json.Unmarshal(s.quiet("status", nil), &v); err != nil {
		s.t.Fatal(err)
	}
	return v.Stream
}

func compact(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// recorders runs a test for both SDKs against a node of its own.
func recorders(t *testing.T, test func(t *testing.T, n *fakeNode, command []string)) {
	for name, command := range drivers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if command == nil {
				missing(t, "install Node.js 18 and Python 3.9 or later")
			}
			n := newFakeNode(t)
			test(t, n, command)
			if len(n.conflicts) > 0 {
				t.Errorf("the recorder signed two histories: %v", n.conflicts)
			}
		})
	}
}

func drivers(t *testing.T) map[string][]string {
	out := map[string][]string{"js": nil, "python": nil}
	if path, err := exec.LookPath("node"); err == nil {
		out["js"] = []string{path, "testdata/recorder.mjs"}
	}
	if path, err := exec.LookPath("python3"); err == nil {
		out["python"] = []string{path, "testdata/recorder.py"}
	}
	return out
}

func options(n *fakeNode, journal string) object {
	return object{"node": n.URL + "/", "signer": agentKey, "name": "trader", "journal": journal}
}

func opened(t *testing.T, n *fakeNode, command []string, journal string) *session {
	t.Helper()
	s := start(t, command)
	s.quiet("open", options(n, journal))
	return s
}

func journalPath(t *testing.T) string { return filepath.Join(t.TempDir(), "agent.jsonl") }

func spans(batches []flight.Batch) string {
	var b strings.Builder
	for _, x := range batches {
		fmt.Fprintf(&b, "%d:%d-%d ", x.Header.Index, x.Header.FromSeq, x.Header.ToSeq)
	}
	return strings.TrimSpace(b.String())
}

var (
	swap     = object{"kind": "tool", "name": "swap", "args": object{"pay": "25", "n": 0.5}, "result": object{"ok": true}}
	transfer = object{"kind": "tx", "name": "send", "chainId": 84532, "txHash": "0x" + strings.Repeat("AB", 32),
		"claim": object{"kind": "native.transfer", "to": "0x83BBf4cA885039D3E2c26827DA50e657CAC11B3F", "value": "1"}}
	note = object{"kind": "note"}
)

func TestRecorderDelivers(t *testing.T) {
	for _, scheme := range []string{"eip712", "eip191"} {
		recorders(t, func(t *testing.T, n *fakeNode, command []string) {
			s, o := start(t, command), options(n, journalPath(t))
			o["scheme"], o["nodeAddress"] = scheme, n.key.Address()
			s.quiet("open", o)
			s.record(swap, transfer, note)
			s.delivers()
			s.record(swap)
			s.delivers()
			expect(t, spans(n.batches()), "0:0-2 1:3-3")
			for _, b := range n.batches() {
				expect(t, string(b.Scheme), scheme)
			}
			if name := s.stream(); !strings.HasPrefix(name, "trader-") || len(name) != len("trader-01234567") {
				t.Errorf("the default stream is %q", name)
			}
			for seq, fields := range [][]string{{"args", "result"}, {"claim"}, {"args"}, {}} {
				checkDisclosure(t, s.quiet("disclose", object{"seq": seq, "reveal": fields}), fields)
			}
			s.quiet("close", nil)
		})
	}
}

// checkDisclosure has the node's own verifier judge what a recorder opened.
func checkDisclosure(t *testing.T, text json.RawMessage, fields []string) {
	t.Helper()
	d, err := flight.ParseDisclosure(text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	r := d.Verify()
	if err := r.Err(); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if len(d.Reveal) != len(fields) {
		t.Errorf("%d fields are opened, want %q", len(d.Reveal), fields)
	}
	if slices.Contains(fields, "claim") && (r.Claim == nil || r.Claim.Kind != flight.ClaimNative) {
		t.Errorf("no claim in %s", text)
	}
}

func TestRecorderKeepsCommitmentsOnly(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s, o := start(t, command), options(n, journalPath(t))
		o["retainPlaintext"] = false
		s.quiet("open", o)
		s.record(swap)
		expect(t, string(compact(s.do("disclose", object{"seq": 0}).Result)), `{"thrown":"NOT_SIGNED"}`)
		s.delivers()
		checkDisclosure(t, s.quiet("disclose", object{"seq": 0}), nil)
		expect(t, string(compact(s.do("disclose", object{"seq": 0, "reveal": []string{"args"}}).Result)), `{"thrown":"NOT_RETAINED"}`)
		text, err := os.ReadFile(o["journal"].(string))
		if err != nil || bytes.Contains(text, []byte("salt")) || bytes.Contains(text, []byte("pay")) {
			t.Errorf("plaintext in the journal (%v): %s", err, text)
		}
	})
}

// TestRecorderNeverThrows records what cannot be committed: the step is there, the
// fields are not, and each is reported.
func TestRecorderNeverThrows(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s := opened(t, n, command, journalPath(t))
		r := s.do("recordUnusable", nil)
		for i, prefix := range []string{"U", "TOO_DEEP result", "CLAIM kind", "STEP_SCHEMA name", "STEP_SCHEMA txHash"} {
			if len(r.Errors) != 5 || !strings.HasPrefix(r.Errors[i], prefix) {
				t.Fatalf("errors %q", r.Errors)
			}
		}
		bad := s.do("record", object{"step": object{"kind": "dance"}})
		if string(bad.Result) != "null" || len(bad.Errors) != 1 || bad.Errors[0] != "STEP_SCHEMA kind" {
			t.Errorf("a step of an unknown kind: %s, %q", bad.Result, bad.Errors)
		}
		s.delivers()
		checkDisclosure(t, s.quiet("disclose", object{"seq": 0, "reveal": []string{"args"}}), []string{"args"})
		s.quiet("close", nil)
		if r := s.do("record", object{"step": note}); len(r.Errors) != 1 || r.Errors[0] != "CLOSED" {
			t.Errorf("record after close: %q", r.Errors)
		}
	})
}

func TestRecorderResumesAfterCrash(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(swap, note)
		s.delivers()
		s.record(note)
		s.kill()
		s = opened(t, n, command, journal)
		s.record(transfer)
		s.delivers()
		expect(t, spans(n.batches()), "0:0-1 1:2-3")
		checkDisclosure(t, s.quiet("disclose", object{"seq": 0, "reveal": []string{"args"}}), []string{"args"})
	})
}

// TestRecorderRepeatsLostAnswer stores a batch and loses the answer, with and
// without a crash before the next try. The bytes must be the same.
func TestRecorderRepeatsLostAnswer(t *testing.T) {
	for _, crash := range []bool{false, true} {
		recorders(t, func(t *testing.T, n *fakeNode, command []string) {
			journal := journalPath(t)
			s := opened(t, n, command, journal)
			s.record(swap, note)
			n.during(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if r.Method == "POST" {
					// The signed batch must be in the journal before a byte of it leaves.
					if text, err := os.ReadFile(journal); err != nil || !bytes.Contains(text, body[bytes.Index(body, []byte(`"signature"`)):len(body)-1]) {
						t.Errorf("sent before it was journaled (%v)", err)
					}
					n.store(discard{}, body)
					hangUp(w)
				}
				return r.Method == "POST"
			})
			s.fails(2, "NETWORK")
			if crash {
				s.kill()
				s = opened(t, n, command, journal)
			}
			s.record(note)
			n.during(nil)
			s.delivers()
			posts := n.posts()
			if len(posts) != 3 || posts[0] != posts[1] {
				t.Errorf("the second try differs from the first: %q", posts)
			}
			expect(t, spans(n.batches()), "0:0-1 1:2-2")
		})
	}
}

// discard is a ResponseWriter that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// TestRecorderKilledAgainAndAgain kills the process while a batch is under way,
// before or after the node has stored it. The history must come out whole.
func TestRecorderKilledAgainAndAgain(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		rng, journal, recorded := source(), journalPath(t), 0
		for range 15 {
			s := opened(t, n, command, journal)
			when := rng.IntN(3)
			n.during(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if r.Method != "POST" || when == 2 {
					return false
				}
				if when == 1 {
					n.store(discard{}, body)
				}
				s.cmd.Process.Kill()
				hangUp(w)
				return true
			})
			for range 1 + rng.IntN(3) {
				s.record(swap)
				recorded++
			}
			io.WriteString(s.in, `{"do":"flush"}`+"\n")
			s.out.ReadBytes('\n') // an answer, or the end of the process
			s.kill()
		}
		n.during(nil)
		s := opened(t, n, command, journal)
		s.record(note)
		s.delivers()
		next := uint64(0)
		for i, b := range n.batches() {
			if b.Header.Index != uint64(i) || b.Header.FromSeq != next {
				t.Fatalf("the batches have a gap: %s", spans(n.batches()))
			}
			next = b.Header.ToSeq + 1
		}
		if next != uint64(recorded+1) {
			t.Errorf("%d steps delivered, %d recorded", next, recorded+1)
		}
	})
}

func TestRecorderHonoursRetryAfter(t *testing.T) {
	const began = int64(1760000000000)
	for _, after := range []string{"120", time.UnixMilli(began + 120000).UTC().Format(http.TimeFormat)} {
		recorders(t, func(t *testing.T, n *fakeNode, command []string) {
			s, o := start(t, command), options(n, journalPath(t))
			o["clock"] = began
			s.quiet("open", o)
			s.record(swap)
			n.during(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.Method == "POST" {
					w.Header().Set("retry-after", after)
					refuse(w, 429, "BATCH_QUOTA", "too many", nil)
				}
				return r.Method == "POST"
			})
			s.fails(1, "BATCH_QUOTA")
			n.during(nil)
			s.do("clock", object{"ms": began + 119000})
			s.fails(1)
			if got := len(n.posts()); got != 1 {
				t.Errorf("%d requests before the time was up", got)
			}
			s.do("clock", object{"ms": began + 121000})
			s.record(note)
			s.delivers()
			if posts := n.posts(); len(posts) != 3 || posts[0] != posts[1] {
				t.Errorf("not the same bytes again: %q", posts)
			}
		})
	}
}

// TestRecorderRetriesRefusals answers in ways that must neither end the stream
// nor count as delivered.
func TestRecorderRetriesRefusals(t *testing.T) {
	stranger, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	type respond = func(n *fakeNode, w http.ResponseWriter, r *http.Request, body []byte)
	for _, c := range []struct {
		name, code string
		respond    respond
	}{
		{"500", "INTERNAL", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) {
			refuse(w, 500, "INTERNAL", "oops", nil)
		}},
		{"502 without JSON", "HTTP", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) {
			http.Error(w, "<html>", 502)
		}},
		{"400", "BAD_REQUEST", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) {
			refuse(w, 400, "BAD_REQUEST", "no", nil)
		}},
		{"409 of another kind", "BUSY", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) { refuse(w, 409, "BUSY", "no", nil) }},
		{"a captive portal", "HTTP", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) {
			fmt.Fprint(w, "<html>welcome")
		}},
		{"200 of nothing", "RECEIPT batchId", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) { answer(w, 200, object{}) }},
		{"receipt of another batch", "RECEIPT", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, _ []byte) {
			n.receipt(w, 201, flight.Hash{1}, 0, false)
		}},
		{"receipt of a stranger", "RECEIPT", func(n *fakeNode, w http.ResponseWriter, _ *http.Request, body []byte) {
			b, _ := flight.ParseBatch(body)
			(&fakeNode{key: stranger}).receipt(w, 201, b.ID(), 0, false)
		}},
		{"redirect", "NETWORK|HTTP", func(n *fakeNode, w http.ResponseWriter, r *http.Request, _ []byte) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			recorders(t, func(t *testing.T, n *fakeNode, command []string) {
				s, o := start(t, command), options(n, journalPath(t))
				o["nodeAddress"] = n.key.Address()
				s.quiet("open", o)
				s.record(swap)
				n.during(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if r.Method == "POST" {
						c.respond(n, w, r, body)
					}
					return r.Method == "POST"
				})
				r := s.do("flush", nil)
				if len(r.Errors) != 1 || !slices.Contains(strings.Split(c.code, "|"), r.Errors[0]) {
					t.Fatalf("errors %q, want %s", r.Errors, c.code)
				}
				n.during(nil)
				s.delivers()
				if posts := n.posts(); len(posts) != 2 || posts[0] != posts[1] {
					t.Errorf("not the same bytes again: %q", posts)
				}
			})
		})
	}
}

// TestRecorderLeavesForkedStream has the node refuse a batch with 409: the stream
// ends, and its steps are recorded again in a new one, also when a crash cuts the
// journal in the middle of that.
func TestRecorderLeavesForkedStream(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(swap)
		s.delivers()
		old, before := s.stream(), n.batches()
		s.record(transfer, swap, note)
		n.during(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.Method != "POST" {
				return false
			}
			n.on = nil
			refuse(w, 409, "EQUIVOCATION", "two histories", object{"evidence": object{"type": flight.EvidenceType}})
			return true
		})
		r := s.do("flush", nil)
		expect(t, fmt.Sprint(r.Errors), "[EQUIVOCATION  evidence]")
		expect(t, string(compact(r.Result)), `{"ok":true,"waiting":0}`)
		if s.stream() == old {
			t.Error("the stream goes on")
		}
		expect(t, spans(n.batches()), "0:0-0 0:0-2")
		checkDisclosure(t, s.quiet("disclose", object{"seq": 0, "reveal": []string{"claim"}}), []string{"claim"})
		checkDisclosure(t, s.quiet("disclose", object{"seq": 0, "reveal": []string{"args"}, "stream": old}), []string{"args"})
		s.quiet("close", nil)

		lines := linesOf(t, journal)
		carry := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `"carry"`) })
		for keep := carry + 1; keep <= carry+4; keep++ {
			n.restore(before)
			writeFile(t, journal, strings.Join(lines[:keep], "\n")+"\n")
			s := opened(t, n, command, journal)
			s.record(note)
			s.delivers()
			expect(t, spans(n.batches()), "0:0-0 0:0-3")
			s.quiet("close", nil)
		}
	})
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRecorderSeesNodeAhead restores an old copy of the journal.
func TestRecorderSeesNodeAhead(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(swap)
		s.delivers()
		s.quiet("close", nil)
		copied := linesOf(t, journal)
		s = opened(t, n, command, journal)
		s.record(note)
		s.delivers()
		old := s.stream()
		s.quiet("close", nil)

		writeFile(t, journal, strings.Join(copied, "\n")+"\n")
		s = opened(t, n, command, journal)
		s.record(transfer)
		r := s.do("flush", nil)
		expect(t, fmt.Sprint(r.Errors), "[NODE_AHEAD]")
		expect(t, string(compact(r.Result)), `{"ok":true,"waiting":0}`)
		if s.stream() == old {
			t.Error("the stream goes on")
		}
		expect(t, spans(n.batches()), "0:0-0 1:1-1 0:0-0")
	})
}

// TestRecorderRefusedEverywhere has the node refuse every stream: the recorder
// must give up for now instead of drawing stream after stream.
func TestRecorderRefusedEverywhere(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s := opened(t, n, command, journalPath(t))
		s.record(note)
		n.during(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.Method == "POST" {
				refuse(w, 409, "EQUIVOCATION", "no", nil)
			}
			return r.Method == "POST"
		})
		s.fails(1, "EQUIVOCATION", "EQUIVOCATION", "NODE_REFUSES")
		if got := len(n.posts()); got != 2 {
			t.Errorf("%d requests", got)
		}
	})
}

// TestTornJournal cuts the journal at every byte. Whatever is left, it opens; where
// the cut is at a line's end or beside it, the recorder goes on to deliver, and the
// node never sees two histories.
func TestTornJournal(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(note)
		s.delivers()
		s.record(note)
		s.quiet("close", nil)
		whole, err := os.ReadFile(journal)
		if err != nil {
			t.Fatal(err)
		}
		before := n.batches()
		s = start(t, command)
		for cut := range len(whole) + 1 {
			n.restore(before)
			writeFile(t, journal, string(whole[:cut]))
			r, lines := s.do("open", options(n, journal)), bytes.LastIndexByte(whole[:cut], '\n')+1
			if torn := cut > lines; torn != slices.Equal(r.Errors, []string{"JOURNAL_TORN"}) || !torn && len(r.Errors) > 0 {
				t.Fatalf("cut at %d: open: %s, %q", cut, r.Result, r.Errors)
			}
			got, err := os.ReadFile(journal)
			if err != nil || !bytes.HasPrefix(got, whole[:lines]) || got[len(got)-1] != '\n' || (lines > 0 && len(got) != lines) {
				t.Fatalf("cut at %d: the journal is %q (%v)", cut, got, err)
			}
			if cut-lines <= 1 || cut == len(whole) || whole[cut] == '\n' {
				s.record(swap)
				if r := s.do("flush", nil); string(compact(r.Result)) != `{"ok":true,"waiting":0}` {
					t.Fatalf("cut at %d: %s, %q", cut, r.Result, r.Errors)
				}
			}
			// Nothing waits after a flush; elsewhere close would deliver it, so the node is cut off.
			n.during(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool { hangUp(w); return true })
			s.do("close", nil)
			n.during(nil)
		}
	})
}

// TestDamagedJournal flips a byte of a line: before a signed batch the journal is
// refused; after the last, what follows was never signed and is cut off.
func TestDamagedJournal(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(note)
		s.delivers()
		s.record(note, swap, note)
		s.kill()
		lines := linesOf(t, journal) // stream, step, batch, receipt, step, step, step
		for at, want := range map[int]string{1: `{"thrown":"JOURNAL_CORRUPT"}`, 4: "0", 5: "1", 6: "2"} {
			broken := slices.Clone(lines)
			broken[at] = strings.Replace(broken[at], `"at":1`, `"at":7`, 1)
			if broken[at] == lines[at] {
				t.Fatalf("line %d has no time: %s", at, lines[at])
			}
			if at == 1 {
				broken[at] = strings.Replace(broken[at], `"seq":`, `"seq":!`, 1)
			}
			writeFile(t, journal, strings.Join(broken, "\n")+"\n")
			s := start(t, command)
			r := s.do("open", options(n, journal))
			got := compact(r.Result)
			if !strings.HasPrefix(want, "{") {
				want = fmt.Sprintf(`"waiting":%s}`, want)
				aside, err := os.ReadFile(journal + ".damaged")
				if err != nil || !strings.HasSuffix(string(aside), strings.Join(broken[at:], "\n")+"\n") || !slices.Equal(r.Errors, []string{"JOURNAL_DAMAGED"}) {
					t.Errorf("line %d damaged: %q is kept aside (%v), errors %q", at, aside, err, r.Errors)
				}
			}
			if !bytes.HasSuffix(got, []byte(want)) {
				t.Errorf("line %d damaged: %s, want %s", at, got, want)
			}
			s.kill()
		}
	})
}

// TestJournalLock has each SDK find the journal held by itself and by the other.
func TestJournalLock(t *testing.T) {
	commands := drivers(t)
	if commands["js"] == nil || commands["python"] == nil {
		missing(t, "install Node.js 18 and Python 3.9 or later")
	}
	n := newFakeNode(t)
	for holder, first := range commands {
		for other, second := range commands {
			t.Run(holder+" then "+other, func(t *testing.T) {
				journal := journalPath(t)
				a, b := opened(t, n, first, journal), start(t, second)
				expect(t, string(compact(b.do("open", options(n, journal)).Result)), `{"thrown":"JOURNAL_LOCKED"}`)
				expect(t, string(compact(a.do("open", options(n, journal)).Result)), `{"thrown":"JOURNAL_LOCKED"}`)
				a.kill()
				b.quiet("open", options(n, journal))
				b.quiet("close", nil)
				if _, err := os.Stat(journal + ".lock"); !os.IsNotExist(err) {
					t.Errorf("the lock outlives its holder: %v", err)
				}
			})
		}
	}
}

// TestJournalsAreAlike has each SDK go on with the other's journal.
func TestJournalsAreAlike(t *testing.T) {
	commands := drivers(t)
	if commands["js"] == nil || commands["python"] == nil {
		missing(t, "install Node.js 18 and Python 3.9 or later")
	}
	n, journal := newFakeNode(t), journalPath(t)
	for i, name := range []string{"js", "python", "js"} {
		s := opened(t, n, commands[name], journal)
		s.record(swap, object{"args": object{"\u20ac": 1e21, "\U0001f600": "\u2028", "z": -0.5}})
		s.delivers()
		for seq := range 2*i + 2 {
			checkDisclosure(t, s.quiet("disclose", object{"seq": seq, "reveal": []string{"args"}}), []string{"args"})
		}
		s.quiet("close", nil)
	}
	expect(t, spans(n.batches()), "0:0-1 1:2-3 2:4-5")
}

// TestRecorderSendsByItself waits for a batch that nobody asked for, and for one
// that is full.
func TestRecorderSendsByItself(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		for _, o := range []object{{"intervalMs": 30}, {"maxSteps": 2}} {
			o["node"], o["signer"], o["stream"] = n.URL, agentKey, fmt.Sprintf("by itself %d", len(o))
			s := start(t, command)
			s.quiet("open", o)
			s.record(note, note)
			ours := func(b flight.Batch) bool { return b.Header.Stream == o["stream"] }
			for !slices.ContainsFunc(n.batches(), ours) { // or the test's time is up
				<-n.arrived
			}
			s.kill()
			n.restore(nil)
		}
	})
}

func TestRecorderRefusesWrongOptions(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s, journal := start(t, command), journalPath(t)
		for _, c := range []struct{ key, value, code string }{
			{"node", "ftp://x", "CONFIG"}, {"scheme", "eip1", "CONFIG"}, {"stream", "a/b", "CONFIG"},
			{"signer", "0x" + strings.Repeat("0", 64), "SIGNER"}, {"signer", "0x12", "HEX"},
		} {
			o := options(n, journal)
			delete(o, "journal")
			o[c.key] = c.value
			expect(t, string(compact(s.do("open", o).Result)), `{"thrown":"`+c.code+`"}`)
		}
		s.quiet("open", options(n, journal))
		s.quiet("close", nil)
		o := options(n, journal)
		o["signer"] = "0x" + strings.Repeat("1", 64)
		expect(t, string(compact(s.do("open", o).Result)), `{"thrown":"JOURNAL_AGENT"}`)
	})
}
