package web

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"karatum/app"
	"karatum/web/pages"
	"karatum/web/verifier"
)

// Bounds of one request and of stopping.
const (
	headerBytes    = 8 << 10
	shutdownGrace  = 4 * time.Second
	defaultMaxOpen = 2048
	spareWorkers   = 256 // the listener gives a place back a little before fasthttp does

	operatorTimeout = 2 * time.Minute
)

// plainPath are the characters of a base path: those that nobody escapes, of which a
// route means no other.
const plainPath = "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

// Config is how a server behaves. The zero value of each field is a safe default
// unless it says otherwise.
type Config struct {
	// BasePath is the prefix under which a proxy serves the node, such as
	// "/karatum"; empty for none.
	BasePath string
	// Hosts are further names under which the operator reaches admin routes, with
	// or without a port. Loopback, localhost and the address that the connection
	// was made to always work.
	Hosts []string
	// IPRate is tokens a minute of one client address, IPBurst how many may be
	// spent at once. A rate of 0 switches the limit off. A batch, a line of a bulk,
	// 64 KiB of a proof and an admin request cost one; reads have a bucket of their
	// own, ten times as large, of which 128 KiB of an answer cost one.
	IPRate, IPBurst int
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// MaxConns bounds open connections. Defaults to 2048.
	MaxConns int
	// ReadTimeout bounds headers and small bodies, from the first byte; defaults to
	// 10s. UploadTimeout bounds large bodies; defaults to 60s. WriteTimeout bounds
	// writing an answer; defaults to 30s. IdleTimeout bounds the wait for the next
	// request; defaults to 60s. RequestTimeout is the deadline of the context that
	// the node gets, give or take a second; defaults to 15s.
	ReadTimeout, UploadTimeout, WriteTimeout, IdleTimeout, RequestTimeout time.Duration
	// SDK is served under /sdk/, Vectors under /testvectors/. Both are read once,
	// by New; nil serves nothing there.
	SDK, Vectors fs.FS
	// Log takes what must not be shown outside. Defaults to slog.Default().
	Log *slog.Logger
	// Now is the clock of the limits and of ages on pages. Defaults to time.Now.
	Now func() time.Time
}

