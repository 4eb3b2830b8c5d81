package agentcli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"karatum/app/cli"
	"karatum/flight"
	"karatum/flight/recorder"
)

// invoke runs a command of this package as the shell would.
func invoke(t *testing.T, stdin, name string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	i := slices.IndexFunc(Commands(), func(c cli.Command) bool { return c.Name == name })
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	run := Commands()[i].Setup(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err = run(t.Context(), &cli.Call{Args: fs.Args(), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs})
	return out.String(), errs.String(), err
}

const oneStep = `{"kind":"note","args":"done"}` + "\n"

// TestRecordSaysWhatIsWrong gives a beginner's mistakes. All of one command are
// named at once, and none makes a journal.
func TestRecordSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	journal, bad, open := filepath.Join(dir, "journal"), filepath.Join(dir, "bad"), filepath.Join(dir, "open")
	for path, mode := range map[string]os.FileMode{bad: 0o600, open: 0o644} {
		if err := os.WriteFile(path, []byte("hello\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"--journal is empty", "--key"}},
		{[]string{"--journal", journal, "--key", filepath.Join(dir, "none")}, []string{"does not exist; --new-key draws one"}},
		{[]string{"--journal", journal, "--key", bad}, []string{bad, "private key in hex"}},
		{[]string{"--journal", journal, "--key", open}, []string{"chmod 600 " + open}},
		{[]string{"--journal", journal, "--key", bad, "--node-address", "0x12", "--scheme", "x"}, []string{`--node-address is "0x12"`, `--scheme is "x"`, bad}},
		{[]string{"--journal", bad, "--key", filepath.Join(dir, "key"), "--new-key"}, []string{bad, "name a directory"}},
		{[]string{"--journal", journal, "--key", filepath.Join(dir, "key"), "--new-key", "--node", "localhost:8080"}, []string{"localhost:8080", "http://"}},
	} {
		_, _, err := invoke(t, oneStep, "record", append(c.args, "--stdin")...)
		if !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%q: %v, want wrong usage", c.args, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: does not say %q: %v", c.args, want, err)
			}
		}
	}
	if _, err := os.Stat(journal); !os.IsNotExist(err) {
		t.Errorf("a journal was made: %v", err)
	}
}

// TestRecordWithoutNode records while nothing listens: the command succeeds, says
// once why nothing was delivered, and the journal holds the step.
func TestRecordWithoutNode(t *testing.T) {
	dir := t.TempDir()
	journal := filepath.Join(dir, "journal")
	args := []string{"--stdin", "--journal", journal, "--key", filepath.Join(dir, "key"), "--new-key", "--node", "http://127.0.0.1:1"}
	out, errs, err := invoke(t, oneStep, "record", args...)
	if err != nil || !strings.Contains(out, `"seq":0`) {
		t.Fatalf("record: %v, %s", err, out)
	}
	if strings.Count(errs, "cannot be reached") != 1 || !strings.Contains(errs, "waits in the journal") {
		t.Errorf("says:\n%s", errs)
	}
	out, _, err = invoke(t, "", "journal", "check", journal)
	if err != nil || !strings.Contains(out, "1 file, 1 steps") || !strings.Contains(out, "1 steps wait") || !strings.Contains(out, "the journal is whole") {
		t.Errorf("check: %v, %s", err, out)
	}
}

// TestReadsSDKJournals gives the commands a journal as the SDKs write it.
func TestReadsSDKJournals(t *testing.T) {
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c := flight.Hash{1}
	s := flight.Step{Agent: key.Address(), Stream: "main-00000000", At: 1, Kind: "note", Status: "ok", Args: &c}
	text := `{"agent":"` + s.Agent.String() + `","stream":"main-00000000","type":"stream"}` + "\n" +
		`{"hash":"` + s.Hash().String() + `","step":` + string(s.Append(nil)) + `,"type":"step"}` + "\n"
	path := filepath.Join(t.TempDir(), "agent.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := invoke(t, "", "journal", "check", path); err != nil || !strings.Contains(out, "streams: main-00000000") {
		t.Errorf("check: %v, %s", err, out)
	}
	if _, _, err := invoke(t, "", "disclose", "--journal", path, "--step", "main/0"); !errors.Is(err, recorder.ErrNotSigned) {
		t.Errorf("disclose: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, `"at":1`, `"at":2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, err := invoke(t, "", "journal", "check", path); !errors.Is(err, cli.ErrReported) || !strings.Contains(out, "damage: ") {
		t.Errorf("check of a damaged one: %v, %s", err, out)
	}
}
