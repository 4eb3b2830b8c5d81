package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"karatum/app/load"
	"karatum/flight"
)

// tool returns the path of a program that a test needs. Under CI a missing one
// fails the test.
func tool(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing; %s", name, install)
	}
	t.Skipf("%s is missing; %s", name, install)
	return ""
}

// recorded is what the recording scripts of testdata print.
type recorded struct {
	Agent      flight.Address
	Stream     string
	Waiting    int
	Errors     []string
	Disclosure json.RawMessage
}

// TestSDKsRecord fetches each SDK from a running node, records with it under both
// schemes, and opens a step.
func TestSDKsRecord(t *testing.T) {
	node := start(t, t.TempDir(), nil, unlimited...)
	for _, c := range []struct{ program, install, script, sdk string }{
		{tool(t, "node", "install Node 18 or newer"), "", "record.mjs", "karatum-flight.mjs"},
		{tool(t, "python3", "install Python 3.9 or newer"), "", "record.py", "karatum_flight.py"},
	} {
		for _, scheme := range []string{"eip712", "eip191"} {
			t.Run(c.script+"/"+scheme, func(t *testing.T) {
				k, err := flight.NewKey()
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				cmd := exec.CommandContext(t.Context(), c.program, filepath.Join("testdata", c.script), node.URL, dir, scheme, filepath.Join(dir, c.sdk))
				cmd.Env = append(os.Environ(), fmt.Sprintf("AGENT_KEY=0x%x", k.Bytes()))
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s: %v\n%s%s", c.script, err, out, stderrOf(err))
				}
				var r recorded
				if err := json.Unmarshal(out, &r); err != nil {
					t.Fatalf("%v in %s", err, out)
				}
				if r.Agent != k.Address() || r.Waiting != 0 || len(r.Errors) != 0 {
					t.Fatalf("the recorder reports %+v; want agent %s, nothing waiting, no error", r, k.Address())
				}
				delivered(t, node, r)
			})
		}
	}
}

func stderrOf(err error) []byte {
	if ee, ok := err.(*exec.ExitError); ok {
		return ee.Stderr
	}
	return nil
}

// delivered checks what the node has of a recorded stream of 40 steps, and that
// it takes the disclosure.
func delivered(t *testing.T, node *load.Child, r recorded) {
	t.Helper()
	var s struct {
		Batches int
		Gaps    []any
		Head    struct{ ToSeq uint64 }
	}
	path := fmt.Sprintf("/v1/flight/agents/%s/streams/%s", r.Agent, url.PathEscape(r.Stream))
	if status, err := node.Get(t.Context(), path, &s); err != nil || status != 200 || s.Head.ToSeq != 39 || s.Batches != 4 || len(s.Gaps) != 0 {
		t.Errorf("stream: %d, %v, %+v; want 4 batches up to step 39, no gap", status, err, s)
	}
	d, err := flight.ParseDisclosure(r.Disclosure)
	if err != nil || d.Verify().Err() != nil {
		t.Fatalf("the SDK's disclosure does not verify: %v", err)
	}
	status, answer, err := node.Post(t.Context(), "/v1/flight/proofs", r.Disclosure, "")
	if err != nil || status != 201 && status != 200 || !bytes.Contains(answer, []byte(`"stepHash"`)) {
		t.Errorf("disclosure: %d, %v, %s", status, err, answer)
	}
	var a struct{ Equivocated bool }
	if status, err := node.Get(t.Context(), "/v1/flight/agents/"+r.Agent.String(), &a); err != nil || status != 200 || a.Equivocated {
		t.Errorf("agent: %d, %v, %+v; want no equivocation", status, err, a)
	}
}

// TestReadmeScripts runs the README's Python and JavaScript, as they stand, against
// a node.
func TestReadmeScripts(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	node := start(t, t.TempDir(), nil, unlimited...)
	for _, c := range []struct{ language, program, file, sdk string }{
		{"python", tool(t, "python3", "install Python 3.9 or newer"), "agent.py", "karatum_flight.py"},
		{"js", tool(t, "node", "install Node 18 or newer"), "agent.mjs", "karatum-flight.mjs"},
	} {
		t.Run(c.language, func(t *testing.T) {
			_, code, found := strings.Cut(string(readme), "```"+c.language+"\n")
			code, _, ended := strings.Cut(code, "```")
			if !found || !ended {
				t.Fatal("the README has no such code")
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, c.file), strings.ReplaceAll(code, "http://127.0.0.1:8080", node.URL))
			source, err := os.ReadFile(filepath.Join("../../web/sdk", c.sdk))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, c.sdk), string(source))
			k, err := flight.NewKey()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), c.program, c.file)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("AGENT_KEY=0x%x", k.Bytes()))
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v\n%s", err, out)
			}
			var a struct{ RecordedSteps int }
			if status, err := node.Get(t.Context(), "/v1/flight/agents/"+k.Address().String(), &a); err != nil || status != 200 || a.RecordedSteps != 1 {
				t.Errorf("agent: %d, %v, %+v; want one step", status, err, a)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMCPTypeScript puts karatum mcp-proxy between the TypeScript SDK's client
// and server, over stdio.
func TestMCPTypeScript(t *testing.T) {
	node := tool(t, "node", "install Node 18 or newer")
	modules, err := filepath.Abs("../../.ci/npm-sdk/node_modules/@modelcontextprotocol/sdk/dist/esm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(modules); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the TypeScript SDK is missing; run: npm ci --prefix .ci/npm-sdk")
		}
		t.Skip("the TypeScript SDK is missing; run: npm ci --prefix .ci/npm-sdk")
	}
	dir := t.TempDir()
	journal := filepath.Join(dir, "journal")
	cmd := exec.CommandContext(t.Context(), node, "testdata/mcp-client.mjs", modules, binary, "mcp-proxy",
		"--journal", journal, "--key", filepath.Join(dir, "agent.key"), "--new-key",
		"--tx-path", "pay:hash=result/structuredContent/txHash,chain=8453,claim=native.transfer,to=args/to,amount=args/wei",
		"--", node, "testdata/mcp-server.mjs", modules)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client: %v\n%s%s", err, out, stderrOf(err))
	}
	want := "tools add,fail,pay\nsum 5\nfailed true\nprogress 1,2,3\npaid true\n"
	if string(out) != want {
		t.Errorf("the client saw\n%swant\n%s", out, want)
	}
	check, err := exec.Command(binary, "journal", "check", journal).CombinedOutput()
	if err != nil || !strings.Contains(string(check), " 3 steps") {
		t.Errorf("journal: %v\n%s; want 3 steps", err, check)
	}
	lines, err := filepath.Glob(filepath.Join(journal, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range lines {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a directory
		}
		text.Write(b)
	}
	for _, want := range []string{`"status":"error"`, `"chainId":8453`, `native.transfer`, `"name":"add"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the journal has no %s", want)
		}
	}
}
