package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"karatum/app"
	"karatum/flight"
	"karatum/web/pages"
)

// eventNode is a node that has nothing but events.
func eventNode() *stub {
	n := echoNode()
	n.events = app.NewEvents(time.UnixMicro(1000))
	return n
}

// A follower reads one event stream.
type follower struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
	res  *http.Response
}

func follow(t *testing.T, addr, path string, header ...string) *follower {
	t.Helper()
	conn := dialRaw(t, addr)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, strings.Join(header, ""))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(t, err)
	f := &follower{t: t, conn: conn, res: res, r: bufio.NewReader(res.Body)}
	if res.StatusCode == 200 {
		f.until(": connected")
	}
	return f
}

// until reads lines up to one with the prefix and returns it.
func (f *follower) until(prefix string) string {
	f.t.Helper()
	for {
		line, err := f.r.ReadString('\n')
		if err != nil {
			f.t.Fatalf("no %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return strings.TrimSpace(strings.TrimPrefix(line, prefix))
		}
	}
}

func (f *follower) next() (id string, row pages.FeedRow) {
	f.t.Helper()
	id = f.until("id: ")
	check(f.t, json.Unmarshal([]byte(f.until("data: ")), &row))
	return id, row
}

func TestStreamOfEvents(t *testing.T) {
	node := eventNode()
	addr := start(t, node, Config{})
	f := follow(t, addr, "/events/stream?topics=records")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no", "Content-Encoding": "",
	} {
		if got := f.res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	node.events.Publish(app.Event{Kind: app.EventEpoch, Epoch: 3, State: "included"},
		app.Event{Kind: app.EventBatch, Stream: "\u202epay", Index: 7, FromSeq: 2, ToSeq: 5, Agent: flight.Address{1}})
	id, row := f.next()
	if id != "1001" || row.Seq != 1001 || row.Kind != "batch" || row.What != "\u2068\\u{202e}pay\u2069 batch 7" || row.Tail != ", 4 steps" {
		t.Errorf("id %s, row %+v", id, row)
	}
}

// TestStreamResumes: a reader that comes back gets what it has missed, once.
func TestStreamResumes(t *testing.T) {
	node := eventNode()
	addr := start(t, node, Config{})
	for i := range 5 {
		node.events.Publish(app.Event{Kind: app.EventBatch, Index: uint64(i)})
	}
	for _, tt := range []struct {
		path, header string
		first        string
	}{
		{"/events/stream", "Last-Event-ID: 1001\r\n", "1002"},
		{"/events/stream?since=1002", "", "1003"},
		{"/events/stream?since=1000", "Last-Event-ID: 1003\r\n", "1004"},
		{"/events/stream?since=999", "", "1000"}, // all that there is
	} {
		f := follow(t, addr, tt.path, tt.header)
		if id, _ := f.next(); id != tt.first {
			t.Errorf("%s %s begins at %s, want %s", tt.path, tt.header, id, tt.first)
		}
	}
	for _, since := range []string{"5", "998", "1005", "9007199254740991"} { // of an earlier start, or of none
		f := follow(t, addr, "/events/stream?since="+since)
		f.until("event: reload")
		if got := f.until("data: "); got != `{"last":1004}` {
			t.Errorf("since %s: reload with %s", since, got)
		}
	}
	late := follow(t, addr, "/events/stream", "Last-Event-ID: 5\r\n")
	late.until("event: reload")
	late.until("data: ")
	for range 2000 {
		node.events.Publish(app.Event{Kind: app.EventBatch})
	}
	if id, _ := late.next(); id < "1005" || id > "2905" { // and goes on with what comes
		t.Errorf("after a reload the stream goes on with %s", id)
	}
	f := follow(t, addr, "/events/stream?since=1004")
	if got := f.until("data: "); got != `{"missed":1900}` {
		t.Errorf("missed: %s", got)
	}
	if id, _ := f.next(); id != "2905" {
		t.Errorf("the newest begin at %s", id)
	}
	for _, bad := range []string{"topics=all", "since=-1", "since=x", "topics=records,"} {
		if r := exchange(t, addr, "GET /events/stream?"+bad+" HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 400 {
			t.Errorf("%s: status %d", bad, r.StatusCode)
		}
	}
	if r := exchange(t, addr, "HEAD /events/stream HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 {
		t.Errorf("HEAD: status %d", r.StatusCode)
	}
}

// TestStreamsLeaveNothing opens 1,000 streams, closes them, and waits for their
// goroutines to end; then it stops a server that still has readers.
func TestStreamsLeaveNothing(t *testing.T) {
	node := eventNode()
	addr, stop := startStoppable(t, node, Config{})
	conns := make([]*follower, 1000)
	for i := range conns {
		conns[i] = follow(t, addr, "/events/stream")
	}
	node.events.Publish(app.Event{Kind: app.EventBatch})
	for _, f := range conns {
		f.until("id: 1000")
	}
	for _, f := range conns {
		f.conn.Close()
	}
	// fasthttp keeps idle workers for a while, so what is counted is our own.
	for readersLeft(t) > 0 { // or the test's time is up
		runtime.Gosched()
	}
	last := follow(t, addr, "/events/stream")
	check(t, stop())
	if _, err := io.ReadAll(last.r); err != nil && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the reader sees %v", err)
	}
}

// readersLeft counts the goroutines of streams.
func readersLeft(t *testing.T) int {
	var b strings.Builder
	check(t, pprof.Lookup("goroutine").WriteTo(&b, 2))
	return strings.Count(b.String(), "web.(*reader).")
}

func TestStreamsAreBounded(t *testing.T) {
	addr := start(t, eventNode(), Config{MaxConns: 4})
	follow(t, addr, "/events/stream")
	follow(t, addr, "/events/stream")
	if r := exchange(t, addr, "GET /events/stream HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 503 || r.Header.Get("Retry-After") != "10" {
		t.Errorf("status %d", r.StatusCode)
	}
	if r := exchange(t, addr, "GET /agents HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 {
		t.Errorf("a page meanwhile: status %d", r.StatusCode)
	}
}
