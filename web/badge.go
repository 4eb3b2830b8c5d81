package web

import (
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"karatum/web/pages"
)

// Measures of a badge, in pixels.
const (
	badgeChar = 6.6 // mean width of a character at the font size
	badgePad  = 8.0
)

// getBadge draws an agent's rating for other sites. Rating, coverage and scope are
// one text element of a fixed length, so that none can be cut off by restyling.
func getBadge(s *Server, c *fiber.Ctx) error {
	a, err := paramAgent(c)
	if err != nil {
		return err
	}
	agent, err := s.node.Agent(c.UserContext(), a)
	if err != nil {
		return err
	}
	body := []byte(badge(s.site.Primary(agent)))
	h := &c.Context().Response.Header
	h.SetContentType("image/svg+xml")
	h.Set(fiber.HeaderCacheControl, "public, max-age=60")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	c.Context().Response.SetStatusCode(http.StatusOK)
	if !unchanged(c.Context(), body) {
		c.Context().Response.SetBodyRaw(body)
	}
	return nil
}

// badgeText is all that a badge says.
func badgeText(r pages.RatedView) string {
	text := "no rating yet"
	if r.Rating != nil {
		text = pages.RatingText(*r.Rating) + " of 24"
		if r.Thin() {
			text += fmt.Sprintf(" (thin, %d compared)", r.Compared())
		}
	}
	text += ", coverage " + pages.Percent(r.Coverage) + "%"
	if r.Dev {
		text += ", dev chain only"
	}
	return text
}

func badge(r pages.RatedView) string {
	const label = "Karatum"
	text := badgeText(r)
	left, right := badgeChar*float64(len(label)), badgeChar*float64(len(text))
	split, width := left+2*badgePad, left+right+4*badgePad
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="22" viewBox="0 0 %.1f 22" role="img" aria-label="%s: %s"><title>%s: %s</title>`+
		`<rect width="%.1f" height="22" rx="4" fill="#0a0d0f"/><path d="M4 0h%.1fv22H4a4 4 0 0 1-4-4V4a4 4 0 0 1 4-4z" fill="#b53a09"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="%.1f" y="15" textLength="%.1f">%s</text><text x="%.1f" y="15" textLength="%.1f">%s</text></g></svg>`,
		width, width, label, text, label, text, width, split-4, badgePad, left, label, split+badgePad, right, text)
}
