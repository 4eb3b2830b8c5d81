package mcpproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"karatum/flight"
	"karatum/flight/recorder"
	"karatum/flight/recorder/internal/testnode"
)

// envServer makes the test binary an MCP server over stdio.
const envServer = "MCPPROXY_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(envServer) {
	case "":
		os.Exit(m.Run())
	case "cat":
		if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
			os.Exit(1)
		}
	case "exit":
		os.Exit(3)
	default:
		if err := server(nil).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(0)
}

type payIn struct {
	To  string `json:"to"`
	Wei string `json:"wei"`
}

type payOut struct {
	TxHash string `json:"txHash"`
}

const paid = "0xAB00000000000000000000000000000000000000000000000000000000000012"

// server has tools that succeed, fail, pay, and wait until they are cancelled or the
// test is over: the SDK promises no cancellation to arrive.
func server(over <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in map[string]any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(in["text"])}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("out of ink")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "pay"}, func(context.Context, *mcp.CallToolRequest, payIn) (*mcp.CallToolResult, payOut, error) {
		return nil, payOut{TxHash: paid}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Message: "waiting"})
		if err != nil {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
		case <-over:
		}
		return nil, nil, errors.New("nobody waits any more")
	})
	return s
}

func newRecorder(t testing.TB) *recorder.Recorder {
	t.Helper()
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	node, err := testnode.New()
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(node)
	t.Cleanup(srv.Close)
	r, err := recorder.Open(t.Context(), recorder.Options{
		Journal: filepath.Join(t.TempDir(), "journal"), Signer: recorder.Local(key), NodeURL: srv.URL,
		Interval: time.Hour, RetainPlaintext: true,
		OnError: func(err error) { t.Logf("recorder: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func payRule(t testing.TB) TxRule {
	t.Helper()
	r, err := ParseTxRule("pay:hash=result/structuredContent/txHash,chain=31337,claim=native.transfer,to=args/to,amount=args/wei")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// step opens everything that a recorded step committed to.
func step(t *testing.T, r *recorder.Recorder, seq uint64) (flight.Step, map[string]string, *flight.Claim) {
	t.Helper()
	shown, err := r.Disclose("main", seq)
	if err != nil {
		t.Fatal(err)
	}
	s := shown.Verify().Step
	var fields []string
	for _, f := range flight.Fields {
		if s.Commitment(f) != nil {
			fields = append(fields, f)
		}
	}
	d, err := r.Disclose("main", seq, fields...)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, o := range d.Reveal {
		b, err := o.Value.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		values[o.Field] = string(b)
	}
	return s, values, d.Verify().Claim
}

// scenario calls every tool as a client of the SDK would, and cancels the last call.
// over is called before the session is closed, which waits for the server's calls.
func scenario(t *testing.T, transport mcp.Transport, over func()) {
	t.Helper()
	waiting := make(chan string, 1)
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { waiting <- r.Params.Message },
	})
	cs, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	tools, err := cs.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 4 {
		t.Fatalf("tools %+v, %v; want 4", tools, err)
	}
	call := func(ctx context.Context, name string, args any) (*mcp.CallToolResult, error) {
		p := &mcp.CallToolParams{Name: name, Arguments: args}
		p.SetProgressToken("token-" + name)
		return cs.CallTool(ctx, p)
	}
	res, err := call(t.Context(), "echo", map[string]any{"text": "grüße <&>"})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "grüße <&>" {
		t.Errorf("echo = %+v, %v", res, err)
	}
	if res, err = call(t.Context(), "fail", nil); err != nil || !res.IsError {
		t.Errorf("fail = %+v, %v; want an error result", res, err)
	}
	if _, err = call(t.Context(), "absent", nil); err == nil {
		t.Error("a call of an unknown tool succeeded")
	}
	if _, err = call(t.Context(), "pay", payIn{To: "0xABCDEF0000000000000000000000000000000001", Wei: "25"}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := call(ctx, "wait", nil)
		failed <- err
	}()
	if msg := <-waiting; msg != "waiting" {
		t.Errorf("progress %q, want waiting", msg)
	}
	cancel()
	if err := <-failed; err == nil {
		t.Error("the cancelled call succeeded")
	}
	over()
}

// checkScenario compares the record with what scenario did.
func checkScenario(t *testing.T, r *recorder.Recorder) {
	t.Helper()
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seq, want := range []struct{ name, kind, status, args, result string }{
		{"echo", "tool", "ok", `{"text":"grüße <&>"}`, "grüße <&>"},
		{"fail", "tool", "error", "", "out of ink"},
		{"absent", "tool", "error", "", `"error":{"code":`},
		{"pay", "tx", "ok", `"wei":"25"`, paid},
		{"wait", "tool", "error", "", ""},
	} {
		s, values, claim := step(t, r, uint64(seq))
		if s.Name != want.name || s.Kind != want.kind || s.Status != want.status ||
			!strings.Contains(values["args"], want.args) || !strings.Contains(values["result"], want.result) {
			t.Errorf("step %d is %s %s %s %v; want %+v", seq, s.Name, s.Kind, s.Status, values, want)
		}
		if want.name == "pay" {
			if claim == nil || claim.Amount.String() != "25" || claim.To.String() != "0xabcdef0000000000000000000000000000000001" ||
				s.TxHash.String() != strings.ToLower(paid) || *s.ChainID != 31337 {
				t.Errorf("transaction %v on chain %v with claim %+v", s.TxHash, s.ChainID, claim)
			}
		}
	}
}

func TestStdio(t *testing.T) {
	t.Setenv(envServer, "tools")
	r := newRecorder(t)
	clientIn, proxyOut := io.Pipe()
	proxyIn, clientOut := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Config{
			Recorder: r, TxRules: []TxRule{payRule(t)}, OnError: func(err error) { t.Error(err) },
			Command: []string{os.Args[0]}, Stdin: proxyIn, Stdout: proxyOut,
		})
		proxyOut.Close()
	}()
	scenario(t, &mcp.IOTransport{Reader: clientIn, Writer: clientOut}, func() {})
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	checkScenario(t, r)
}

func TestHTTP(t *testing.T) {
	for name, opt := range map[string]*mcp.StreamableHTTPOptions{
		"events":    {PropagateRequestCancellation: true},
		"json":      {JSONResponse: true},
		"stateless": {Stateless: true, PropagateRequestCancellation: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			over := make(chan struct{})
			tools := server(over)
			up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, opt))
			defer up.Close()
			ctx, cancel := context.WithCancel(t.Context())
			ready, done := make(chan string, 1), make(chan error, 1)
			go func() {
				done <- Run(ctx, Config{
					Recorder: r, TxRules: []TxRule{payRule(t)}, Upstream: up.URL, Listen: "127.0.0.1:0", Ready: func(a string) { ready <- a },
				})
			}()
			addr := <-ready
			if opt.JSONResponse {
				quickCalls(t, "http://"+addr)
			} else {
				scenario(t, &mcp.StreamableClientTransport{Endpoint: "http://" + addr}, func() { close(over) })
			}
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run = %v", err)
			}
			if opt.JSONResponse {
				checkQuick(t, r)
			} else {
				checkScenario(t, r)
			}
		})
	}
}

