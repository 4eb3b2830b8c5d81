package pages

import (
	"net/url"
	"strings"

	"karatum/flight"
)

// besideStreams are the other addresses below an agent's, which a stream may be
// called too.
var besideStreams = map[string]bool{"badge.svg": true, "streams": true}

// StreamLink is the address of a stream's page. A stream may have any name: one that
// is the address of something else, or ends as the JSON twins of pages do, is asked
// for by a query.
func (s *Site) StreamLink(agent flight.Address, stream string) string {
	if besideStreams[stream] || strings.HasSuffix(stream, ".json") {
		return s.Link("agents", agent, "streams") + "?" + url.Values{"called": {stream}}.Encode()
	}
	return s.Link("agents", agent, stream)
}

// StepLink is the address of a step's page.
func (s *Site) StepLink(agent flight.Address, stream string, seq uint64) string {
	return s.Link("agents", agent, stream, seq)
}
