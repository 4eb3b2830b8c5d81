package mcpproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const sessionHeader = "Mcp-Session-Id"

// runHTTP serves the client on a loopback address and forwards to the upstream.
// The path / stands for the upstream's own; other paths go to the same host, for
// the discovery of authorisation servers.
func runHTTP(ctx context.Context, cfg *Config, events chan<- event) error {
	up, err := url.Parse(cfg.Upstream)
	if err != nil || up.Scheme != "http" && up.Scheme != "https" || up.Host == "" {
		return fmt.Errorf("mcpproxy: upstream %q is not http(s)://host/path", cfg.Upstream)
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil || !loopback(host) {
		return fmt.Errorf("mcpproxy: listen address %q is not on the loopback interface", cfg.Listen)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return err
	}
	p := &httpProxy{gate: &gate{out: events}, report: cfg.OnError}
	// Streams live as long as a session does, so there is no write timeout.
	srv := &http.Server{Handler: p.handler(up), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	if cfg.Ready != nil {
		cfg.Ready(l.Addr().String())
	}
	select {
	case err = <-served:
	case <-ctx.Done():
		err = srv.Close()
		<-served
	}
	p.bodies.Wait()
	p.gate.close()
	return err
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type httpProxy struct {
	gate   *gate
	report func(error)
	scopes atomic.Uint64
	bodies sync.WaitGroup // answers that are being forwarded
}

func (p *httpProxy) send(e event) {
	e.at = time.Now()
	p.gate.pass(e)
}

type scopeKey struct{}

func (p *httpProxy) handler(up *url.URL) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // a compressed answer could not be read on the way
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // server-sent events go on at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = up.Scheme, up.Host, up.Host
			if r.In.URL.Path == "/" {
				r.Out.URL.Path, r.Out.URL.RawPath = up.Path, up.RawPath
			}
			if up.RawQuery != "" && r.Out.URL.RawQuery == "" {
				r.Out.URL.RawQuery = up.RawQuery
			}
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: p.answer,
		ErrorHandler:   p.failed,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.bodies.Add(1)
		defer p.bodies.Done()
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !loopback(host) || !localOrigin(r.Header.Get("Origin")) {
			http.Error(w, "the proxy serves this machine only", http.StatusForbidden)
			return
		}
		scope, err := p.request(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		defer p.send(event{kind: ended, scope: scope, session: r.Header.Get(sessionHeader)})
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), scopeKey{}, scope)))
	})
}

// localOrigin reports whether a request's Origin, if it has one, is this machine's.
func localOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && loopback(u.Hostname())
}

// request shows the tracker a client's messages before they are forwarded.
func (p *httpProxy) request(r *http.Request) (string, error) {
	scope := "post " + strconv.FormatUint(p.scopes.Add(1), 10)
	if r.Method != http.MethodPost || r.Body == nil {
		return scope, nil
	}
	var seen bytes.Buffer
	_, err := io.Copy(&seen, io.LimitReader(r.Body, maxMessage+1))
	if err != nil {
		return scope, err
	}
	if seen.Len() <= maxMessage {
		p.send(event{kind: fromClient, scope: scope, session: r.Header.Get(sessionHeader), body: seen.Bytes()})
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(seen.Bytes()), r.Body), r.Body}
	return scope, nil
}

// answer wraps the body of an answer so that its messages are seen as they pass.
func (p *httpProxy) answer(res *http.Response) error {
	r := res.Request
	scope, _ := r.Context().Value(scopeKey{}).(string)
	session := r.Header.Get(sessionHeader)
	if r.Method == http.MethodDelete && res.StatusCode < 300 && session != "" {
		p.send(event{kind: gone, session: session})
	}
	see := func(body []byte) { p.send(event{kind: fromServer, scope: scope, session: session, body: body}) }
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		res.Body = &watched{ReadCloser: res.Body, w: &whole{see: see}}
	case "text/event-stream":
		res.Body = &watched{ReadCloser: res.Body, w: &sse{see: see}}
	}
	return nil
}

func (p *httpProxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if p.report != nil && !errors.Is(err, context.Canceled) {
		p.report(fmt.Errorf("mcpproxy: %s: %w", r.Method, err))
	}
	w.WriteHeader(http.StatusBadGateway)
}

// A watcher reads along. end is called once, at the body's end.
type watcher interface {
	write([]byte)
	end()
}

// watched is a body that a watcher reads along.
type watched struct {
	io.ReadCloser
	w    watcher
	over bool
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.w.write(p[:n])
	if errors.Is(err, io.EOF) && !b.over {
		b.over = true
		b.w.end()
	}
	return n, err
}

// Close ends the watching too: a client may leave once it has what it wanted.
func (b *watched) Close() error {
	if !b.over {
		b.over = true
		b.w.end()
	}
	return b.ReadCloser.Close()
}

// whole sees a body that is one message.
type whole struct {
	see func([]byte)
	buf []byte
}

func (w *whole) write(p []byte) {
	if len(w.buf) <= maxMessage {
		w.buf = append(w.buf, p...)
	}
}

func (w *whole) end() {
	if len(w.buf) <= maxMessage {
		w.see(w.buf)
	}
}

// sse sees the data of server-sent events.
type sse struct {
	see  func([]byte)
	line []byte
	data []byte
	cr   bool // the last byte was a carriage return
}

func (s *sse) write(p []byte) {
	for len(p) > 0 {
		if s.cr && p[0] == '\n' {
			s.cr, p = false, p[1:]
			continue
		}
		s.cr = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			s.grow(p)
			return
		}
		s.grow(p[:end])
		s.endLine()
		s.cr, p = p[end] == '\r', p[end+1:]
	}
}

func (s *sse) grow(p []byte) {
	if len(s.line)+len(s.data) <= maxMessage {
		s.line = append(s.line, p...)
	}
}

// endLine takes a line: data is collected, an empty line ends the event.
func (s *sse) endLine() {
	if len(s.line) == 0 {
		s.end()
		return
	}
	if data, ok := bytes.CutPrefix(s.line, []byte("data:")); ok {
		if s.data != nil {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, bytes.TrimPrefix(data, []byte(" "))...)
	}
	s.line = s.line[:0]
}

func (s *sse) end() {
	if len(s.data) > 0 && len(s.data) <= maxMessage {
		s.see(s.data)
	}
	s.data, s.line = nil, nil
}
