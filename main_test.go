package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"karatum/app"
	"karatum/app/cli"
	"karatum/app/load"
	"karatum/flight"
	"karatum/flight/merkle"
	"karatum/flight/recorder"
)

// TestMain lets the test binary stand in for karatum, in scripts and as a node in
// a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"karatum": main})
}

// TestImportDirection keeps drawings from rotting: who may import whom is in the
// package comment of main and here.
func TestImportDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	banned := map[string][]string{
		"flight": {"dsl", "chain", "store", "app", "web"},
		"dsl":    {"chain", "store", "app", "web"},
		"chain":  {"flight", "dsl", "store", "app", "web"},
		"store":  {"dsl", "chain", "app", "web"},
		"app":    {"web"},
		"web":    {"store", "chain"},
	}
	layer := func(path string) string {
		rest, ok := strings.CutPrefix(path, "karatum/")
		if !ok {
			return ""
		}
		name, _, _ := strings.Cut(rest, "/")
		return name
	}
	seen := map[string]bool{}
	for l := range strings.Lines(string(out)) {
		fields := strings.Fields(l)
		from := layer(fields[0])
		seen[from] = true
		for _, imported := range fields[1:] {
			if slices.Contains(banned[from], layer(imported)) {
				t.Errorf("%s must not import %s", fields[0], imported)
			}
		}
	}
	for _, want := range []string{"flight", "chain", "store", "app", "web"} {
		if !seen[want] {
			t.Errorf("go list names no package of %s; the test compares nothing", want)
		}
	}
}

// TestScripts runs the command line as a user would.
func TestScripts(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("app", "testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("ROOT", root)
			env.Values[nodeKey{}] = &scriptNode{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "oneline": oneline, "mode": mode, "node": scriptNodes, "deliver": deliver, "prove": prove, "truncate": truncate,
		},
		RequireExplicitExec: true,
	})
}

type nodeKey struct{}

// A scriptNode is the one node that a script has running.
type scriptNode struct{ child *load.Child }

// exits CODE COMMAND... runs a command that must end with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		got = ee.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// oneline wants one line on stderr and nothing on stdout.
func oneline(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile("stderr")
	if strings.Count(text, "\n") != 1 || ts.ReadFile("stdout") != "" {
		ts.Fatalf("want one line on stderr and nothing on stdout, got\n%s%s", text, ts.ReadFile("stdout"))
	}
}

// mode WANT FILE compares permissions.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("mode of %s is %s, want %s", args[1], got, args[0])
	}
}

// truncate FILE cuts the last third off.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()*2/3))
}

// node start DIR | stop runs a node; URL, ADDR, CHAIN and CHAINADDR are set.
func scriptNodes(ts *testscript.TestScript, neg bool, args []string) {
	n := ts.Value(nodeKey{}).(*scriptNode)
	switch {
	case len(args) == 2 && args[0] == "start":
		binary, err := exec.LookPath("karatum")
		ts.Check(err)
		n.child, err = load.Start(context.Background(), load.Options{Binary: binary, Data: ts.MkAbs(args[1]), Log: ts.MkAbs("node.log")})
		ts.Check(err)
		ts.Defer(n.child.Kill)
		ts.Setenv("URL", n.child.URL)
		ts.Setenv("ADDR", strings.TrimPrefix(n.child.URL, "http://"))
		ts.Setenv("CHAIN", n.child.ChainURL)
		ts.Setenv("CHAINADDR", strings.TrimPrefix(n.child.ChainURL, "http://"))
	case len(args) == 1 && args[0] == "stop":
		_, err := n.child.Stop(time.Minute)
		ts.Check(err)
	default:
		ts.Fatalf("usage: node start DIR | node stop")
	}
}

// deliver STREAM has the node take in a batch.
func deliver(ts *testscript.TestScript, neg bool, args []string) {
	body, err := json.Marshal(firstBatch(args[0]).Sign(testKey, flight.EIP712))
	ts.Check(err)
	status, answer, err := ts.Value(nodeKey{}).(*scriptNode).child.Post(context.Background(), "/v1/flight/batches", body, "")
	ts.Check(err)
	if status != http.StatusCreated {
		ts.Fatalf("the node answers %d %s", status, answer)
	}
}

