package web

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"karatum/flight"
	"karatum/web/pages"
)

// pageStream is the page of the stream that the path names, or its twin: no page of
// a stream has an address that ends so, see [pages.Site.StreamLink].
func pageStream(s *Server, c *fiber.Ctx) error {
	name, err := param(c, "stream")
	if err != nil {
		return err
	}
	if plain, ok := strings.CutSuffix(name, twinSuffix); ok {
		c.Context().SetUserValue(twinSuffix, true)
		name = plain
	}
	return s.showStream(c, name)
}

// pageNamedStream is the page of the stream that the query names.
func pageNamedStream(s *Server, c *fiber.Ctx) error {
	name, err := queryValue(c, "called")
	if err != nil {
		return err
	}
	return s.showStream(c, name)
}

func (s *Server) showStream(c *fiber.Ctx, name string) error {
	a, err := paramAgent(c)
	if err != nil {
		return err
	}
	if err := checkStream(name); err != nil {
		return err
	}
	v, err := s.streamView(c, a, name)
	if err != nil {
		return err
	}
	p := pages.Page{Title: "Stream " + name, Nav: "agents", Twin: s.link("v1", "flight", "agents", a, "streams", name), Body: s.site.StreamPage(v)}
	return s.render(c, p, v.StreamView)
}

func (s *Server) streamView(c *fiber.Ctx, a flight.Address, name string) (v pages.StreamView, err error) {
	p, err := queryPage(c)
	if err != nil {
		return v, err
	}
	if v.StreamView, err = s.node.Stream(c.UserContext(), a, name); err != nil {
		return v, err
	}
	batches, err := s.node.StreamBatches(c.UserContext(), a, name, p)
	if err != nil {
		return v, err
	}
	v.Items, v.Next = batches.Items, nextLink(c, batches.Next)
	tape, err := s.node.Tape(c.UserContext(), a, name, pages.TapeSteps)
	v.Tape = s.site.DrawTape(tape)
	return v, err
}