func (c *Config) fill() {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.ReadTimeout, 10 * time.Second}, {&c.UploadTimeout, time.Minute}, {&c.WriteTimeout, 30 * time.Second},
		{&c.IdleTimeout, time.Minute}, {&c.RequestTimeout, 15 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.MaxConns <= 0 {
		c.MaxConns = defaultMaxOpen
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.BasePath = strings.TrimRight(c.BasePath, "/")
}

// A Server serves one node. It is made by [New].
type Server struct {
	cfg     Config
	node    Node
	network app.NetworkView
	log     *slog.Logger

	fiber      *fiber.App
	routes     fasthttp.RequestHandler // fiber's, behind entry
	table      []route
	bodyLimits map[string]int // of POST paths that take more than smallBody
	writes     *limiter
	reads      *limiter
	large      places // of large bodies in memory
	deadlines  *deadlines
	streams    *streams // readers of events
	exports    places
	patience   *deadlines // of the operator's requests, which may wait for the chain
	metrics    *metrics
	unrouted   *routeCounters // of what no route answered
	site       pages.Site
	verify     *verifier.Assets
	openapi    file
	files      map[string]file // by path without the base path; fixed once New returns
	fileNames  []string        // of files, sorted

	idPrefix []byte
	requests atomic.Uint64
}

// New returns a server of the node. It listens nowhere yet. The error names a file
// system or page that could not be read.
func New(node Node, cfg Config) (*Server, error) {
	cfg.fill()
	s := &Server{
		cfg: cfg, node: node, network: node.Network(), log: cfg.Log, table: routes(),
		writes: newLimiter(cfg.IPRate, cfg.IPBurst), reads: newLimiter(10*cfg.IPRate, 10*cfg.IPBurst),
		large: places{most: largeSlots, each: largeEach, local: true}, exports: places{most: exportsOpen, each: exportsEach}, deadlines: newDeadlines(cfg.RequestTimeout), patience: newDeadlines(operatorTimeout), streams: newStreams(cfg.MaxConns / 2),
		metrics: newMetrics(), idPrefix: idPrefix(),
	}
	if cfg.BasePath != "" && (cfg.BasePath[0] != '/' || strings.Trim(cfg.BasePath, plainPath) != "") {
		return nil, fmt.Errorf("web: base path %q must be a plain path such as /karatum", cfg.BasePath)
	}
	s.unrouted = s.metrics.of("", "")
	var err error
	if s.files, err = loadFiles(cfg); err != nil {
		return nil, err
	}
	s.fileNames = slices.Sorted(maps.Keys(s.files))
	if err = s.makeSite(); err != nil {
		return nil, err
	}
	if s.openapi, err = s.describe(); err != nil {
		return nil, err
	}
	s.build()
	return s, nil
}

// build makes the fiber application. Bodies are streamed (see body.go), and
// nothing that fiber hands out outlives a request: Immutable.
func (s *Server) build() {
	s.fiber = fiber.New(fiber.Config{
		Immutable: true, CaseSensitive: true, StrictRouting: true, DisableStartupMessage: true,
		StreamRequestBody: true, DisablePreParseMultipartForm: true,
		BodyLimit: bulkBody, ReadBufferSize: headerBytes, Concurrency: s.cfg.MaxConns + spareWorkers,
		ReadTimeout: s.cfg.ReadTimeout, WriteTimeout: s.cfg.WriteTimeout, IdleTimeout: s.cfg.IdleTimeout,
		ErrorHandler: s.onError,
	})
	s.register()
	s.routes = s.fiber.Handler()
	h := s.fiber.Server()
	h.Handler, h.HeaderReceived, h.CloseOnShutdown = s.entry, s.onHeaders, true
}

// Serve answers requests until ctx ends, then stops within 5 seconds: no new
// connections, idle ones closed, requests under way finished, the rest cut. The
// listener is closed in any case. A server serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	bl := newBoundedListener(ln, s.cfg.MaxConns, s.speaksForMany)
	go s.compressAssets()
	done := make(chan error, 1)
	go func() { done <- s.fiber.Listener(bl) }()
	defer s.stopRequests()
	select {
	case err := <-done:
		return fmt.Errorf("web: serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.streams.stop()
	err := s.fiber.ShutdownWithTimeout(shutdownGrace)
	s.stopRequests()
	bl.closeAll()
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("web: stop: %w", err)
	}
	return nil
}

// stopRequests ends the contexts of all requests that still run.
func (s *Server) stopRequests() {
	s.deadlines.stop()
	s.streams.stop()
	s.patience.stop()
}

// speaksForMany reports whether connections of the peer must not be counted as one
// client's.
func (s *Server) speaksForMany(a net.Addr) bool {
	ip := peerAddr(a)
	return ip.IsLoopback() || s.trusts(ip)
}

// idPrefix tells request ids of one start from those of another.
func idPrefix() []byte {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return append([]byte(strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))), '-')
}

// deadlines hands out contexts with the request deadline. Requests that begin in
// the same second share one, so that a request costs no timer of its own.
type deadlines struct {
	base   context.Context
	stop   context.CancelFunc
	limit  time.Duration
	latest atomic.Pointer[deadline]
}

type deadline struct {
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Time // until when new requests take it
}

const deadlineShare = time.Second

func newDeadlines(limit time.Duration) *deadlines {
	base, stop := context.WithCancel(context.Background())
	return &deadlines{base: base, stop: stop, limit: limit}
}

func (d *deadlines) current() context.Context {
	now, old := time.Now(), d.latest.Load()
	if old != nil && now.Before(old.until) {
		return old.ctx
	}
	ctx, cancel := context.WithTimeoutCause(d.base, d.limit+deadlineShare, errDeadline)
	next := &deadline{ctx, cancel, now.Add(deadlineShare)}
	if d.latest.CompareAndSwap(old, next) {
		return ctx
	}
	cancel()
	return d.latest.Load().ctx
}
