package web

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"karatum/web/pages"
	"karatum/web/verifier"
)

// pageDocs shows the tables that routes and errors are made from.
func pageDocs(s *Server, c *fiber.Ctx) error {
	v := pages.DocsView{URL: s.selfURL(c), Groups: []pages.RouteGroup{{ID: "writes", Title: "Writes"}, {ID: "reads", Title: "Reads"}, {ID: "operator", Title: "Operator"}, {ID: "files", Title: "Health and files"}}}
	for _, r := range routes() {
		if r.kind == page {
			continue
		}
		g := &v.Groups[groupOf(r.kind)]
		line := pages.RouteLine{Method: r.method, Path: r.path, Summary: r.summary}
		if r.kind == read && !strings.ContainsAny(r.path, ":*") {
			line.Href = s.cfg.BasePath + r.path
		}
		g.Routes = append(g.Routes, line)
	}
	for code, doc := range codes {
		v.Codes = append(v.Codes, pages.CodeLine{Code: code, Status: doc.status, Meaning: doc.meaning})
	}
	slices.SortFunc(v.Codes, func(a, b pages.CodeLine) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), strings.Compare(a.Code, b.Code))
	})
	for _, check := range verifier.DisclosureChecks() {
		v.Checks = append(v.Checks, pages.CheckLine{Title: check.Title, Proves: check.Proves})
	}
	return s.render(c, pages.Page{Title: "How it works", Nav: "docs", Twin: s.link("docs.json"), Body: s.site.DocsPage(v)}, v)
}

// groupOf is the part of the handbook that a route stands in.
func groupOf(k kind) int {
	switch k {
	case write, bulk:
		return 0
	case read:
		return 1
	case admin:
		return 2
	}
	return 3
}
