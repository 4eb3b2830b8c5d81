package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
)

// maxLines bounds a bulk request: the least batch takes over 600 bytes of the
// 8 MiB, so no honest one has more.
const maxLines = 16384

// proofToken is the bytes of a disclosure that one token buys: reading the largest takes
// a core a second and half a gigabyte, and its claim is kept.
const proofToken = 64 << 10

// writeJSON answers with the JSON of v.
func writeJSON(c *fiber.Ctx, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	r := &c.Context().Response
	r.SetStatusCode(status)
	r.Header.SetContentTypeBytes(typeJSON)
	r.SetBodyRaw(body)
	return nil
}

func postBatch(s *Server, c *fiber.Ctx) error {
	body, err := readBody(c.Context(), smallBody)
	if err != nil {
		return err
	}
	ans, err := s.node.Ingest(c.UserContext(), body)
	if err != nil {
		return err
	}
	return writeJSON(c, ans.Status(), ans)
}

// postBulk takes one token before the body is read and one for each further line.
// Lines past the limit are refused each by itself, so that what was paid for is
// stored.
func postBulk(s *Server, c *fiber.Ctx) error {
	client := s.clientAddr(c.Context())
	if got, wait := s.writes.take(client, 1, s.cfg.Now()); got == 0 {
		return rateLimited(wait)
	}
	body, release, err := s.largeBody(c, bulkBody)
	if err != nil {
		return err
	}
	defer release()
	lines := splitLines(body)
	if len(lines) == 0 || len(lines) > maxLines {
		return badField("", "a bulk request has 1 to 16384 lines")
	}
	paid := 1
	if len(lines) > 1 {
		got, _ := s.writes.take(client, len(lines)-1, s.cfg.Now())
		paid += got
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, a := range s.node.IngestBulk(c.UserContext(), lines[:paid]) {
		if err := s.writeLine(enc, c, a); err != nil {
			return err
		}
	}
	if paid < len(lines) {
		e := rateLimited(s.writes.wait(client, s.cfg.Now()))
		c.Set(fiber.HeaderRetryAfter, retryAfter(e.RetryAfter))
		for range lines[paid:] {
			if err := enc.Encode(viewOf(e)); err != nil {
				return err
			}
		}
	}
	r := &c.Context().Response
	r.Header.SetContentType(mediaLine)
	r.SetBodyRaw(out.Bytes())
	return nil
}

func (s *Server) writeLine(enc *json.Encoder, c *fiber.Ctx, a app.BulkAnswer) error {
	if a.Err == nil {
		return enc.Encode(a.Answer)
	}
	e, known := asError(a.Err)
	if !known {
		s.log.ErrorContext(c.UserContext(), "bulk line failed", "line", a.Line, "err", a.Err)
	}
	return enc.Encode(viewOf(e))
}

func postProof(s *Server, c *fiber.Ctx) error {
	publish, err := queryFlag(c, "publishReveals")
	if err != nil {
		return err
	}
	body, release, err := s.largeBody(c, proofBody)
	if err != nil {
		return err
	}
	defer release()
	if wait := s.writes.spend(s.clientAddr(c.Context()), (len(body)-1)/proofToken, s.cfg.Now()); wait > 0 {
		return rateLimited(wait)
	}
	v, err := s.node.Disclose(c.UserContext(), body, publish)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, v)
}

// emptyRequest reads the body of a route whose address says it all: empty or an
// empty object.
func emptyRequest(c *fiber.Ctx) error {
	body, err := readBody(c.Context(), smallBody)
	if err != nil {
		return err
	}
	body = bytes.TrimSpace(body)
	if len(body) > 0 && !bytes.Equal(body, []byte("{}")) {
		return badField("", "the body must be empty or {}")
	}
	return nil
}

func postReplay(s *Server, c *fiber.Ctx) error { return replayPost(c, s.node.QueueReplay) }

// postReplayCancel and postReplayRerun are the operator's.
func postReplayCancel(s *Server, c *fiber.Ctx) error { return replayPost(c, s.node.CancelReplay) }
func postReplayRerun(s *Server, c *fiber.Ctx) error  { return replayPost(c, s.node.RerunReplay) }

// replayPost changes the replay of a step; what follows is seen under its number.
func replayPost(c *fiber.Ctx, change func(context.Context, flight.Hash, string) (app.ReplayView, error)) error {
	h, err := paramHash(c, "stepHash")
	if err != nil {
		return err
	}
	prefix, err := queryValue(c, "prefix")
	if err != nil {
		return err
	}
	if err := emptyRequest(c); err != nil {
		return err
	}
	v, err := change(c.UserContext(), h, prefix)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusAccepted, v)
}

func postRecheck(s *Server, c *fiber.Ctx) error {
	h, err := paramHash(c, "stepHash")
	if err != nil {
		return err
	}
	if err := emptyRequest(c); err != nil {
		return err
	}
	v, err := s.node.Recheck(c.UserContext(), h)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusAccepted, v)
}

func postAnchor(s *Server, c *fiber.Ctx) error {
	if err := emptyRequest(c); err != nil {
		return err
	}
	run, err := s.node.AnchorForOperator(c.UserContext())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, run)
}

func postDeleteReveals(s *Server, c *fiber.Ctx) error {
	h, err := paramHash(c, "stepHash")
	if err != nil {
		return err
	}
	if err := emptyRequest(c); err != nil {
		return err
	}
	if err := s.node.DeleteReveals(c.UserContext(), h); err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, struct{}{})
}
