package sidecar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"karatum/flight"
	"karatum/flight/recorder"
	"karatum/flight/recorder/internal/testnode"
)

func open(t *testing.T) (*recorder.Recorder, *testnode.Node) {
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
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r, node
}

// start runs a sidecar over HTTP and returns its address and token.
func start(t *testing.T, r *recorder.Recorder) (string, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	path := filepath.Join(t.TempDir(), "token")
	go func() {
		done <- Run(ctx, Config{Recorder: r, Listen: "127.0.0.1:0", TokenFile: path, Ready: func(a string) { ready <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	select {
	case addr := <-ready:
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("token file has mode %v, %v; want 0600", fi.Mode(), err)
		}
		return "http://" + addr, strings.TrimSpace(string(raw))
	case err := <-done:
		t.Fatalf("Run = %v", err)
		return "", ""
	}
}

func TestHTTP(t *testing.T) {
	r, node := open(t)
	base, token := start(t, r)
	const transfer = `{"kind":"tx","name":"pay","args":{"n":1},"claim":{"kind":"native.transfer","to":"0xABCDEF0000000000000000000000000000000001","value":"7"},
		"chainId":31337,"txHash":"0xAB00000000000000000000000000000000000000000000000000000000000000","at":1700000000000}`
	for name, c := range map[string]struct {
		method, path, body string
		header             map[string]string
		status             int
		want               string
	}{
		"step":          {"POST", "/steps", transfer, nil, 201, `"seq":0`},
		"no token":      {"POST", "/steps", transfer, map[string]string{"Authorization": ""}, 401, "UNAUTHORIZED"},
		"wrong token":   {"POST", "/steps", transfer, map[string]string{"Authorization": "Bearer x"}, 401, "UNAUTHORIZED"},
		"web page":      {"POST", "/steps", transfer, map[string]string{"Origin": "http://localhost"}, 403, "FORBIDDEN"},
		"rebound name":  {"POST", "/steps", transfer, map[string]string{"Host": "evil.example"}, 403, "FORBIDDEN"},
		"unknown key":   {"POST", "/steps", `{"kind":"note","reslut":1}`, nil, 400, "unknown key"},
		"unknown kind":  {"POST", "/steps", `{"kind":"noise"}`, nil, 400, "kind"},
		"duplicate key": {"POST", "/steps", `{"kind":"note","kind":"tool"}`, nil, 400, "DUPLICATE_KEY"},
		"large integer": {"POST", "/steps", `{"kind":"note","args":9007199254740993}`, nil, 400, "UNSAFE_INTEGER"},
		"bad claim":     {"POST", "/steps", `{"kind":"tx","claim":{"kind":"native.transfer","to":"bob","value":"1"}}`, nil, 400, "claim"},
		"half a tx":     {"POST", "/steps", `{"kind":"tx","chainId":1}`, nil, 400, "txHash"},
		"wrong method":  {"GET", "/steps", "", nil, 405, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		for k, v := range c.header {
			req.Header.Set(k, v)
			if k == "Host" {
				req.Host = v
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.status || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %d %s; want %d with %q", name, res.StatusCode, b.String(), c.status, c.want)
		}
	}
	post(t, base+"/flush", token)
	if len(node.Headers()) != 1 {
		t.Fatalf("the node holds %d batches, want 1", len(node.Headers()))
	}
	d, err := r.Disclose("main", 0, "claim")
	if err != nil {
		t.Fatal(err)
	}
	rep := d.Verify()
	if rep.Claim == nil || rep.Claim.To.String() != "0xabcdef0000000000000000000000000000000001" || *rep.Step.ChainID != 31337 || rep.Step.At != 1700000000000 {
		t.Errorf("recorded %+v with claim %+v", rep.Step, rep.Claim)
	}
}

func post(t *testing.T, url, token string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("POST %s: %d", url, res.StatusCode)
	}
}

func TestLines(t *testing.T) {
	r, _ := open(t)
	in := "{\"kind\":\"note\",\"result\":\"\\ud800\"}\n\nnot json\n{\"kind\":\"llm\",\"name\":\"m\",\"prompt\":null}"
	var out bytes.Buffer
	if err := Run(t.Context(), Config{Recorder: r, Lines: strings.NewReader(in), Answers: &out}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "1 of 3 lines") {
		t.Errorf("Run = %v, want one of three lines refused", err)
	}
	var got []reply
	for line := range strings.Lines(out.String()) {
		var a reply
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if len(got) != 3 || got[0].Seq == nil || got[1].Error == nil || got[1].Error.Code != "BAD_STEP" || got[2].Seq == nil || *got[2].Seq != 1 {
		t.Errorf("answers %s; want step 0, an error, step 1", out.String())
	}
	if s := r.Status(); s.Steps != 2 {
		t.Errorf("%d steps, want 2", s.Steps)
	}
}

// TestLineTooLong skips a line that is longer than any step: what follows is
// recorded.
func TestLineTooLong(t *testing.T) {
	r, _ := open(t)
	in := io.MultiReader(strings.NewReader(`{"kind":"note","args":"`), strings.NewReader(strings.Repeat("x", maxStepBytes)), strings.NewReader("\"}\n{\"kind\":\"note\"}\n"))
	var out bytes.Buffer
	if err := Run(t.Context(), Config{Recorder: r, Lines: in, Answers: &out}); !errors.Is(err, ErrRefused) {
		t.Errorf("Run = %v, want a line refused", err)
	}
	if got := strings.Split(strings.TrimSpace(out.String()), "\n"); len(got) != 2 || !strings.Contains(got[0], "BAD_STEP") || !strings.Contains(got[1], `"seq":0`) {
		t.Errorf("answers %s", out.String())
	}
}

// deaf is a reader of answers that went away.
type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestNobodyReadsAnswers records what comes after the first answer that could not
// be written, too.
func TestNobodyReadsAnswers(t *testing.T) {
	r, _ := open(t)
	err := Run(t.Context(), Config{Recorder: r, Lines: strings.NewReader(strings.Repeat("{\"kind\":\"note\"}\n", 3)), Answers: deaf{}})
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Run = %v, want that it says so", err)
	}
	if s := r.Status(); s.Steps != 3 {
		t.Errorf("%d steps, want 3", s.Steps)
	}
}

func TestNotLoopback(t *testing.T) {
	r, _ := open(t)
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:80"} {
		err := Run(t.Context(), Config{Recorder: r, Listen: addr, TokenFile: filepath.Join(t.TempDir(), "token")})
		if !errors.Is(err, ErrNotLoopback) {
			t.Errorf("listen on %s: %v, want ErrNotLoopback", addr, err)
		}
	}
}

// silence is a reader that neither ends nor can be closed.
type silence struct{ asked chan struct{} }

func (s silence) Read([]byte) (int, error) {
	s.asked <- struct{}{}
	select {}
}

func TestLinesEndWithContext(t *testing.T) {
	r, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := silence{make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- Run(ctx, Config{Recorder: r, Lines: in}) }()
	<-in.asked
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}
