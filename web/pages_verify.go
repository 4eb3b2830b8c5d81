package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
	"karatum/web/pages"
	"karatum/web/verifier"
)

// addVerifier registers the files that check a record in the reader's browser, and
// puts the panel's part into the style sheet.
func (s *Server) addVerifier() error {
	files, css := s.files, s.files["/static/app.css"].body
	v, err := verifier.New(css)
	if err != nil {
		return fmt.Errorf("web: %w", err)
	}
	for _, script := range v.Scripts() {
		files["/static/"+script.Name] = newAsset(script.Name, script.Body)
	}
	files["/static/app.css"] = newFile("app.css", append(css[:len(css):len(css)], v.CSS...))
	files[offlinePath] = newAsset(offlinePath, v.Offline)
	s.verify = v
	return nil
}

const offlinePath = "/verify.html"

// policyOf is the page's policy. Where the reader may ask an RPC, connections leave
// the origin; scripts never do.
func policyOf(p pages.Page) string {
	if p.Asks {
		return strings.Replace(policy, "connect-src 'self'", "connect-src 'self' https: http://localhost:* http://127.0.0.1:*", 1)
	}
	return policy
}

// panel is what every panel of this server shows.
func (s *Server) panel(page verifier.Page, file string, document json.RawMessage) verifier.Panel {
	return verifier.Panel{
		Checkers: page.Checkers, Static: s.link("static") + "/", Save: s.cfg.BasePath + offlinePath,
		Local: "http://localhost:8080/verify#", File: file, Document: plain(document),
	}
}

// plain escapes what is not ASCII in a JSON text, which can stand in its strings
// only: "view source" shows the text in the order in which it is checked.
func plain(text json.RawMessage) json.RawMessage {
	var b []byte
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			b = append(b, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

// anchored returns a batch's place in its epoch, nil where it has none yet.
func (s *Server) anchored(c *fiber.Ctx, id flight.Hash) (*app.BatchProofView, error) {
	proof, err := s.node.BatchProof(c.UserContext(), id)
	if errors.Is(err, &app.Error{Code: "NOT_ANCHORED"}) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &proof, nil
}

// A bundle is a disclosed step with its batch's place in the epoch, where that is
// anchored: what karatum verify takes.
type bundle struct {
	Disclosure json.RawMessage     `json:"disclosure"`
	Proof      *app.BatchProofView `json:"proof,omitempty"`
}

// stepPanel checks a disclosed step, with the proof of its batch where that is
// anchored.
func (s *Server) stepPanel(step app.StepView, proof *app.BatchProofView, seq uint64) (verifier.Panel, error) {
	raw, err := json.Marshal(bundle{step.Disclosure, proof})
	if err != nil {
		return verifier.Panel{}, err
	}
	p := s.panel(s.verify.Record, fmt.Sprintf("step-%d.json", seq), raw)
	var claim struct{ Amount, Value string }
	_ = json.Unmarshal(step.Claim, &claim) // without a claim, or one of another form, there is no amount
	p.Amount, p.Next = claim.Amount+claim.Value != "", strconv.FormatUint(seq+1, 10)
	p.Checks, p.Asks, p.Forge, p.Record = verifier.DisclosureChecks(), true, true, s.link("v1", "flight", "proofs", step.StepHash, "bundle")
	return p, nil
}

// conflictPanel checks evidence.
func (s *Server) conflictPanel(e app.EvidenceView) verifier.Panel {
	page := s.verify.Evidence
	if e.Reason == string(flight.BrokenChain) {
		page = s.verify.Chain
	}
	p := s.panel(page, fmt.Sprintf("conflict-%d.json", e.ID), e.Evidence)
	p.Checks, p.Record = verifier.EvidenceChecks(), s.link("v1", "flight", "equivocations", e.ID)
	return p
}

// pageVerify takes any document, in the reader's browser.
func pageVerify(s *Server, c *fiber.Ctx) error {
	p := s.panel(s.verify.Any, "document.json", nil)
	p.AnyChecks, p.Asks, p.Forge, p.Record = verifier.AnyChecks(), true, true, "#document"
	return s.render(c, pages.Page{Title: "Verify a flight record", Nav: "verify", Module: s.link("static", s.verify.Any.Script.Name), Asks: true, Body: pages.VerifyPage(p)}, nil)
}

// getOffline serves the page that works from a file, under the policy that it
// states itself.
func getOffline(s *Server, c *fiber.Ctx) error {
	h := &c.Context().Response.Header
	h.SetCanonical(hdrPolicy, []byte(s.verify.Policy+"; frame-ancestors 'none'"))
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	return sendFile(c, s.files[offlinePath], false)
}