// prove STEP PROOF anchors, writes the proof of a disclosed step's batch to a file,
// and sets ATTESTER.
func prove(ts *testscript.TestScript, neg bool, args []string) {
	ctx, n := context.Background(), ts.Value(nodeKey{}).(*scriptNode).child
	token, err := os.ReadFile(ts.MkAbs("d/operator.token"))
	ts.Check(err)
	status, answer, err := n.Post(ctx, "/v1/admin/anchor", []byte("{}"), strings.TrimSpace(string(token)))
	ts.Check(err)
	if status != http.StatusOK {
		ts.Fatalf("anchor: %d %s", status, answer)
	}
	d, err := flight.ParseDisclosure([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	var doc json.RawMessage
	if status, err := n.Get(ctx, "/v1/flight/batches/"+d.Batch.ID().String()+"/proof", &doc); err != nil || status != http.StatusOK {
		ts.Fatalf("proof: %d %v", status, err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), doc, 0o600))
	var v app.BatchProofView
	ts.Check(json.Unmarshal(doc, &v))
	ts.Setenv("ATTESTER", v.Anchor.Attester.String())
}

// testKey is a key that everybody knows.
var testKey = mustKey(7)

func mustKey(n byte) *flight.Key {
	k, err := flight.KeyFromBytes(append(make([]byte, 31), n))
	if err != nil {
		panic(err)
	}
	return k
}

func firstBatch(stream string) flight.Header {
	head := flight.Keccak256([]byte(stream))
	return flight.Header{Agent: testKey.Address(), Stream: stream, Head: head, Root: merkle.Leaf(head), CreatedAt: 1_760_000_000}
}

// TestBadInput posts what users get wrong to a real node, and compares what they
// are told.
func TestBadInput(t *testing.T) {
	n := startTestNode(t)
	h := firstBatch("bad-input")
	good := h.Sign(testKey, flight.EIP712)
	text := marshal(t, good)
	forms := signatureForms(good.Signature)
	later := h
	later.CreatedAt += 60
	future := firstBatch("future")
	future.CreatedAt = uint64(time.Now().Add(time.Hour).Unix())
	other := firstBatch("other-domain")
	wrongDomain := flight.Batch{Header: other, Scheme: flight.EIP712, Signature: testKey.Sign(other.IDUnder(31337))}
	forked := h
	forked.Head = flight.Hash{9}
	forked.Root = merkle.Leaf(forked.Head)

	for _, c := range []struct {
		name   string
		body   string
		status int
		want   []string // in the answer
	}{
		{"a good batch", text, 201, []string{`"continuity":"continuous"`, `"position":1`}},
		{"posted twice", text, 200, []string{`"duplicate":true`, `"position":1`}},
		{"signed again later", marshal(t, later.Sign(testKey, flight.EIP712)), 200, []string{`"duplicate":true`, good.ID().String()}},
		{"under the other scheme", marshal(t, h.Sign(testKey, flight.EIP191)), 200, []string{`"duplicate":true`}},
		{"v 0 or 1", withSignature(text, forms.low), 200, []string{`"duplicate":true`}},
		{"compact signature", withSignature(text, forms.compact), 200, []string{`"duplicate":true`}},
		{"domain with a chainId", marshal(t, wrongDomain), 401, []string{"BAD_SIGNATURE", "name and version only", `"signer":"0x`, other.ID().String(), `"serverTime":`}},
		{"a clock ahead", marshal(t, future.Sign(testKey, flight.EIP712)), 425, []string{"CLOCK_SKEW", `"serverTime":`}},
		{"another history", marshal(t, forked.Sign(testKey, flight.EIP712)), 409, []string{"EQUIVOCATION", `"reason":"SAME_INDEX"`}},
		{"number of 1,000 digits", strings.Replace(text, `"index":0`, `"index":`+strings.Repeat("9", 1000), 1), 400, []string{"BAD_REQUEST", "NON_FINITE"}},
		{"unsafe integer", strings.Replace(text, `"index":0`, `"index":9007199254740993`, 1), 400, []string{"UNSAFE_INTEGER"}},
		{"depth 10,000", strings.Repeat("[", 10_000), 400, []string{"BAD_REQUEST", "TOO_DEEP"}},
		{"unknown key", strings.Replace(text, `"index":0`, `"index":0,"colour":"red"`, 1), 400, []string{"BAD_REQUEST", `"field":"colour"`}},
		{"missing key", strings.Replace(text, `"index":0,`, "", 1), 400, []string{`"field":"index"`, "is missing"}},
		{"key twice", strings.Replace(text, `"index":0`, `"index":0,"index":0`, 1), 400, []string{"DUPLICATE_KEY"}},
		{"upper-case hex", strings.Replace(text, h.Head.String(), strings.Replace(strings.ToUpper(h.Head.String()), "0X", "0x", 1), 1), 400, []string{`"field":"head"`}},
		{"high s", withSignature(text, forms.high), 400, []string{`"field":"signature"`}},
		{"not JSON", "hello", 400, []string{"SYNTAX"}},
		{"nothing", "", 400, []string{"BAD_REQUEST"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer := n.post(t, "/v1/flight/batches", c.body)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, answer)
			}
			for _, want := range c.want {
				if !strings.Contains(answer, want) {
					t.Errorf("the answer lacks %s: %s", want, answer)
				}
			}
			if status >= 400 {
				checkErrorShape(t, answer)
			}
		})
	}
	status, list := n.get(t, "/v1/flight/agents/"+testKey.Address().String())
	if status != 200 || !strings.Contains(list, `"batches":1,`) || !strings.Contains(list, `"equivocations":1,`) {
		t.Errorf("after all that: %d %s; want one batch and one equivocation", status, list)
	}
}

