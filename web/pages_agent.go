package web

import (
	"cmp"
	"errors"
	"slices"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/web/pages"
)

// listPart is how many rows of a list a page of one thing shows.
const listPart = 50

func pageAgent(s *Server, c *fiber.Ctx) error {
	a, err := paramAgent(c)
	if err != nil {
		return err
	}
	ctx, first := c.UserContext(), app.Page{Limit: listPart}
	agent, err := s.node.Agent(ctx, a)
	if err != nil {
		return err
	}
	streams, err1 := s.node.Streams(ctx, a, first)
	steps, err2 := s.node.Steps(ctx, a, "", first)
	conflicts, err3 := s.node.Equivocations(ctx, &a, first)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	v := pages.AgentView{
		AgentView: agent, StreamList: streams.Items, ConflictList: conflicts.Items, URL: s.selfURL(c),
		MoreStreams: streams.Next != "", MoreSteps: steps.Next != "", MoreConflicts: conflicts.Next != "",
	}
	if v.Tape, err = s.agentTape(c, streams.Items); err != nil {
		return err
	}
	for _, st := range steps.Items {
		row, err := pages.ViewStep(st)
		if err != nil {
			return err
		}
		v.StepList = append(v.StepList, row)
	}
	return s.render(c, pages.Page{Title: "Agent " + pages.Shorten(a.String()), Nav: "agents", Twin: s.link("v1", "flight", "agents", a), Body: s.site.AgentPage(v)}, agent)
}

// agentTape draws the stream that was seen last, or the one that ?stream= names.
func (s *Server) agentTape(c *fiber.Ctx, streams []app.StreamView) (*pages.TapeView, error) {
	if len(streams) == 0 {
		return nil, nil
	}
	want, err := queryValue(c, "stream")
	if err != nil {
		return nil, err
	}
	chosen := slices.MaxFunc(streams, func(a, b app.StreamView) int { return cmp.Compare(a.LastSeenAt, b.LastSeenAt) })
	for _, st := range streams {
		if st.Stream == want {
			chosen = st
		}
	}
	t, err := s.node.Tape(c.UserContext(), chosen.Agent, chosen.Stream, pages.TapeSteps)
	if err != nil {
		return nil, err
	}
	v := s.site.DrawTape(t)
	if len(streams) > 1 {
		for _, st := range streams[:min(len(streams), 8)] {
			v.Streams = append(v.Streams, pages.TapeLink{Name: st.Stream, Href: s.link("agents", st.Agent) + queryOf("stream", st.Stream), Current: st.Stream == chosen.Stream})
		}
	}
	return v, nil
}
