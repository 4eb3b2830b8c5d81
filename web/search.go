package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
	"karatum/web/pages"
)

// find returns the address of what the text names, "" for nothing. Hex may come
// in upper case, with spaces around or without 0x: people paste.
func (s *Server) find(c *fiber.Ctx, text string) (string, error) {
	text = strings.TrimSpace(text)
	hex := strings.ToLower(strings.Join(strings.Fields(text), ""))
	if len(hex) == 40 || len(hex) == 64 {
		hex = "0x" + hex
	}
	if a, err := flight.ParseAddress(hex); err == nil {
		_, err := s.node.Agent(c.UserContext(), a)
		return found(s.link("agents", a), err)
	}
	if h, err := flight.ParseHash(hex); err == nil {
		return s.findHash(c, h)
	}
	if n, ok := decimal(hex, maxSeq); ok {
		_, err := s.node.Epoch(c.UserContext(), hex)
		return found(s.link("epochs", n), err)
	}
	return "", nil
}

// findHash tries the kinds of hash that the node knows, the most asked for first.
func (s *Server) findHash(c *fiber.Ctx, h flight.Hash) (string, error) {
	ctx := c.UserContext()
	_, err := s.node.Batch(ctx, h)
	if to, err := found(s.link("batches", h), err); to != "" || err != nil {
		return to, err
	}
	step, err := s.node.Step(ctx, h)
	if err == nil {
		v, err := pages.ViewStep(step)
		return s.link("agents", v.Record.Agent, v.Record.Stream, v.Record.Seq), err
	}
	if _, err := found("", err); err != nil {
		return "", err
	}
	_, err = s.node.Epoch(ctx, h.String())
	return found(s.link("epochs", h), err)
}

// found returns the address where err is nil, "" where the node says that it does
// not know the thing, and any other error.
func found(to string, err error) (string, error) {
	var e *app.Error
	switch {
	case err == nil:
		return to, nil
	case errors.As(err, &e) && e.Status == http.StatusNotFound:
		return "", nil
	}
	return "", err
}
