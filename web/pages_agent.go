package web

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/web/pages"
)

// conflictPart is how many conflicts the page of an agent shows.
const conflictPart = 50

func pageAgent(s *Server, c *fiber.Ctx) error {
	a, err := paramAgent(c)
	if err != nil {
		return err
	}
	v := pages.AgentView{URL: s.selfURL(c)}
	if v.AgentView, err = s.node.Agent(c.UserContext(), a); err != nil {
		return err
	}
	if !wantsTwin(c) {
		err = errors.Join(s.agentSteps(c, &v), s.agentStreams(c, &v), s.agentAnchors(c, &v))
	}
	if err != nil {
		return err
	}
	p := pages.Page{Title: "Agent " + pages.Shorten(a.String()), Nav: "agents", Twin: s.link("v1", "flight", "agents", a), Body: s.site.AgentPage(v)}
	return s.render(c, p, v.AgentView)
}

// agentSteps reads the part of the opened steps that the query asks for.
func (s *Server) agentSteps(c *fiber.Ctx, v *pages.AgentView) error {
	p, err := queryPage(c)
	if err != nil {
		return err
	}
	if v.Verdict, err = queryVerdict(c); err != nil {
		return err
	}
	steps, err := s.node.Steps(c.UserContext(), v.Address, v.Verdict, p)
	if err != nil {
		return err
	}
	v.FirstSteps, v.NextSteps = p.Cursor == "", nextLink(c, steps.Next)
	for _, st := range steps.Items {
		row, err := pages.ViewStep(st)
		if err != nil {
			return err
		}
		v.StepList = append(v.StepList, row)
	}
	v.ByVerdict, err = s.node.StepCounts(c.UserContext(), v.Address)
	return err
}

// agentStreams reads the streams, one of which is drawn.
func (s *Server) agentStreams(c *fiber.Ctx, v *pages.AgentView) error {
	streams, err := s.node.Streams(c.UserContext(), v.Address, app.Page{Limit: defaultLimit})
	if err != nil {
		return err
	}
	v.StreamList, v.MoreStreams = streams.Items, streams.Next != ""
	v.Tape, err = s.agentTape(c, streams.Items)
	return err
}

// agentAnchors reads how far the batches are anchored, and what was signed twice.
func (s *Server) agentAnchors(c *fiber.Ctx, v *pages.AgentView) (err error) {
	if v.Anchoring, err = s.node.Anchoring(c.UserContext(), v.Address); err != nil {
		return err
	}
	if last := v.Anchoring.Last; last != nil {
		e, err := s.node.Epoch(c.UserContext(), strconv.FormatUint(last.ID, 10))
		if err != nil {
			return err
		}
		v.LastEpoch = &e
	}
	v.NextAnchor = s.node.Pulse().NextAnchor
	conflicts, err := s.node.Equivocations(c.UserContext(), &v.Address, app.Page{Limit: conflictPart})
	v.ConflictList, v.MoreConflicts = conflicts.Items, conflicts.Next != ""
	return err
}

// tapeChoices is how many streams the tape offers, the last seen.
const tapeChoices = 6

// agentTape draws the stream that was seen last, or the one that ?stream= names.
func (s *Server) agentTape(c *fiber.Ctx, streams []app.StreamView) (*pages.TapeView, error) {
	if len(streams) == 0 {
		return nil, nil
	}
	want, err := queryValue(c, "stream")
	if err != nil {
		return nil, err
	}
	recent := slices.SortedStableFunc(slices.Values(streams), func(a, b app.StreamView) int { return cmp.Compare(b.LastSeenAt, a.LastSeenAt) })
	chosen := recent[0]
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
	v.Chosen = chosen.Stream == want
	if len(streams) > 1 {
		choices := recent[:min(len(recent), tapeChoices)]
		if !slices.ContainsFunc(choices, func(st app.StreamView) bool { return st.Stream == chosen.Stream }) {
			choices[len(choices)-1] = chosen
		}
		for _, st := range choices {
			v.Streams = append(v.Streams, pages.TapeLink{Name: st.Stream, Href: s.link("agents", st.Agent) + queryOf("stream", st.Stream), Current: st.Stream == chosen.Stream})
		}
	}
	return v, nil
}