// checkErrorShape wants {"error":{"code","message","details"}} and no more.
func checkErrorShape(t *testing.T, answer string) {
	t.Helper()
	var body map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(answer), &body); err != nil {
		t.Errorf("%v: %s", err, answer)
		return
	}
	e := body["error"]
	if len(body) != 1 || len(e) != 3 || e["code"] == nil || e["message"] == nil || e["details"] == nil {
		t.Errorf("an error is {error:{code,message,details}}, got %s", answer)
	}
}

type forms struct{ low, compact, high string }

// signatureForms returns the signature with v 0 or 1, in EIP-2098 form, and its
// twin with s in the upper half.
func signatureForms(s flight.Signature) forms {
	low := s
	low[64] -= 27
	compact := bytes.Clone(s[:64])
	compact[32] |= low[64] << 7
	high := s
	order, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)
	order.Sub(order, new(big.Int).SetBytes(s[32:64])).FillBytes(high[32:64])
	high[64] = 27 + (1 - low[64])
	return forms{fmt.Sprintf("0x%x", low[:]), fmt.Sprintf("0x%x", compact), fmt.Sprintf("0x%x", high[:])}
}

func withSignature(body, signature string) string {
	return regexp.MustCompile(`"signature":"0x[0-9a-f]+"`).ReplaceAllString(body, `"signature":"`+signature+`"`)
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A testNode is a node in this process.
type testNode struct{ url string }

func startTestNode(t *testing.T) testNode {
	t.Helper()
	cfg := app.DefaultConfig()
	cfg.Listen, cfg.ChainListen, cfg.Data = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(t.TempDir(), "data")
	n, err := start(t.Context(), cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	})
	return testNode{n.url}
}

func (n testNode) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	res, err := http.Post(n.url+path, "application/json", strings.NewReader(body))
	return answer(t, res, err)
}

func (n testNode) get(t *testing.T, path string) (int, string) {
	t.Helper()
	res, err := http.Get(n.url + path)
	return answer(t, res, err)
}

func answer(t *testing.T, res *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestDemo plays the whole story.
func TestDemo(t *testing.T) {
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"demo", "--exit", "--json"}, &out, &errs); err != nil {
		t.Fatalf("demo: %v\n%s%s", err, &out, &errs)
	}
	var res app.DemoResult
	if err := json.Unmarshal(out.Bytes(), &res); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if !res.OK || len(res.Checks) < 15 || len(res.Batches) != 2 || len(res.Files) != 3 {
		t.Errorf("demo came to %s", &out)
	}
}

// TestReadme compares the README with the program: its settings with the flags,
// its Go code with code that compiles, its commands with those that exist.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	serveCommand(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		def := "`" + f.DefValue + "`"
		if f.DefValue == "" || f.DefValue == "[]" {
			def = "none"
		}
		if row := fmt.Sprintf("| `--%s` | %s | %s |", f.Name, def, f.Usage); !strings.Contains(readme, row) {
			t.Errorf("the README lacks the setting\n%s", row)
		}
	})
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)`").FindAllStringSubmatch(readme, -1) {
		if fs.Lookup(m[1]) == nil {
			t.Errorf("the README has the setting --%s, which does not exist", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)\bkaratum ([a-z][a-z-]*)`).FindAllStringSubmatch(readme, -1) {
		if m[1] != "help" && !slices.ContainsFunc(program().Commands, func(c cli.Command) bool { return c.Name == m[1] }) {
			t.Errorf("the README speaks of karatum %s, which does not exist", m[1])
		}
	}
	code := compiledCode(t)
	for _, m := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(code, dedent(m[1])) {
			t.Errorf("no Go file of this module holds the README's\n%s", m[1])
		}
	}
}

// recordAgent is the README's code.
func recordAgent(ctx context.Context, dir string, key *flight.Key, nodeURL string) error {
	rec, err := recorder.Open(ctx, recorder.Options{
		Journal: dir, Signer: recorder.Local(key), NodeURL: nodeURL, RetainPlaintext: true,
		OnError: func(err error) { log.Println(err) },
	})
	if err != nil {
		return err
	}
	_, err = rec.Record(ctx, recorder.Step{
		Kind: "tool", Name: "read_invoice", Args: map[string]any{"id": "2041"}, Result: "25.00 due",
	})
	if err != nil {
		return err
	}
	return rec.Close(ctx)
}

// TestRecordAgent runs the README's code against a node.
func TestRecordAgent(t *testing.T) {
	n := startTestNode(t)
	if err := recordAgent(t.Context(), filepath.Join(t.TempDir(), "journal"), testKey, n.url); err != nil {
		t.Fatal(err)
	}
	status, v := n.get(t, "/v1/flight/agents/"+testKey.Address().String())
	if status != 200 || !strings.Contains(v, `"recordedSteps":1,`) {
		t.Errorf("the node knows of the agent: %d %s, want one step", status, v)
	}
}

// compiledCode is every Go test file, without indentation.
func compiledCode(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // other packages' tests run beside, and leave no file for long
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		all.WriteString(dedent(string(b)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func dedent(s string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, "")
}
