package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"karatum/app"
	"karatum/web/pages"
	"karatum/web/verifier"
)

// policy is the pages' Content-Security-Policy: nothing inline and nothing from
// elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types app"

// pageBrotli is the level for pages, which are compressed for each reader: well
// under a millisecond.
const pageBrotli = 3

// makeSite registers the files that pages load, under names that change with their
// content, and keeps what all pages share.
func (s *Server) makeSite() error {
	s.site = pages.Site{Base: s.cfg.BasePath, Network: s.network, Now: s.cfg.Now}
	s.fontNames()
	s.joinScripts()
	if err := s.addVerifier(); err != nil {
		return err
	}
	s.site.CSS, s.site.JS, s.site.LiveJS, s.site.Icon = s.asset("app.css"), s.asset("app.js"), s.asset("live.js"), s.icon()
	return nil
}

// icon is the picture of all pages as an address that holds it: it is too small to be
// asked for.
func (s *Server) icon() string {
	return "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(s.files["/static/icon.svg"].body)
}

// asset registers a static file under a name that changes with its content, and
// returns its address.
func (s *Server) asset(name string) string {
	f := s.files["/static/"+name]
	ext := path.Ext(name)
	if ext == ".css" || ext == ".js" {
		f = newAsset(name, f.body)
	}
	hashed := "/static/" + strings.TrimSuffix(name, ext) + "." + f.hash() + ext
	s.files[hashed] = f
	return s.cfg.BasePath + hashed
}

// fontNames gives the fonts names that change with their content, and puts those
// into the style sheet, which is compressed for readers, as the scripts are. Pages ask
// for them at once: a font that comes late is left out, for a page must not move.
func (s *Server) fontNames() {
	css := s.files["/static/app.css"].body
	for _, name := range []string{"fonts/hanken-grotesk.woff2", "fonts/atkinson-mono.woff2"} {
		hashed := s.asset(name)
		s.site.Fonts = append(s.site.Fonts, hashed)
		css = bytes.ReplaceAll(css, []byte(name), []byte(strings.TrimPrefix(hashed, s.cfg.BasePath+"/static/")))
	}
	s.files["/static/app.css"] = newAsset("app.css", css)
}

// joinScripts leaves the comments out of the site's script, and makes the one that a
// page loads in its place where it follows the node: one file asks for less than two.
func (s *Server) joinScripts() {
	read := func(name string) string { return verifier.Strip(string(s.files["/static/"+name].body)) }
	app := read("app.js")
	live := app + read("live.js")
	s.files["/static/app.js"], s.files["/static/live.js"] = newAsset("app.js", []byte(app)), newAsset("live.js", []byte(live))
}

func getStatic(s *Server, c *fiber.Ctx) error {
	name := strings.TrimPrefix(c.Path(), s.cfg.BasePath)
	f, ok := s.files[name]
	if !ok {
		return errNotFound
	}
	return sendFile(c, f, strings.Contains(name, "."+f.hash()+"."))
}

// link is an address on this node: the base path and the escaped parts.
func (s *Server) link(parts ...any) string { return s.site.Link(parts...) }

// render answers with a page, or with the JSON of twin where the client prefers
// that.
func (s *Server) render(c *fiber.Ctx, p pages.Page, twin any) error {
	h := &c.Context().Response.Header
	h.Set(fiber.HeaderVary, "Accept, Accept-Encoding, Cookie")
	if twin != nil && wantsTwin(c) {
		err := writeJSON(c, http.StatusOK, twin)
		s.oweFor(c.Context(), len(c.Context().Response.Body()))
		return err
	}
	return s.html(c.Context(), http.StatusOK, p)
}

// wantsTwin reports whether the client prefers JSON to the page.
func wantsTwin(c *fiber.Ctx) bool {
	return c.Context().UserValue(twinSuffix) != nil || acceptsJSON(&c.Context().Request.Header)
}

// html answers with a page, which is whole before a byte of it is sent.
func (s *Server) html(ctx *fasthttp.RequestCtx, status int, p pages.Page) error {
	p.Theme, p.Pulse = theme(ctx), s.node.Pulse()
	var buf bytes.Buffer
	if err := s.site.Layout(p).Render(context.Background(), &buf); err != nil { // nothing in a page waits
		return fmt.Errorf("render %s: %w", p.Title, err)
	}
	s.oweFor(ctx, buf.Len())
	h := &ctx.Response.Header
	h.SetContentType("text/html; charset=utf-8")
	h.Set(fiber.HeaderVary, "Accept, Accept-Encoding, Cookie")
	h.SetCanonical(hdrPolicy, []byte(policyOf(p)))
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	h.Set(fiber.HeaderCacheControl, "no-cache")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	ctx.Response.SetStatusCode(status)
	if status == http.StatusOK && unchanged(ctx, buf.Bytes()) {
		return nil
	}
	if ctx.Request.Header.HasAcceptEncoding("br") {
		h.Set(fiber.HeaderContentEncoding, "br")
		ctx.Response.SetBodyRaw(fasthttp.AppendBrotliBytesLevel(nil, buf.Bytes(), pageBrotli))
		return nil
	}
	ctx.Response.SetBodyRaw(buf.Bytes())
	return nil
}