// TestHTTPCancel cancels a call by hand, within a session and without one: the
// upstream gets the client's own bytes while the call is still open, and the call
// becomes one failed step.
func TestHTTPCancel(t *testing.T) {
	const call = ` {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`
	const cancelled = `{"jsonrpc":"2.0",  "method":"notifications/cancelled","params":{"requestId":1,"reason":"tired"}}`
	for _, session := range []string{"", "a session"} {
		r := newRecorder(t)
		bodies, over := make(chan string, 2), make(chan struct{})
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			b, err := io.ReadAll(q.Body)
			if err != nil {
				t.Error(err)
			}
			bodies <- string(b)
			if string(b) == cancelled {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": open\n\n")
			_ = http.NewResponseController(w).Flush()
			<-over
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ready, done := make(chan string, 1), make(chan error, 1)
		go func() {
			done <- Run(ctx, Config{Recorder: r, Upstream: up.URL, Listen: "127.0.0.1:0", Ready: func(a string) { ready <- a }})
		}()
		url := "http://" + <-ready
		post := func(body string) *http.Response {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if session != "" {
				q.Header.Set(sessionHeader, session)
			}
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		open := post(call)
		if res := post(cancelled); res.StatusCode != http.StatusAccepted {
			t.Errorf("cancellation: status %d", res.StatusCode)
		}
		if a, b := <-bodies, <-bodies; a != call || b != cancelled {
			t.Errorf("upstream got %q and %q", a, b)
		}
		open.Body.Close()
		close(over)
		up.Close()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "tired" // without a session nothing ties the cancellation to the call
		if session == "" {
			want = errUnanswered.Error()
		}
		if s, values, _ := step(t, r, 0); s.Status != "error" || !strings.Contains(values["result"], want) {
			t.Errorf("session %q: step %+v %v, want %q", session, s, values, want)
		}
		if n := r.Status().Steps; n != 1 {
			t.Errorf("session %q: %d steps, want 1", session, n)
		}
	}
}

// quickCalls is the part of scenario that needs no progress during a call, which
// JSON answers cannot carry.
func quickCalls(t *testing.T, url string) {
	t.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	for _, name := range []string{"echo", "fail"} {
		if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{}}); err != nil {
			t.Error(err)
		}
	}
}

