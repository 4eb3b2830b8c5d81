package recorder

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"karatum/flight"
)

// sdkJournal writes two steps, a batch of them and its receipt as an SDK would.
func sdkJournal(t testing.TB, key *flight.Key) []byte {
	t.Helper()
	var out bytes.Buffer
	agent, prev := key.Address(), flight.Hash{}
	out.WriteString(`{"agent":"` + agent.String() + `","stream":"main-00000000","type":"stream"}` + "\n")
	for seq := range uint64(2) {
		c := flight.Hash{byte(seq)}
		s := flight.Step{Agent: agent, Stream: "main-00000000", Seq: seq, Prev: prev, At: 1, Kind: "note", Status: "ok", Args: &c}
		prev = s.Hash()
		out.WriteString(`{"hash":"` + prev.String() + `","step":` + string(s.Append(nil)) + `,"type":"step"}` + "\n")
	}
	return out.Bytes()
}

// FuzzSDKFile reads whatever a file may hold: it must not panic, and what is read
// must be checked without an error.
func FuzzSDKFile(f *testing.F) {
	key, err := flight.KeyFromBytes(append(make([]byte, 31), 7))
	if err != nil {
		f.Fatal(err)
	}
	whole := sdkJournal(f, key)
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add([]byte(strings.Replace(string(whole), `"type":"step"`, `"type":"batch"`, 1)))
	f.Add([]byte(`{"carry":{"count":1,"fromSeq":0,"stream":"a"},"agent":"` + key.Address().String() + `","stream":"b","type":"stream"}` + "\n"))
	f.Add([]byte(`{"carry":{"count":1,"fromSeq":0,"stream":"b"},"agent":"` + key.Address().String() + `","stream":"b","type":"stream"}` + "\n"))
	f.Add([]byte(`{"index":0,"receipt":null,"type":"receipt"}` + "\n"))
	path := filepath.Join(f.TempDir(), "journal.jsonl")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenReader(path)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotJournal) {
				t.Fatal(err)
			}
			return
		}
		for _, name := range r.Streams() {
			_, _ = r.Disclose(name, 0)
		}
		if _, err := Check(path); err != nil {
			t.Fatalf("read, but not checked: %v", err)
		}
	})
}

// TestSDKLineTooLong has a line that no SDK writes: it is not held in memory, and
// nothing of it is taken.
func TestSDKLineTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	text := append(sdkJournal(t, key), bytes.Repeat([]byte{'x'}, maxSDKLine+1<<20)...)
	if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	rep, err := Check(path)
	if err != nil || rep.Steps != 2 || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0].Error(), "line 4: ") {
		t.Errorf("check: %+v, %v", rep, err)
	}
}
