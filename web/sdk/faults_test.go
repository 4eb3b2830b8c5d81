package sdk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"karatum/flight"
)

// rekey gives the node another receipt key, as somebody in its place has.
func (n *fakeNode) rekey(t *testing.T) (before, after flight.Address) {
	t.Helper()
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before, n.key = n.key.Address(), key
	return before, key.Address()
}

// says fails where an error is not of the code or its message lacks a part.
func says(t *testing.T, r reply, code string, parts ...string) {
	t.Helper()
	if len(r.Errors) != 1 || r.Errors[0] != code {
		t.Fatalf("errors %q, want %s alone", r.Errors, code)
	}
	for _, part := range parts {
		if !strings.Contains(r.Messages[0], part) {
			t.Errorf("the message does not name %q: %s", part, r.Messages[0])
		}
	}
}

// TestRecorderKeepsToReceiptKey changes the node's key under a recorder that
// trusted the first: its receipts must not count until the owner names it.
func TestRecorderKeepsToReceiptKey(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(swap)
		s.delivers()
		s.quiet("close", nil)
		first, second := n.rekey(t)

		s = opened(t, n, command, journal)
		s.record(note)
		says(t, s.do("flush", nil), "RECEIPT", n.URL, first.String(), second.String(), journal, "operator")
		s.record(note)
		s.fails(2, "RECEIPT")
		s.kill()

		s = start(t, command)
		o := options(n, journal)
		o["nodeAddress"] = strings.ToUpper(second.String()[2:])
		if r := s.do("open", o); string(compact(r.Result)) != `{"thrown":"CONFIG"}` {
			t.Errorf("an address without 0x: %s", r.Result)
		}
		o["nodeAddress"] = "0x" + strings.ToUpper(second.String()[2:])
		s.quiet("open", o)
		s.delivers()
		s.kill()
		s = opened(t, n, command, journal)
		s.record(note)
		s.delivers()
		if posts := n.posts(); posts[1] != posts[2] || posts[1] != posts[3] {
			t.Errorf("the batch was not sent again as it was: %q", posts)
		}
		expect(t, spans(n.batches()), "0:0-0 1:1-1 2:2-2 3:3-3")
		if got := s.quiet("status", nil); !strings.Contains(string(got), second.String()) {
			t.Errorf("status %s, want %s pinned", got, second)
		}
	})
}

// TestRecorderHearsOfAnotherSignature has the node hold the batch's steps under a
// header that this journal does not have. Its receipt proves nothing about the
// batch in flight, which must not count as delivered.
func TestRecorderHearsOfAnotherSignature(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s := opened(t, n, command, journalPath(t))
		s.record(note)
		old := s.stream()
		n.during(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.Method == "POST" {
				n.on = nil
				n.receipt(w, 200, flight.Hash{1}, 0, true)
			}
			return r.Method == "POST"
		})
		says(t, s.do("flush", nil), "NODE_AHEAD", old)
		if s.stream() == old {
			t.Error("the stream goes on")
		}
		expect(t, spans(n.batches()), "0:0-0")
	})
}

// TestRecorderSeesNodeBehind lets the node lose what it had acknowledged: the owner
// hears of it, and the record goes on.
func TestRecorderSeesNodeBehind(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		for range 2 {
			s.record(note)
			s.delivers()
		}
		s.quiet("close", nil)
		n.restore(n.batches()[:1])
		s = opened(t, n, command, journal)
		s.record(note)
		says(t, s.do("flush", nil), "NODE_BEHIND", "karatum journal send "+journal, n.URL)
		expect(t, spans(n.batches()), "0:0-0 2:2-2")
	})
}

// TestRecorderAsksOnlyANode points the recorder at a web server that is no node.
// Nothing may be signed on its word.
func TestRecorderAsksOnlyANode(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s := opened(t, n, command, journalPath(t))
		s.record(note)
		n.during(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			http.NotFound(w, r)
			return true
		})
		says(t, s.do("flush", nil), "HTTP", n.URL, "404", "is the URL right?")
		if got := len(n.posts()); got != 0 {
			t.Errorf("%d batches were signed and sent", got)
		}
		n.during(nil)
		s.delivers()
	})
}

// TestRecorderSaysWhatIsWrong reads the messages of what a beginner meets.
func TestRecorderSaysWhatIsWrong(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		s, o := start(t, command), options(n, journalPath(t))
		o["node"] = "http://127.0.0.1:1"
		s.quiet("open", o)
		s.record(note)
		says(t, s.do("flush", nil), "NETWORK", "http://127.0.0.1:1", "wait in the journal")
		s.kill()

		dir := t.TempDir()
		for _, journal := range []string{dir, filepath.Join(dir, "none", "a.jsonl")} {
			expect(t, string(compact(start(t, command).do("open", options(n, journal)).Result)), `{"thrown":"JOURNAL"}`)
		}
	})
}