func checkQuick(t *testing.T, r *recorder.Recorder) {
	t.Helper()
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seq, want := range []string{"echo ok", "fail error"} {
		if s, _, _ := step(t, r, uint64(seq)); s.Name+" "+s.Status != want {
			t.Errorf("step %d is %s %s, want %s", seq, s.Name, s.Status, want)
		}
	}
}

// TestByteForByte sends what is no MCP at all through the proxy and a server that
// echoes: every byte must come back.
func TestByteForByte(t *testing.T) {
	t.Setenv(envServer, "cat")
	r := newRecorder(t)
	in := "{\"jsonrpc\": \"2.0\",  \"method\":\"x\"}\r\n\n\x00\xff\xfe half \xc3\n[1,2\n" + strings.Repeat("long ", 50000) + "\nno newline"
	var out bytes.Buffer
	err := Run(t.Context(), Config{Recorder: r, Command: []string{os.Args[0]}, Stdin: iotest.OneByteReader(strings.NewReader(in)), Stdout: &out})
	if err != nil || out.String() != in {
		t.Errorf("%d bytes came back, %v; want the same %d", out.Len(), err, len(in))
	}
	if n := r.Status().Steps; n != 0 {
		t.Errorf("%d steps recorded of nothing", n)
	}
}

func TestServerFails(t *testing.T) {
	t.Setenv(envServer, "exit")
	r := newRecorder(t)
	stdin, client := io.Pipe()
	defer client.Close()
	err := Run(t.Context(), Config{Recorder: r, Command: []string{os.Args[0]}, Stdin: stdin, Stdout: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Run = %v, want the server's exit status", err)
	}
	if err := Run(t.Context(), Config{Recorder: r, Command: []string{filepath.Join(t.TempDir(), "absent")}, Stdin: stdin}); err == nil {
		t.Error("a server that does not exist was started")
	}
}

// TestClientHangsUp has the client leave while the server still speaks, which is an
// end like any other; a client's side that fails is an error.
func TestClientHangsUp(t *testing.T) {
	t.Setenv(envServer, "cat")
	closed, out := io.Pipe()
	closed.Close()
	broken, out2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out2.Close()
	broken.Close()
	full := errors.New("no room")
	for _, tc := range []struct {
		name string
		to   io.Writer
		want error
	}{{"pipe", out, nil}, {"file", out2, nil}, {"failure", failing{full}, full}} {
		stdin, client := io.Pipe()
		defer client.Close()
		go func() { _, _ = client.Write([]byte("hello\n")) }()
		err := Run(t.Context(), Config{Recorder: newRecorder(t), Command: []string{os.Args[0]}, Stdin: stdin, Stdout: tc.to})
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: Run = %v, want %v", tc.name, err, tc.want)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestTracker feeds the tracker exchanges that are hard to provoke over a wire.
func TestTracker(t *testing.T) {
	r := newRecorder(t)
	var reported []error
	tr := &tracker{rec: r, report: func(err error) { reported = append(reported, err) }, pending: map[callKey]*call{}}
	rule, err := ParseTxRule("*:hash=result/content/0/text/tx,chain=args/chain")
	if err != nil {
		t.Fatal(err)
	}
	tr.rules = []TxRule{rule}
	events := make(chan event, 64)
	client := func(body string) { events <- event{kind: fromClient, body: []byte(body), at: time.Now()} }
	serve := func(body string) { events <- event{kind: fromServer, body: []byte(body), at: time.Now()} }
	client(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"number","arguments":{"chain":"5","n":9007199254740993}}}`)
	client(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"text","arguments":{"chain":5}}}`)
	serve(`{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`)
	client(`{"jsonrpc":"2.0","id":7,"result":{}}`)
	serve(`{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"{\"tx\":\"sent as ` + paid + `.\"}"}]}}`)
	serve(`[{"jsonrpc":"2.0","id":1.0,"result":{"content":[{"type":"text","text":"no hash"}]}}]`)
	client(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late"}}`)
	client(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"tired"}}`)
	serve(`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"stopped"}}`)
	client(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"never","arguments":[1]}}`)
	close(events)
	tr.run(events)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seq, want := range []struct{ name, kind, status, part string }{
		{"text", "tx", "ok", paid[2:]},
		{"number", "tool", "ok", `"unrecordable":"UNSAFE_INTEGER`},
		{"late", "tool", "error", `"reason":"tired"`},
		{"late", "tool", "error", "stopped"},
		{"never", "tool", "error", errUnanswered.Error()},
	} {
		s, values, _ := step(t, r, uint64(seq))
		if s.Name != want.name || s.Kind != want.kind || s.Status != want.status || !strings.Contains(values["args"]+values["result"], want.part) {
			t.Errorf("step %d is %s %s %s %v; want %+v", seq, s.Name, s.Kind, s.Status, values, want)
		}
	}
	if len(reported) != 1 || !strings.Contains(reported[0].Error(), "no hash") {
		t.Errorf("reported %v, want that one result shows no hash", reported)
	}
}

