package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"karatum/app"
)

// dialRaw opens a raw connection that gives up after minutes, so that a test which
// hangs says where.
func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// errorOf reads the body as the one error shape and returns its code.
func errorOf(t testing.TB, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Error struct {
			Code    string          `json:"code"`
			Message string          `json:"message"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Error.Code == "" || e.Error.Message == "" || len(e.Error.Details) == 0 || e.Error.Details[0] != '{' {
		t.Fatalf("status %d: body %q is not of the error shape (%v)", r.StatusCode, body, err)
	}
	if _, ok := codes[e.Error.Code]; !ok {
		t.Errorf("code %s is not in the table of codes", e.Error.Code)
	}
	return e.Error.Code
}

// exchange sends raw bytes and returns the first response.
func exchange(t testing.TB, addr, raw string) *http.Response {
	t.Helper()
	c := dialRaw(t, addr)
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.200q: %v", raw, err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

const postHead = "POST /v1/flight/batches HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

func TestRawRequests(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	for _, tt := range []struct {
		name, raw string
		status    int
		code      string
	}{
		{"good", postHead + "Content-Length: 2\r\n\r\n{}", 201, ""},
		{"good chunked", postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", 201, ""},
		{"expect", postHead + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}", 100, ""},
		{"two lengths", postHead + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400, "BAD_HTTP"},
		{"two different lengths", postHead + "Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}", 400, "BAD_HTTP"},
		{"length and chunked", postHead + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "BAD_HTTP"},
		{"signed length", postHead + "Content-Length: +2\r\n\r\n{}", 400, "BAD_HTTP"},
		{"list of lengths", postHead + "Content-Length: 2, 2\r\n\r\n{}", 400, "BAD_HTTP"},
		{"unknown coding", postHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "BAD_HTTP"},
		{"near chunked", postHead + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "BAD_HTTP"},
		{"space before colon", "GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", 400, "BAD_HTTP"},
		{"folded header", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400, "BAD_HTTP"},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, "BAD_HTTP"},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", 400, "BAD_HTTP"},
		{"NUL in a header", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n", 400, "BAD_HTTP"},
		{"bare CR in a header", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\rEvil: c\r\n\r\n", 400, "BAD_HTTP"},
		{"NUL in the path", "GET /heal\x00thz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "BAD_HTTP"},
		{"absolute target", "GET http://evil/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "BAD_HTTP"},
		{"double slash target", "GET //evil/healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400, "BAD_HTTP"},
		{"fragment", "GET /healthz#x HTTP/1.1\r\nHost: x\r\n\r\n", 400, "BAD_HTTP"},
		{"http 2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "BAD_HTTP"},
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, "BAD_HTTP"},
		{"unknown method", "BREW /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 501, "METHOD_NOT_ALLOWED"},
		{"wrong method", "PUT /v1/flight/batches HTTP/1.1\r\nHost: x\r\n\r\n", 405, "METHOD_NOT_ALLOWED"},
		{"unknown path", "GET /v1/nope HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
		{"traversal", "GET /sdk/../metrics HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
		{"encoded traversal", "GET /sdk/..%2f..%2fserver.go HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
		{"source file", "GET /static/../files.go HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
		{"no type", "POST /v1/flight/batches HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"form type", "POST /v1/flight/batches HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"multipart", "POST /v1/flight/batches HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=a\r\nContent-Length: 5\r\n\r\n--a--", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"compressed", postHead + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"json on the bulk route", "POST /v1/flight/batches/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"long headers", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 9<<10) + "\r\n\r\n", 431, "HEADERS_TOO_LARGE"},
		{"long path", "GET /" + strings.Repeat("a", 9<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, "HEADERS_TOO_LARGE"},
		{"16 KiB", postHead + "Content-Length: 16384\r\n\r\n" + strings.Repeat(" ", 16384), 201, ""},
		{"16 KiB and a byte", postHead + "Content-Length: 16385\r\n\r\n" + strings.Repeat(" ", 16385), 413, "BODY_TOO_LARGE"},
		{"4 MiB, read by who has sent it", postHead + "Content-Length: 4194304\r\n\r\n" + strings.Repeat(" ", 4<<20), 413, "BODY_TOO_LARGE"},
		{"length of a gigabyte, no body", postHead + "Content-Length: 1073741824\r\n\r\n", 413, "BODY_TOO_LARGE"},
		{"gigabyte that waits for 100", postHead + "Content-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n", 413, "BODY_TOO_LARGE"},
		{"length beyond int64", postHead + "Content-Length: 99999999999999999999\r\n\r\n", 400, "BAD_HTTP"},
		{"16 KiB and a byte in chunks", postHead + "Transfer-Encoding: chunked\r\n\r\n4001\r\n" + strings.Repeat(" ", 16385) + "\r\n0\r\n\r\n", 413, "BODY_TOO_LARGE"},
		{"chunk size of no number", postHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400, "BAD_HTTP"},
		{"chunk longer than its size", postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", 400, "BAD_HTTP"},
		{"huge chunk size", postHead + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400, "BAD_HTTP"},
		{"8 MiB and a byte of lines", "POST /v1/flight/batches/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 8388609\r\n\r\n", 413, "BODY_TOO_LARGE"},
		{"5 MiB and a byte of proof", "POST /v1/flight/proofs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5242881\r\n\r\n", 413, "BODY_TOO_LARGE"},
		{"no lines", "POST /v1/flight/batches/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: 2\r\n\r\n\n\n", 400, "BAD_REQUEST"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := exchange(t, addr, tt.raw)
			if r.StatusCode != tt.status {
				body, _ := io.ReadAll(r.Body)
				t.Fatalf("status %d, want %d: %s", r.StatusCode, tt.status, body)
			}
			if tt.code != "" {
				if got := errorOf(t, r); got != tt.code {
					t.Errorf("code %s, want %s", got, tt.code)
				}
			}
			if got := r.Header.Get("Server"); got != "" {
				t.Errorf("banner %q", got)
			}
		})
	}
}

// A request whose body is refused must not leave the rest of the body to be read
// as the next request.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	smuggled := "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, head := range map[string]string{
		"unknown path":   "POST /v1/nope HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
		"wrong type":     "POST /v1/flight/batches HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
		"body of a GET":  "GET /v1/flight/agents HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
		"body of a HEAD": "HEAD /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
		"chunked GET":    "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nX-Len: %d\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, addr)
			body := strings.Repeat(" ", 12<<10) + smuggled
			if _, err := fmt.Fprintf(c, head+"%s", len(body), body); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(c)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 {
				t.Errorf("%d responses, want 1: %.300q", n, all)
			}
		})
	}
}

func TestPipelinedRequestsEachGetTheirBody(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	c := dialRaw(t, addr)
	one := postHead + "Content-Length: 9\r\n\r\n{\"a\": 10}"
	two := postHead + "Content-Length: 2\r\n\r\n{}"
	three := "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	four := postHead + "Transfer-Encoding: chunked\r\n\r\n3\r\n{  \r\n2\r\n }\r\n0\r\n\r\n"
	if _, err := io.WriteString(c, one+two+three+four); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	for i, want := range []string{`"position":9`, `"position":2`, "ok", `"position":5`} {
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("response %d: %v", i, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), want) || r.Close != (i == 3) {
			t.Errorf("response %d = %q, close %v, want %s (%v)", i, body, r.Close, want, err)
		}
	}
}

// What follows a body in chunks is never read as a request, for others may see its end
// elsewhere.
func TestNothingFollowsChunks(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	for _, chunks := range []string{"2\r\n{}\r\n0\r\n\r\n", "0x2\r\n\r\n", "0 zz\r\n\r\n", "2;a\nb\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\n\n"} {
		c := dialRaw(t, addr)
		if _, err := io.WriteString(c, postHead+"Transfer-Encoding: chunked\r\n\r\n"+chunks+"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 {
			t.Errorf("%q: %d responses, want 1: %.300q", chunks, n, all)
		}
	}
}

// A body that the client cuts short is refused, wherever it is cut.
func TestCutBody(t *testing.T) {
	calls := 0
	node := echoNode()
	inner := node.ingest
	node.ingest = func(ctx context.Context, b []byte) (app.IngestAnswer, error) { calls++; return inner(ctx, b) }
	addr := start(t, node, Config{})
	for _, whole := range []string{
		postHead + "Content-Length: 2\r\n\r\n{}",
		postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
	} {
		for n := strings.Index(whole, "\r\n\r\n") + 4; n < len(whole); n++ {
			c := dialRaw(t, addr)
			if _, err := io.WriteString(c, whole[:n]); err != nil {
				t.Fatal(err)
			}
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
				continue // closed without a word
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.StatusCode != http.StatusBadRequest {
				t.Errorf("cut at %d of %q: status %d", n, whole, r.StatusCode)
			}
		}
	}
	if calls != 0 {
		t.Errorf("%d cut bodies reached the node", calls)
	}
}

// A gigabyte in chunks is cut off after the route's limit, and nothing near a
// gigabyte is ever held.
func TestGigabyteInChunks(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	for path, limit := range map[string]int{"/v1/flight/batches": smallBody, "/v1/flight/proofs": proofBody} {
		c := dialRaw(t, addr)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", path)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		chunk := []byte("10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n")
		status := make(chan int, 1)
		go func() {
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				status <- 0
				return
			}
			status <- r.StatusCode
		}()
		sent := 0
		for sent < 1<<30 {
			n, err := c.Write(chunk)
			sent += n
			if err != nil {
				break
			}
		}
		if got := <-status; got != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d, want 413", path, got)
		}
		runtime.ReadMemStats(&after)
		if most := limit + lingerBytes + 32<<20; sent > most {
			t.Errorf("%s: took %d bytes, want at most %d", path, sent, most)
		}
		// TotalAlloc is of the whole process: dev chains of earlier tests that close and
		// assets that are compressed beside take up to 80 MB of it. Holding what was
		// offered would take a gigabyte.
		if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(4*limit+256<<20) {
			t.Errorf("%s: allocated %d bytes", path, grown)
		}
	}
}

// Slow headers, slow bodies and silence all end with the read timeout.
func TestSlowClients(t *testing.T) {
	addr := start(t, echoNode(), Config{ReadTimeout: 200 * time.Millisecond, IdleTimeout: 200 * time.Millisecond})
	for name, raw := range map[string]string{
		"silence":       "",
		"half a header": "GET /healthz HTTP/1.1\r\nHost:",
		"half a body":   postHead + "Content-Length: 10\r\n\r\n{",
		"half a chunk":  postHead + "Transfer-Encoding: chunked\r\n\r\n5\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, addr)
			if _, err := io.WriteString(c, raw); err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(c)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the connection was kept")
			}
			if len(all) > 0 && !strings.HasPrefix(string(all), "HTTP/1.1 408") {
				t.Errorf("answer %q", all)
			}
		})
	}
}

func TestPanicCostsOneRequest(t *testing.T) {
	node := echoNode()
	node.ingest = func(context.Context, []byte) (app.IngestAnswer, error) { panic("boom") }
	addr := start(t, node, Config{})
	r := exchange(t, addr, postHead+"Content-Length: 2\r\n\r\n{}")
	if code := errorOf(t, r); r.StatusCode != 500 || code != "INTERNAL" || r.Header.Get("X-Request-Id") == "" {
		t.Errorf("status %d, code %s, id %q", r.StatusCode, code, r.Header.Get("X-Request-Id"))
	}
	if r := exchange(t, addr, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 {
		t.Errorf("after the panic: status %d", r.StatusCode)
	}
}

func TestUnknownErrorsStayInside(t *testing.T) {
	node := echoNode()
	node.ingest = func(context.Context, []byte) (app.IngestAnswer, error) {
		return app.IngestAnswer{}, errors.New("open /secret/path: permission denied")
	}
	addr := start(t, node, Config{})
	r := exchange(t, addr, postHead+"Content-Length: 2\r\n\r\n{}")
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 500 || strings.Contains(string(body), "secret") {
		t.Errorf("status %d, body %s, %v", r.StatusCode, body, err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	addr := start(t, echoNode(), Config{MaxConns: 3})
	var conns []net.Conn
	for range 3 {
		c := dialRaw(t, addr)
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Fatal(r, err)
		}
		conns = append(conns, c)
	}
	c := dialRaw(t, addr)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if code := errorOf(t, r); r.StatusCode != 503 || code != "BUSY" || r.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, code %s", r.StatusCode, code)
	}
	for _, c := range conns {
		c.Close()
	}
}

// Stopping finishes what is under way and takes no new connections.
func TestStopFinishesRequests(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	node := echoNode()
	node.ingest = func(ctx context.Context, b []byte) (app.IngestAnswer, error) {
		close(entered)
		<-leave
		return app.IngestAnswer{Receipt: flightReceipt(7)}, ctx.Err()
	}
	addr, stop := startStoppable(t, node, Config{})
	c := dialRaw(t, addr)
	if _, err := io.WriteString(c, postHead+"Content-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	waitRefused(t, addr)
	close(leave)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 201 {
		t.Fatalf("the request under way: %v, %v", r, err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// A request that will not end is cut, its context cancelled first.
func TestStopCutsWhatHangs(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan struct{})
	node := echoNode()
	node.ingest = func(ctx context.Context, b []byte) (app.IngestAnswer, error) {
		close(entered)
		<-ctx.Done()
		close(cancelled)
		return app.IngestAnswer{}, ctx.Err()
	}
	addr, stop := startStoppable(t, node, Config{RequestTimeout: time.Hour})
	c := dialRaw(t, addr)
	if _, err := io.WriteString(c, postHead+"Content-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	<-cancelled
}

// waitRefused returns once nobody listens on addr any more.
func waitRefused(t *testing.T, addr string) {
	t.Helper()
	for {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		c.Close()
		if t.Context().Err() != nil {
			t.Fatal("still listening")
		}
	}
}
