package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"karatum/app"
)

// Sizes of bodies (spec section 1).
const (
	smallBody  = 16 << 10 // a batch, an admin request
	bulkBody   = 8 << 20
	proofBody  = 5 << 20
	largeSlots = 16 // bodies over smallBody in memory at once, 128 MiB at most
	largeEach  = 4  // of one client, for a slow upload keeps its place for a minute
)

// Bodies are streamed: fasthttp hands the request over after the headers, so that
// limits are taken before a byte of the body is stored. Streaming has three traps,
// all handled here and in entry.go: Ctx.Body would read without bound; a body left
// unread would be parsed as the next request, so such a connection is closed, as is
// that of a chunked body; and a second read past the end of one starts on what follows.

// readBody returns the whole body of at most limit bytes, in a slice of its own.
func readBody(ctx *fasthttp.RequestCtx, limit int) ([]byte, error) {
	stream := ctx.RequestBodyStream()
	if stream == nil {
		return nil, nil
	}
	length := ctx.Request.Header.ContentLength()
	if length > limit {
		return nil, errTooLarge
	}
	body, err := readAtMost(stream, max(length, 0), limit)
	if err != nil {
		return nil, err
	}
	if (length >= 0 && len(body) != length) || endedEarly(ctx.Conn()) {
		return nil, errTruncated
	}
	// The connection is at the start of the next request again, if all who read these
	// bytes agree where that is. Of chunks they might not: fasthttp skips whatever stands
	// after the digits of a size, so that "0x2" ends a body.
	if length >= 0 && !ctx.Request.Header.ConnectionClose() {
		ctx.Response.Header.ResetConnectionClose()
	}
	return body, nil
}

// endedEarly reports whether the client ended its side before the body was whole:
// nothing reads on once the last chunk is there, and fasthttp gives a body that is
// cut between two chunks the same io.EOF as a complete one.
func endedEarly(c net.Conn) bool {
	bc, ok := c.(*boundedConn)
	return ok && bc.eof.Load()
}

// readAtMost reads to the end of the stream, which it expects after size bytes,
// and never past the end. It stops at the first byte over limit.
func readAtMost(r io.Reader, size, limit int) ([]byte, error) {
	if size == 0 {
		size = 512
	}
	buf := make([]byte, 0, min(size, limit)+1)
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, min(2*cap(buf), limit+1)), buf...)
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), limit+1)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > limit:
			return nil, errTooLarge
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, bodyError(err)
		}
	}
}

func bodyError(err error) error {
	if isTimeout(err) {
		return errSlow
	}
	return errTruncated
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fasthttp.ErrTimeout) ||
		(errors.As(err, &ne) && ne.Timeout())
}

// largeBody is readBody for routes that take more than smallBody: at most
// largeSlots such bodies are in memory at once, largeEach of one client. One that says
// that it is small needs no place. release gives the place back and must be called when
// the body is no longer needed.
func (s *Server) largeBody(c *fiber.Ctx, limit int) (body []byte, release func(), err error) {
	if n := c.Context().Request.Header.ContentLength(); n >= 0 && n <= smallBody {
		body, err = readBody(c.Context(), smallBody)
		return body, func() {}, err
	}
	client := s.clientAddr(c.Context())
	if !s.large.enter(client) {
		return nil, nil, errTooMany
	}
	release = func() { s.large.leave(client) }
	if body, err = readBody(c.Context(), limit); err != nil {
		release()
		return nil, nil, err
	}
	return body, release, nil
}

// checkMedia refuses bodies that are compressed or of another type than the
// route's. Parameters of the type are ignored: JSON is UTF-8.
func checkMedia(h *fasthttp.RequestHeader, types []string) *app.Error {
	if enc := h.Peek(fiber.HeaderContentEncoding); len(enc) > 0 && !bytes.EqualFold(enc, []byte("identity")) {
		return errEncoding
	}
	got := h.ContentType()
	if n := bytes.IndexByte(got, ';'); n >= 0 {
		got = got[:n]
	}
	got = bytes.TrimRight(got, " \t")
	for _, t := range types {
		if len(t) == len(got) && bytes.EqualFold(got, []byte(t)) {
			return nil
		}
	}
	e := *errEncoding
	e.Message, e.Details = "send Content-Type: "+types[0], map[string]any{"accepts": types}
	return &e
}

// splitLines cuts NDJSON into its lines. Blank lines are skipped, as is the end of
// the last line.
func splitLines(body []byte) [][]byte {
	var lines [][]byte
	for line := range bytes.SplitSeq(body, []byte{'\n'}) {
		if line = bytes.TrimSuffix(line, []byte{'\r'}); len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}