// unchanged sets the entity tag of a body and answers with 304 where the client
// has it.
func unchanged(ctx *fasthttp.RequestCtx, body []byte) bool {
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	ctx.Response.Header.Set(fiber.HeaderETag, "W/"+tag) // compressed or not, it is the same page
	if !matches(ctx, tag) {
		return false
	}
	ctx.Response.SetStatusCode(http.StatusNotModified)
	return true
}

// matches reports whether the client has what the entity tag names. Tags are compared
// weakly, as If-None-Match is (RFC 9110, section 13.1.2).
func matches(ctx *fasthttp.RequestCtx, tag string) bool {
	for have := range strings.SplitSeq(string(ctx.Request.Header.Peek(fiber.HeaderIfNoneMatch)), ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
			return true
		}
	}
	return false
}

// theme is the reader's choice, which the server writes into the page so that
// nothing flashes.
func theme(ctx *fasthttp.RequestCtx) string {
	if t := string(ctx.Request.Header.Cookie("theme")); t == "light" || t == "dark" {
		return t
	}
	return ""
}

// errorPage says what happened and what still works.
func (s *Server) errorPage(ctx *fasthttp.RequestCtx, e *app.Error) {
	setRefusal(ctx, e)
	title := "Something went wrong"
	switch {
	case e.Status == http.StatusNotFound:
		title = "Not found"
	case e.Status == http.StatusTooManyRequests:
		title = "Too many requests"
	case e.Status < http.StatusInternalServerError:
		title = "This request cannot be answered"
	}
	body := s.site.ErrorPage(title, e, string(ctx.Response.Header.PeekBytes(hdrRequestID)), string(ctx.URI().PathOriginal()))
	if err := s.html(ctx, e.Status, pages.Page{Title: title, Body: body}); err != nil {
		s.log.Error("error page", "err", err)
		writeError(ctx, e)
	}
}

// acceptsJSON reports whether the client asks for JSON by name.
func acceptsJSON(h *fasthttp.RequestHeader) bool {
	return mediaQuality(h, "application/json") > mediaQuality(h, mediaHTML)
}

// acceptsHTML reports whether the client asks for HTML by name, as browsers do.
func acceptsHTML(h *fasthttp.RequestHeader) bool {
	q := mediaQuality(h, mediaHTML)
	return q > 0 && q >= mediaQuality(h, "application/json")
}

// mediaQuality returns the weight that Accept gives a media type by its own name,
// 0 where it does not name it.
func mediaQuality(h *fasthttp.RequestHeader, media string) float64 {
	for part := range strings.SplitSeq(string(h.Peek(fiber.HeaderAccept)), ",") {
		name, args, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(name), media) {
			continue
		}
		q := 1.0
		if _, weight, ok := strings.Cut(args, "q="); ok {
			if _, err := fmt.Sscanf(weight, "%f", &q); err != nil {
				return 0
			}
		}
		return q
	}
	return 0
}

// keptQuery are the parameters of a list that its following parts have too.
var keptQuery = []string{"limit", "called", "verdict", "stream"}

// nextLink is the address of the following part of a list.
func nextLink(c *fiber.Ctx, cursor string) string {
	if cursor == "" {
		return ""
	}
	q := url.Values{"cursor": {cursor}}
	for _, name := range keptQuery {
		if v := c.Context().QueryArgs().Peek(name); len(v) > 0 {
			q.Set(name, string(v))
		}
	}
	return c.Path() + "?" + q.Encode()
}

// selfURL is how the reader reached this node, for the commands that pages show. A
// proxy's word about the scheme counts only where the proxy is trusted.
func (s *Server) selfURL(c *fiber.Ctx) string {
	host := string(c.Context().Request.Header.Host())
	if _, err := hostName(host); err != nil {
		host = "127.0.0.1:8080"
	}
	scheme := "http"
	if s.trusts(peerAddr(c.Context().RemoteAddr())) && string(c.Context().Request.Header.Peek(fiber.HeaderXForwardedProto)) == "https" {
		scheme = "https"
	}
	return scheme + "://" + host + s.cfg.BasePath
}
