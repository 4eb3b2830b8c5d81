package web

import (
	"context"
	"fmt"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/web/pages"
)

func pageReplays(s *Server, c *fiber.Ctx) error {
	state, err := queryValue(c, "state")
	if err != nil {
		return err
	}
	p := pages.Page{Title: "Replays", Nav: "replays", Twin: s.link("v1", "flight", "replays")}
	if state != "" {
		p.Twin += queryOf("state", state)
	}
	read := func(ctx context.Context, part app.Page) (app.List[app.ReplaySummary], error) {
		return s.node.Replays(ctx, state, part)
	}
	return pageList(s, c, p, read, func(l pages.List[app.ReplaySummary]) templ.Component {
		if l.Next != "" && state != "" {
			l.Next += "&state=" + state // one of five words, or the node has refused it
		}
		return s.site.ReplaysPage(pages.ReplayList{List: l, State: state, States: s.site.ReplayStates(state)})
	})
}

func pageReplay(s *Server, c *fiber.Ctx) error {
	id, err := paramNumber(c, "replay")
	if err != nil {
		return err
	}
	v, err := s.node.Replay(c.UserContext(), id)
	if err != nil {
		return err
	}
	p := pages.Page{Title: fmt.Sprintf("Replay %d", id), Nav: "replays", Twin: s.link("v1", "flight", "replays", id)}
	p.Body = s.site.ReplayPage(pages.ViewReplay(v, s.selfURL(c)))
	return s.render(c, p, v)
}
