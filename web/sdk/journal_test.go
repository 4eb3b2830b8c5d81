package sdk

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/recorder"
)

// written returns a journal with two streams that an SDK wrote: one that the node
// refused and one that repeats its steps, with a step that waits at the end.
func written(t *testing.T, n *fakeNode, command []string) (journal string, streams [2]string) {
	t.Helper()
	journal = journalPath(t)
	s := opened(t, n, command, journal)
	s.record(swap)
	s.delivers()
	streams[0] = s.stream()
	s.record(transfer, object{"args": object{"\u20ac": 1e21, "\U0001f600": "\u2028", "z": -0.5}})
	n.during(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method == "POST" {
			n.on = nil
			refuse(w, 409, "EQUIVOCATION", "two histories", nil)
		}
		return r.Method == "POST"
	})
	s.do("flush", nil)
	streams[1] = s.stream()
	s.record(note)
	s.kill()
	return journal, streams
}

// TestGoReadsJournals opens the steps of an SDK's journal with the Go reader, checks
// the journal, and delivers it to a node that has nothing of it.
func TestGoReadsJournals(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal, streams := written(t, n, command)
		r, err := recorder.OpenReader(journal)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Streams(); !slices.Equal(got, streams[:]) {
			t.Errorf("streams %q, want %q", got, streams)
		}
		for _, c := range []struct {
			stream string
			seq    uint64
			fields []string
			at     string // where it is disclosed from
		}{
			{streams[0], 0, []string{"args", "result"}, streams[0]},
			{streams[0], 1, []string{"claim"}, streams[1]}, // repeated there
			{streams[1], 1, []string{"args"}, streams[1]},
		} {
			d, err := r.Disclose(c.stream, c.seq, c.fields...)
			if err != nil || len(d.Reveal) != len(c.fields) || d.Batch.Header.Stream != c.at {
				t.Fatalf("%s/%d: %+v, %v", c.stream, c.seq, d, err)
			}
		}
		if _, err := r.Disclose(streams[1], 2); !errors.Is(err, recorder.ErrNotSigned) {
			t.Errorf("the waiting step: %v", err)
		}
		if _, err := r.Disclose("trader", 0); !errors.Is(err, recorder.ErrNotFound) {
			t.Errorf("an ambiguous name: %v", err)
		}

		rep, err := recorder.Check(journal)
		if err != nil || len(rep.Problems) > 0 || rep.Steps != 6 || rep.Batches != 3 || rep.Receipts != 2 || rep.Refused != 1 ||
			rep.Waiting != 1 || rep.Inflight || rep.Torn != 0 || !slices.Equal(rep.Nodes, []flight.Address{n.key.Address()}) {
			t.Errorf("check: %+v, %v", rep, err)
		}

		other := newFakeNode(t)
		sent, err := recorder.Resend(t.Context(), journal, other.URL, nil, nil)
		if err != nil || sent.Batches != 3 || sent.Receipted != 3 {
			t.Errorf("resend: %+v, %v", sent, err)
		}
		if got, want := other.posts(), n.posts(); !slices.Equal(got, want) {
			t.Errorf("not the bytes that the SDK sent: %q, want %q", got, want)
		}
		if _, err := recorder.OpenJournal(journal, recorder.JournalOptions{Agent: n.key.Address()}); !errors.Is(err, recorder.ErrNotJournal) {
			t.Errorf("a Go recorder on an SDK's journal: %v", err)
		}
	})
}

// TestGoChecksJournals damages an SDK's journal. What the SDK refuses the reader
// refuses; what it would cut off is named.
func TestGoChecksJournals(t *testing.T) {
	recorders(t, func(t *testing.T, n *fakeNode, command []string) {
		journal, _ := written(t, n, command)
		lines := linesOf(t, journal) // stream, step, batch, receipt, step, step, batch, stream, step, step, batch, receipt, step
		edit := func(at int, from, to string) string {
			broken := slices.Clone(lines)
			if broken[at] = strings.Replace(broken[at], from, to, 1); broken[at] == lines[at] {
				t.Fatalf("line %d has no %s: %s", at, from, lines[at])
			}
			return strings.Join(broken, "\n") + "\n"
		}
		whole := strings.Join(lines, "\n") + "\n"
		for name, c := range map[string]struct {
			text, problem string
			readable      bool
			torn          int
		}{
			"a value":                {edit(1, `"pay":"25"`, `"pay":"26"`), "args is not what it commits to", true, 0},
			"a step":                 {edit(1, `"at":1`, `"at":7`), "line 2: ", false, 0},
			"a signature":            {edit(2, `"signature":"0x`, `"signature":"0x00`), "line 3: ", false, 0},
			"a root":                 {edit(10, `"createdAt":1`, `"createdAt":2`), "batch 0 of ", true, 0},
			"a receipt":              {edit(3, `"position":0`, `"position":5`), "receipt of batch", true, 0},
			"a receipt of none":      {edit(3, `"index":0`, `"index":1`), "line 4: ", false, 0},
			"the first line":         {edit(0, `"stream"`, `"st"`), "line 1: ", false, 0},
			"a step that waits":      {edit(12, `"at":1`, `"at":7`), "line 13: ", true, 0},
			"a torn end":             {whole[:len(whole)-10], "", true, len(lines[12]) - 9},
			"an end without newline": {whole[:len(whole)-1], "", true, len(lines[12])},
			"zeros at the end":       {whole + strings.Repeat("\x00", 4096), "", true, 4096},
		} {
			path := filepath.Join(t.TempDir(), "journal.jsonl")
			writeFile(t, path, c.text)
			if _, err := recorder.OpenReader(path); (err == nil) != c.readable || err != nil && !errors.Is(err, recorder.ErrDamaged) {
				t.Errorf("%s: open: %v", name, err)
			}
			rep, err := recorder.Check(path)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if text := errors.Join(rep.Problems...); (text == nil) != (c.problem == "") || text != nil && !strings.Contains(text.Error(), c.problem) {
				t.Errorf("%s: problems %v, want %q", name, text, c.problem)
			}
			if rep.Torn != c.torn {
				t.Errorf("%s: %d bytes torn, want %d", name, rep.Torn, c.torn)
			}
		}
	})
}

// TestGoRefusesOtherFiles names what a path is that is no journal.
func TestGoRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(dir, "ours")
	j, err := recorder.OpenJournal(ours, recorder.JournalOptions{Agent: key.Address()})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for name, text := range map[string]string{"empty": "", "text": "hello\nworld\n", "binary": "\x00\xff", "json": "{}\n"} {
		path := filepath.Join(dir, name)
		writeFile(t, path, text)
		_, err := recorder.OpenReader(path)
		_, err2 := recorder.Check(path)
		if !errors.Is(err, recorder.ErrNotJournal) || !errors.Is(err2, recorder.ErrNotJournal) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v and %v", name, err, err2)
		}
	}
	segment := filepath.Join(ours, "00000001.jsonl")
	if _, err := recorder.OpenReader(segment); !errors.Is(err, recorder.ErrNotJournal) || !strings.Contains(err.Error(), "name its directory") {
		t.Errorf("one file of a directory: %v", err)
	}
	if _, err := recorder.OpenReader(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := os.Stat(segment); err != nil {
		t.Error(err)
	}
}