// fullDisk lets no file of the process grow past size bytes; -1 lifts that.
func (s *session) fullDisk(size int64) {
	s.t.Helper()
	tool(s.t, "install util-linux", "prlimit")
	limit := fmt.Sprint(size, ":")
	if size < 0 {
		limit = "unlimited:"
	}
	if out, err := exec.CommandContext(s.t.Context(), "prlimit", "--pid", fmt.Sprint(s.cmd.Process.Pid), "--fsize="+limit).CombinedOutput(); err != nil {
		s.t.Fatalf("prlimit: %v: %s", err, out)
	}
}

// TestRecorderOnFullDisk fills the disk while steps are recorded and while steps are
// carried into another stream. What was recorded is delivered once there is room,
// each step once and in order.
func TestRecorderOnFullDisk(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal := journalPath(t)
		s := opened(t, n, command, journal)
		s.record(swap, swap, swap)
		size := func() (total int64) {
			for _, line := range linesOf(t, journal) {
				total += int64(len(line)) + 1
			}
			return total
		}
		s.fullDisk(size() + 100) // half a line has room
		for range 2 {
			r := s.do("record", object{"step": swap})
			expect(t, string(r.Result), "null")
			says(t, r, "JOURNAL", journal)
		}
		s.fullDisk(-1)
		s.record(note)

		n.during(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.Method == "POST" {
				n.on = nil
				s.fullDisk(size() + 1000) // the new stream and its first step, not all four
				refuse(w, 409, "EQUIVOCATION", "two histories", nil)
			}
			return r.Method == "POST"
		})
		s.fails(4, "EQUIVOCATION", "JOURNAL")
		if r := s.do("record", object{"step": transfer}); string(r.Result) != "null" {
			t.Errorf("recorded before the carried steps were complete: %s", r.Result)
		}
		s.fullDisk(-1)
		s.record(transfer)
		s.delivers()
		expect(t, spans(n.batches()), "0:0-4")
		for seq, field := range []string{"result", "result", "result", "args", "claim"} {
			checkDisclosure(t, s.quiet("disclose", object{"seq": seq, "reveal": []string{field}}), []string{field})
		}
		s.kill()
		s = opened(t, n, command, journal)
		s.record(note)
		s.delivers()
	})
}

// TestPythonInterrupted presses Ctrl-C around the write of a step: the line stands
// in the journal and in memory, or in neither.
func TestPythonInterrupted(t *testing.T) {
	python(t)
	n, journal := newFakeNode(t), journalPath(t)
	s := opened(t, n, drivers(t)["python"], journal)
	s.record(swap)
	recorded := 1
	for _, where := range []string{"append", "_apply", "_schedule"} {
		for _, at := range []int{1, -1} { // before it and after it
			expect(t, string(s.quiet("interrupt", object{"step": swap, "where": where, "at": at})), `"interrupted"`)
			if where == "_schedule" {
				recorded++ // was written before
			}
			s.record(note)
			recorded++
		}
	}
	s.delivers()
	s.kill()
	s = opened(t, n, drivers(t)["python"], journal)
	s.record(note)
	s.delivers()
	expect(t, spans(n.batches()), fmt.Sprintf("0:0-%d 1:%d-%[2]d", recorded-1, recorded))
}

// TestPythonForked uses a recorder in a forked process, which shares the parent's
// lock: nothing may be written there, and nothing may hang.
func TestPythonForked(t *testing.T) {
	python(t)
	n, journal := newFakeNode(t), journalPath(t)
	s := opened(t, n, drivers(t)["python"], journal)
	s.record(note)
	var got []any
	if err := json.Unmarshal(s.quiet("fork", object{"step": swap}), &got); err != nil {
		t.Fatal(err)
	}
	if want := "[<nil> false false [FORKED FORKED]]"; fmt.Sprint(got) != want {
		t.Errorf("in the child: %v, want %s", got, want)
	}
	s.record(note)
	s.delivers()
	expect(t, spans(n.batches()), "0:0-1")
	s.quiet("close", nil)
}

// TestPythonAccounts signs with what eth-account's versions give, under both schemes.
func TestPythonAccounts(t *testing.T) {
	python(t)
	for _, account := range []string{"0.8", "0.13.5", "service"} {
		for _, scheme := range []string{"eip712", "eip191"} {
			n := newFakeNode(t)
			s, o := start(t, drivers(t)["python"]), options(n, journalPath(t))
			o["account"], o["scheme"], o["stream"] = account, scheme, "na\u00efve \U0001f600"
			s.quiet("open", o)
			s.record(swap)
			s.delivers()
			if b := n.batches(); len(b) != 1 || string(b[0].Scheme) != scheme {
				t.Errorf("%s, %s: %+v", account, scheme, b)
			}
			s.kill()
		}
	}
	n := newFakeNode(t)
	s, o := start(t, drivers(t)["python"]), options(n, journalPath(t))
	o["account"] = "lying"
	s.quiet("open", o)
	s.record(swap)
	s.fails(1, "SIGNER")
	if posts := n.posts(); !slices.Equal(posts, nil) {
		t.Errorf("sent under a wrong signature: %q", posts)
	}
}
