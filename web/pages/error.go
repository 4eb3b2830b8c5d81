package pages

import (
	"net/url"
	"strings"

	"karatum/app"
	"karatum/flight"
)

// above is the way to where nothing was found, as far as it leads to pages: path is the
// request's, still escaped. It is empty at the top.
func (s *Site) above(path string, e *app.Error) []Crumb {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, s.Base), "/"), "/")
	title := map[string]string{"agents": "Agents", "epochs": "Epochs", "conflicts": "Conflicts", "replays": "Replays"}[parts[0]]
	if title == "" || len(parts) < 2 {
		return nil
	}
	way := []Crumb{{Text: title, Href: s.Link(parts[0])}}
	agent, err := flight.ParseAddress(parts[1])
	if parts[0] != "agents" || err != nil || len(parts) < 3 || e.Code == app.ErrUnknownAgent.Code {
		return way
	}
	way = append(way, Crumb{Text: Shorten(agent.String()), Href: s.Link("agents", agent)})
	if stream, err := url.PathUnescape(parts[2]); err == nil && len(parts) == 4 && e.Code == app.ErrUnknownStep.Code {
		way = append(way, Crumb{Text: stream, Href: s.StreamLink(agent, stream), Stream: true})
	}
	return way
}
