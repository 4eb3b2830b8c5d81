package web

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
)

// Limits of exports, each of which may read and hash for minutes.
const (
	exportTokens = 100              // of the reads' bucket
	exportsOpen  = 4                // at once
	exportsEach  = 2                // of one client
	exportTime   = 15 * time.Minute // that one may take
	exportPart   = 64 << 10         // bytes that the reader must take within the write timeout
)

var errExports = &app.Error{Code: "BUSY", Status: http.StatusServiceUnavailable, RetryAfter: 30 * time.Second, Message: "too many exports run; a running one ends within 15 minutes"}

// getExport streams an agent's whole public record. Its length is not known before,
// so an export that breaks is told by the connection's end, and by the archive,
// which then has no manifest.
func getExport(s *Server, c *fiber.Ctx) error {
	agent, err := paramAgent(c)
	if err != nil {
		return err
	}
	client := s.clientAddr(c.Context())
	if c.Method() != http.MethodHead {
		if err := s.payExport(client); err != nil {
			return err
		}
	}
	export, err := s.node.Export(c.UserContext(), agent)
	if err != nil {
		return err
	}
	h := &c.Context().Response.Header
	h.SetContentType(mediaGzip)
	h.Set(fiber.HeaderContentDisposition, `attachment; filename="karatum-`+agent.String()+`.tar.gz"`)
	h.Set(fiber.HeaderCacheControl, "no-store, no-transform")
	if c.Method() == http.MethodHead {
		return nil
	}
	if !s.exports.enter(client) {
		return errExports
	}
	c.Context().SetConnectionClose()
	w := &exportWriter{conn: c.Context().Conn(), timeout: s.cfg.WriteTimeout}
	c.Context().SetBodyStreamWriter(func(out *bufio.Writer) {
		defer s.exports.leave(client)
		w.out = out
		s.runExport(export, agent, w)
	})
	return nil
}

// payExport takes what an export costs beyond the token of every read.
func (s *Server) payExport(client netip.Addr) error {
	if wait := s.reads.spend(client, exportTokens-1, s.cfg.Now()); wait > 0 {
		return rateLimited(wait)
	}
	return nil
}

func (s *Server) runExport(export *app.Export, agent flight.Address, w *exportWriter) {
	ctx, cancel := context.WithTimeout(s.streams.ctx, exportTime)
	defer cancel()
	err := export.Write(ctx, w)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		return
	}
	// Writing fails from here on, so the answer ends without its last chunk.
	_ = w.conn.SetWriteDeadline(time.Unix(1, 0)) // of a closed connection; the error means the same
	if w.err == nil && !errors.Is(err, context.Canceled) {
		s.log.Error("export ended early", "agent", agent, "err", err)
	}
}

// exportWriter gives the reader the time of a whole answer for each part.
type exportWriter struct {
	conn    net.Conn
	out     *bufio.Writer
	timeout time.Duration
	waiting int
	err     error // of the connection
}

func (w *exportWriter) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if err != nil {
		w.err = err
		return n, err
	}
	if w.waiting += n; w.waiting < exportPart {
		return n, nil
	}
	return n, w.flush()
}

func (w *exportWriter) flush() error {
	w.waiting = 0
	if w.err = w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}
