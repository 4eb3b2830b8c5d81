package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"karatum/app"
)

const bulkHead = "POST /v1/flight/batches/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"

// Large bodies have largeSlots places in memory; one more upload is told to wait,
// and a place is free again when an upload ends, well or not.
func TestLargeUploadsAreBounded(t *testing.T) {
	node := echoNode()
	entered, leave := make(chan struct{}), make(chan struct{})
	inner := node.bulk
	node.bulk = func(ctx context.Context, lines [][]byte) []app.BulkAnswer {
		entered <- struct{}{}
		<-leave
		return inner(ctx, lines)
	}
	addr := start(t, node, Config{})
	one := bulkHead + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" // of no known length, so it may be large
	conns := make([]net.Conn, largeSlots)
	for i := range conns {
		conns[i] = dialRaw(t, addr)
		if _, err := io.WriteString(conns[i], one); err != nil {
			t.Fatal(err)
		}
		<-entered
	}
	r := exchange(t, addr, one)
	if code := errorOf(t, r); r.StatusCode != http.StatusServiceUnavailable || code != "BUSY" || r.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, code %s", r.StatusCode, code)
	}
	for _, small := range []string{postHead, "POST /v1/flight/proofs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"} {
		if r := exchange(t, addr, small+"Content-Length: 2\r\n\r\n{}"); r.StatusCode >= 300 {
			t.Errorf("a small body meanwhile: status %d", r.StatusCode)
		}
	}
	close(leave)
	for _, c := range conns { // an answer is written after the place is given back
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Fatalf("a body that had its place: %v, %v", r, err)
		}
	}
	for range 2 * largeSlots { // refused ones must not keep their place
		if r := exchange(t, addr, bulkHead+"Content-Length: 9000000\r\n\r\n"); r.StatusCode != 413 {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	go func() { <-entered }()
	if r := exchange(t, addr, one); r.StatusCode != 200 {
		t.Errorf("afterwards: status %d", r.StatusCode)
	}
}

// One client's uploads leave places for others: here they are told apart by what the
// proxy before them says.
func TestLargeUploadsOfOneClient(t *testing.T) {
	node := echoNode()
	entered, leave := make(chan struct{}), make(chan struct{})
	inner := node.bulk
	node.bulk = func(ctx context.Context, lines [][]byte) []app.BulkAnswer {
		entered <- struct{}{}
		<-leave
		return inner(ctx, lines)
	}
	addr := start(t, node, Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	upload := func(client string) net.Conn {
		c := dialRaw(t, addr)
		_, err := fmt.Fprintf(c, "%sX-Forwarded-For: %s\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", bulkHead, client)
		check(t, err)
		return c
	}
	status := func(c net.Conn) int {
		t.Helper()
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		check(t, err)
		return r.StatusCode
	}
	var conns []net.Conn
	for range largeEach {
		conns = append(conns, upload("192.0.2.1"))
		<-entered
	}
	if got := status(upload("192.0.2.1")); got != http.StatusServiceUnavailable {
		t.Errorf("one more of the same client: status %d", got)
	}
	conns = append(conns, upload("192.0.2.2"))
	<-entered
	close(leave)
	for _, c := range conns {
		if got := status(c); got != http.StatusOK {
			t.Errorf("an upload with a place: status %d", got)
		}
	}
}

func TestBulkLines(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	send := func(body string) (int, []string) {
		t.Helper()
		r := exchange(t, addr, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", bulkHead, len(body), body))
		got, err := io.ReadAll(r.Body)
		check(t, err)
		return r.StatusCode, strings.Split(strings.TrimSuffix(string(got), "\n"), "\n")
	}
	status, lines := send(strings.Repeat("{}\n", maxLines))
	if status != 200 || len(lines) != maxLines {
		t.Errorf("the most lines: status %d, %d answers", status, len(lines))
	}
	if status, lines := send(strings.Repeat("{}\n", maxLines+1)); status != 400 || !strings.Contains(lines[0], "BAD_REQUEST") {
		t.Errorf("a line too many: status %d", status)
	}
	status, lines = send("{\"a\":1}\r\n\n \t\n{}")
	if status != 200 || len(lines) != 2 || !strings.Contains(lines[0], `"position":7`) || !strings.Contains(lines[1], `"position":2`) {
		t.Errorf("line ends: status %d, %q", status, lines)
	}
}

// Errors of a bulk line that say nothing to the outside are INTERNAL there.
func TestBulkLineErrors(t *testing.T) {
	node := echoNode()
	node.bulk = func(context.Context, [][]byte) []app.BulkAnswer {
		return []app.BulkAnswer{{Err: fmt.Errorf("secret: %w", io.ErrUnexpectedEOF)}, {Line: 1, Err: app.ErrDiskFull}}
	}
	addr := start(t, node, Config{})
	r := exchange(t, addr, bulkHead+"Content-Length: 5\r\n\r\n{}\n{}")
	got, err := io.ReadAll(r.Body)
	check(t, err)
	if s := string(got); strings.Contains(s, "secret") || !strings.Contains(s, `"INTERNAL"`) || !strings.Contains(s, `"DISK_FULL"`) {
		t.Errorf("answers %s", s)
	}
}

func TestFilesAreCached(t *testing.T) {
	addr := start(t, echoNode(), Config{SDK: sdkFiles()})
	r := exchange(t, addr, "GET /sdk/karatum-flight.mjs HTTP/1.1\r\nHost: x\r\n\r\n")
	tag := r.Header.Get("ETag")
	if r.StatusCode != 200 || tag == "" || r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Fatalf("status %d, tag %q, type %q", r.StatusCode, tag, r.Header.Get("Content-Type"))
	}
	for _, c := range []struct {
		have string
		want int
	}{{tag, 304}, {"W/" + tag, 304}, {`"other", ` + tag, 304}, {"*", 304}, {`"other"`, 200}, {strings.Trim(tag, `"`), 200}} {
		if r := exchange(t, addr, "GET /sdk/karatum-flight.mjs HTTP/1.1\r\nHost: x\r\nIf-None-Match: "+c.have+"\r\n\r\n"); r.StatusCode != c.want {
			t.Errorf("If-None-Match %s: status %d, want %d", c.have, r.StatusCode, c.want)
		}
	}
}

func TestReady(t *testing.T) {
	node := echoNode()
	addr := start(t, node, Config{})
	if r := exchange(t, addr, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 {
		t.Errorf("status %d", r.StatusCode)
	}
	node.ready = fmt.Errorf("dial http://user:secret@rpc: %w", io.EOF)
	r := exchange(t, addr, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
	body, err := io.ReadAll(r.Body)
	check(t, err)
	if r.StatusCode != 503 || strings.Contains(string(body), "secret") || r.Header.Get("Retry-After") == "" {
		t.Errorf("status %d: %s", r.StatusCode, body)
	}
}
