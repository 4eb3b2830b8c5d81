package web

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"karatum/app"
)

var (
	typeJSON = []byte("application/json")

	hdrRequestID = []byte("X-Request-Id")
	hdrNoSniff   = []byte("X-Content-Type-Options")
	valNoSniff   = []byte("nosniff")
	hdrPolicy    = []byte("Content-Security-Policy")
	valNoPolicy  = []byte("default-src 'none'; frame-ancestors 'none'")
)

// entry is what fasthttp calls for each request whose headers it could parse. It
// stands before fiber, so that what it refuses reaches no route.
func (s *Server) entry(ctx *fasthttp.RequestCtx) {
	defer s.recoverPanic(ctx)
	s.begin(ctx)
	f, refusal := readFraming(ctx.Request.Header.RawHeaders())
	if refusal == nil {
		refusal = checkLine(&ctx.Request.Header)
	}
	if refusal == nil && f.length > int64(s.limitOf(pathOf(&ctx.Request.Header))) {
		refusal = errTooLarge
	}
	if refusal == nil && !knownMethod(ctx.Method()) {
		refusal = errNoMethod
	}
	if refusal != nil {
		ctx.SetConnectionClose()
		s.refuse(ctx, refusal)
		s.unrouted.count(ctx.Response.StatusCode())
	} else {
		if f.hasBody() { // until readBody has seen its end
			ctx.SetConnectionClose()
		}
		s.routes(ctx)
	}
	if ctx.Response.ConnectionClose() && f.hasBody() {
		lingerOn(ctx.Conn())
	}
}

// begin sets the headers that every answer carries.
func (s *Server) begin(ctx *fasthttp.RequestCtx) {
	var buf [40]byte
	id := append(buf[:0], s.idPrefix...)
	id = strconv.AppendUint(id, s.requests.Add(1), 36)
	h := &ctx.Response.Header
	h.SetCanonical(hdrRequestID, id)
	h.SetCanonical(hdrNoSniff, valNoSniff)
	h.SetCanonical(hdrPolicy, valNoPolicy)
}

func knownMethod(m []byte) bool {
	switch string(m) {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// recoverPanic turns a panic into 500 for this request only.
func (s *Server) recoverPanic(ctx *fasthttp.RequestCtx) {
	v := recover()
	if v == nil {
		return
	}
	id := string(ctx.Response.Header.PeekBytes(hdrRequestID))
	s.log.Error("panic in a request", "request", id, "method", string(ctx.Method()), "path", string(ctx.Path()), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	ctx.Response.Reset()
	s.begin(ctx)
	ctx.Response.Header.SetCanonical(hdrRequestID, []byte(id))
	ctx.SetConnectionClose()
	lingerOn(ctx.Conn())
	s.refuse(ctx, errInternal)
}

// onHeaders is what fasthttp calls between headers and body. A body that entry
// will refuse by its headers is not waited for: its length is taken out of the
// parsed ones, and entry, which reads the raw ones, refuses at once.
func (s *Server) onHeaders(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	limit := s.limitOf(pathOf(h))
	if doomed(h, limit) {
		h.Del(fiber.HeaderExpect)
		h.SetContentLength(0)
		h.SetConnectionClose()
	}
	cfg := fasthttp.RequestConfig{MaxRequestBodySize: limit}
	if limit > smallBody {
		cfg.ReadTimeout = s.cfg.UploadTimeout
	}
	return cfg
}

func doomed(h *fasthttp.RequestHeader, limit int) bool {
	if h.ContentLength() == 0 {
		return false
	}
	f, refusal := readFraming(h.RawHeaders())
	return refusal != nil || f.length > int64(limit)
}

// limitOf returns the body limit of a path; unknown ones get the small one.
func (s *Server) limitOf(path []byte) int {
	if n, ok := s.bodyLimits[string(path)]; ok {
		return n
	}
	return smallBody
}

// onError is fiber's error handler: for addresses without a route, and for requests
// that fasthttp itself could not parse.
func (s *Server) onError(c *fiber.Ctx, err error) error {
	s.fail(c, err)
	s.unrouted.count(c.Context().Response.StatusCode())
	return nil
}

// fail answers with an error, and logs it where it says nothing to the outside.
func (s *Server) fail(c *fiber.Ctx, err error) {
	ctx := c.Context()
	if len(ctx.Response.Header.PeekBytes(hdrRequestID)) == 0 { // fasthttp's own: entry never ran
		s.begin(ctx)
		lingerOn(ctx.Conn())
	}
	e, known := asError(err)
	if !known {
		s.log.ErrorContext(c.UserContext(), "request failed", "request", string(ctx.Response.Header.PeekBytes(hdrRequestID)), "method", c.Method(), "path", c.Path(), "err", err)
	}
	s.refuse(ctx, e)
}

// refuse answers with a refusal: a page where a browser asks for one, else JSON.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, e *app.Error) {
	path := pathOf(&ctx.Request.Header)
	if s.isOpen(path) {
		openCORS(&ctx.Response.Header)
	}
	if !s.isAPI(path) && acceptsHTML(&ctx.Request.Header) {
		s.errorPage(ctx, e)
		return
	}
	writeError(ctx, e)
}

// isAPI reports whether errors of the path are always JSON.
func (s *Server) isAPI(path []byte) bool {
	return bytes.HasPrefix(path, []byte(s.cfg.BasePath+"/v1/")) || bytes.HasPrefix(path, []byte(s.cfg.BasePath+"/sdk/"))
}

// isOpen reports whether any origin may read the path (spec section 4).
func (s *Server) isOpen(path []byte) bool {
	return s.isAPI(path) && !bytes.HasPrefix(path, []byte(s.cfg.BasePath+"/v1/admin"))
}

// openCORS lets any origin read the answer. Nothing here depends on cookies.
func openCORS(h *fasthttp.ResponseHeader) {
	h.SetCanonical([]byte("Access-Control-Allow-Origin"), []byte("*"))
	h.SetCanonical([]byte("Access-Control-Expose-Headers"), []byte("Retry-After, X-Request-Id, Allow"))
}
