package web

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/web/pages"
)

// pageSearch goes to the one thing that the text names, or lists them. As JSON it
// always lists.
func pageSearch(s *Server, c *fiber.Ctx) error {
	q, err := queryValue(c, "q")
	if err != nil {
		return err
	}
	v, err := s.node.Search(c.UserContext(), q)
	if err != nil {
		return err
	}
	if to := s.onlyHit(&v); to != "" && !wantsTwin(c) {
		c.Context().Response.Header.Set(fiber.HeaderLocation, to)
		c.Context().Response.SetStatusCode(http.StatusSeeOther)
		return nil
	}
	return s.render(c, pages.Page{Title: "Search", Twin: s.link("search.json") + queryOf("q", q), Body: s.site.SearchPage(v)}, v)
}

// onlyHit returns the address of what was found where all of it has the same one, ""
// otherwise.
func (s *Server) onlyHit(v *app.SearchView) (to string) {
	if v.More {
		return ""
	}
	for _, h := range v.Hits {
		at := s.site.FoundAt(h)
		if to != "" && at != to {
			return ""
		}
		to = at
	}
	return to
}