// TestTrackerLosesNoCall uses an id again before its answer, and leaves more calls
// without one than may wait: each becomes a step.
func TestTrackerLosesNoCall(t *testing.T) {
	r := newRecorder(t)
	tr := &tracker{rec: r, report: func(err error) { t.Error(err) }, pending: map[callKey]*call{}}
	ask := func(id int) {
		tr.observe(event{kind: fromClient, at: time.UnixMilli(int64(1760000000000 + id)),
			body: fmt.Appendf(nil, `{"id":%d,"method":"tools/call","params":{"name":"call %d","arguments":{}}}`, id, id)})
	}
	ask(0)
	ask(0)
	for id := 1; id <= maxPending; id++ {
		ask(id)
	}
	if len(tr.pending) != maxPending {
		t.Errorf("%d calls wait, want %d", len(tr.pending), maxPending)
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, values, _ := step(t, r, 0); s.Status != "error" || !strings.Contains(values["result"], errIDReused.Error()) {
		t.Errorf("the first call of two with one id: %+v, %v", s, values)
	}
	if s, _, _ := step(t, r, 1); s.Name != "call 0" || s.Status != "error" {
		t.Errorf("the oldest of too many: %+v", s)
	}
}

func TestParseTxRule(t *testing.T) {
	for _, bad := range []string{
		"", "pay", "pay:", ":hash=result/x,chain=1", "pay:hash=result/x", "pay:chain=1", "pay:hash=result/x,chain=1,claim=mint",
		"pay:hash=result/x,chain=1,claim=native.transfer,to=args/to", "pay:hash=result/x,chain=1,colour=red",
		"pay:hash=result/x,chain=1,claim=erc20.transfer,to=args/to,amount=args/n",
	} {
		if r, err := ParseTxRule(bad); err == nil {
			t.Errorf("ParseTxRule(%q) = %+v", bad, r)
		}
	}
}

func TestSSE(t *testing.T) {
	const text = "event: message\r\ndata: {\"a\":1}\r\n\r\n: comment\ndata:{\ndata: }\n\nid: 4\rdata: last"
	for size := 1; size <= len(text); size++ {
		var got []string
		s := &sse{see: func(b []byte) { got = append(got, string(b)) }}
		for at := 0; at < len(text); at += size {
			s.write([]byte(text[at:min(at+size, len(text))]))
		}
		if len(s.line) > 0 {
			s.endLine()
		}
		s.end()
		if fmt.Sprint(got) != fmt.Sprint([]string{`{"a":1}`, "{\n}", "last"}) {
			t.Fatalf("in pieces of %d: %q", size, got)
		}
	}
}

// BenchmarkStdio less BenchmarkDirect, and BenchmarkHTTP less BenchmarkHTTPDirect,
// tell what the proxy adds to a call, in the mean and in the median (p50-us).
func BenchmarkStdio(b *testing.B) {
	b.Setenv(envServer, "tools")
	r := newRecorder(b)
	clientIn, proxyOut := io.Pipe()
	proxyIn, clientOut := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Run(b.Context(), Config{Recorder: r, Command: []string{os.Args[0]}, Stdin: proxyIn, Stdout: proxyOut})
		proxyOut.Close()
	}()
	benchCalls(b, &mcp.IOTransport{Reader: clientIn, Writer: clientOut})
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func BenchmarkDirect(b *testing.B) {
	b.Setenv(envServer, "tools")
	cmd := exec.Command(os.Args[0])
	benchCalls(b, &mcp.CommandTransport{Command: cmd})
}

func BenchmarkHTTP(b *testing.B) {
	r := newRecorder(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- Run(ctx, Config{Recorder: r, Upstream: benchUpstream(b), Listen: "127.0.0.1:0", Ready: func(a string) { ready <- a }})
	}()
	select {
	case addr := <-ready:
		benchCalls(b, &mcp.StreamableClientTransport{Endpoint: "http://" + addr})
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	case err := <-done:
		b.Fatal(err)
	}
}

func BenchmarkHTTPDirect(b *testing.B) {
	benchCalls(b, &mcp.StreamableClientTransport{Endpoint: benchUpstream(b)})
}

// benchUpstream serves the tools over HTTP and returns where.
func benchUpstream(b *testing.B) string {
	tools := server(nil)
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, nil))
	b.Cleanup(up.Close)
	return up.URL
}

func benchCalls(b *testing.B, transport mcp.Transport) {
	b.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(b.Context(), transport, nil)
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		from := time.Now()
		if _, err := cs.CallTool(b.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(from))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-us")
	if err := cs.Close(); err != nil {
		b.Fatal(err)
	}
}
