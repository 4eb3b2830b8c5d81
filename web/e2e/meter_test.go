package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A meter stands between a browser and a node and counts what passes, that of workers
// too. Each request has its answer's bytes as they were sent, and about what its
// headers take.
type meter struct {
	url string

	mu      sync.Mutex // guards the rest
	passed  []*transfer
	streams int // event streams that are open
	changed *sync.Cond
}

type transfer struct {
	path  string
	media string
	body  int // bytes, compressed where the node compressed
	head  int // bytes of the answer's header lines
}

func newMeter(t *testing.T, to string) *meter {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{}
	m.changed = sync.NewCond(&m.mu)
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: m.count,
		FlushInterval:  -1,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events/stream" {
			m.opened(1)
			defer m.opened(-1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

func (m *meter) opened(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.streams += n
	m.changed.Broadcast()
}

// wait waits until so many event streams are open.
func (m *meter) wait(t *testing.T, streams int) {
	t.Helper()
	late := time.AfterFunc(patience, m.changed.Broadcast)
	defer late.Stop()
	until := time.Now().Add(patience)
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.streams != streams {
		if !time.Now().Before(until) {
			t.Fatalf("%d event streams are open, want %d", m.streams, streams)
		}
		m.changed.Wait()
	}
}

// open is how many event streams are open, and how many there have been.
func (m *meter) open() (now, ever int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.passed {
		if p.path == "/events/stream" {
			ever++
		}
	}
	return m.streams, ever
}

func (m *meter) count(r *http.Response) error {
	p := &transfer{path: r.Request.URL.Path, media: r.Header.Get("Content-Type")}
	for name, lines := range r.Header {
		for _, line := range lines {
			p.head += len(name) + len(line) + len(": \r\n")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passed = append(m.passed, p)
	r.Body = &counted{r.Body, m, p}
	return nil
}

// counted adds what is read to its transfer.
type counted struct {
	io.ReadCloser
	m *meter
	p *transfer
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.p.body += n
	return n, err
}

// sum is what passed so far: requests, bytes in all, and bytes of bodies by media
// type.
func (m *meter) sum() (requests, bytes int, of map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of = map[string]int{}
	for _, p := range m.passed {
		media, _, _ := strings.Cut(p.media, ";")
		of[media] += p.body
		bytes += p.body + p.head
	}
	return len(m.passed), bytes, of
}

// list names what passed, for a test that fails.
func (m *meter) list() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, p := range m.passed {
		b.WriteString("\n" + p.path)
	}
	return b.String()
}
