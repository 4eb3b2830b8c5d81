package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
)

// listPart is how many rows of a list a page of one thing shows.
const listPart = 50

// maxFeedLook is how many events the front page looks through for its topics.
const maxFeedLook = 1024

type homeView struct {
	app.StatusView
	URL    string
	Rows   []feedRow // newest first
	Blank  feedRow   // what a new row is cloned from
	Stream string    // address of the events after those
	Topics []topicLink
}

// A topicLink is one choice of the feed's filter.
type topicLink struct {
	Name, Href string
	Current    bool
}

func pageHome(s *Server, c *fiber.Ctx) error {
	st, err := s.node.Status(c.UserContext())
	if err != nil {
		return err
	}
	topics, err := queryTopics(c)
	if err != nil {
		return err
	}
	v := homeView{StatusView: st, URL: s.selfURL(c), Blank: feedRow{Icon: "in"}}
	s.feed(&v, topics)
	return s.render(c, "home", pageView{Title: "Live", Nav: "home", Twin: s.link("v1", "status"), View: v}, st)
}

// feed fills in the events of the topics.
func (s *Server) feed(v *homeView, topics []string) {
	last := s.node.Events().Last()
	events, _ := s.node.Events().Since(0, maxFeedLook)
	for i := len(events) - 1; i >= 0 && len(v.Rows) < feedRows; i-- {
		if slices.Contains(topics, events[i].Topic()) {
			v.Rows = append(v.Rows, s.row(&events[i]))
		}
	}
	v.Stream = s.link("events", "stream") + fmt.Sprintf("?topics=%s&since=%d", strings.Join(topics, ","), last)
	for _, t := range []struct{ name, topics string }{{"All", ""}, {"Records", app.TopicRecords}, {"Chain", app.TopicChain}} {
		l := topicLink{Name: t.name, Href: s.link(), Current: t.topics == strings.Join(topics, ",") || t.topics == "" && len(topics) > 1}
		if t.topics != "" {
			l.Href += queryOf("topics", t.topics)
		}
		v.Topics = append(v.Topics, l)
	}
}

func pageNode(s *Server, c *fiber.Ctx) error {
	st, err := s.node.Status(c.UserContext())
	if err != nil {
		return err
	}
	return s.render(c, "node", pageView{Title: "Node", Nav: "node", Twin: s.link("v1", "status"), View: st}, st)
}

func pageAbout(s *Server, c *fiber.Ctx) error {
	return s.render(c, "about", pageView{Title: "About", Nav: "about"}, nil)
}

// A listView is a list and the address of this node, for the commands of empty
// states.
type listView[T any] struct {
	Items []T
	URL   string
	First bool // nothing stands before it
}

// pageList renders one part of a list.
func pageList[T any](s *Server, c *fiber.Ctx, name string, v pageView, read func(app.Page) (app.List[T], error)) error {
	p, err := queryPage(c)
	if err != nil {
		return err
	}
	list, err := read(p)
	if err != nil {
		return err
	}
	v.Next = nextLink(c, list.Next, p.Limit)
	v.View = listView[T]{list.Items, s.selfURL(c), p.Cursor == ""}
	return s.render(c, name, v, list)
}

func pageAgents(s *Server, c *fiber.Ctx) error {
	v := pageView{Title: "Agents", Nav: "agents", Twin: s.link("v1", "flight", "agents")}
	return pageList(s, c, "agents", v, func(p app.Page) (app.List[app.AgentView], error) { return s.node.Agents(c.UserContext(), p) })
}

func pageEpochs(s *Server, c *fiber.Ctx) error {
	v := pageView{Title: "Epochs", Nav: "epochs", Twin: s.link("v1", "flight", "epochs")}
	return pageList(s, c, "epochs", v, func(p app.Page) (app.List[app.EpochView], error) { return s.node.Epochs(c.UserContext(), p) })
}

func pageConflicts(s *Server, c *fiber.Ctx) error {
	v := pageView{Title: "Conflicts", Nav: "conflicts", Twin: s.link("v1", "flight", "equivocations")}
	return pageList(s, c, "conflicts", v, func(p app.Page) (app.List[app.EvidenceView], error) {
		return s.node.Equivocations(c.UserContext(), nil, p)
	})
}

// An agentView is the page of one agent. A rating stands nowhere without the
// coverage beside it.
type agentView struct {
	app.AgentView
	StreamList                            []app.StreamView
	StepList                              []stepView
	ConflictList                          []app.EvidenceView
	MoreStreams, MoreSteps, MoreConflicts bool
	Dial                                  dialView
	Tape                                  *tapeView // of the stream that was seen last, nil without streams
	URL                                   string
}

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
	v := agentView{
		AgentView: agent, StreamList: streams.Items, ConflictList: conflicts.Items, Dial: dial(s.primary(agent)), URL: s.selfURL(c),
		MoreStreams: streams.Next != "", MoreSteps: steps.Next != "", MoreConflicts: conflicts.Next != "",
	}
	if v.Tape, err = s.agentTape(c, streams.Items); err != nil {
		return err
	}
	for _, st := range steps.Items {
		row, err := viewStep(st)
		if err != nil {
			return err
		}
		v.StepList = append(v.StepList, row)
	}
	return s.render(c, "agent", pageView{Title: "Agent " + shorten(a.String()), Nav: "agents", Twin: s.link("v1", "flight", "agents", a), View: v}, agent)
}

type streamView struct {
	app.StreamView
	Items []app.BatchView
	Tape  *tapeView
}

func pageStream(s *Server, c *fiber.Ctx) error {
	a, name, err := paramStream(c)
	if err != nil {
		return err
	}
	p, err := queryPage(c)
	if err != nil {
		return err
	}
	st, err := s.node.Stream(c.UserContext(), a, name)
	if err != nil {
		return err
	}
	batches, err := s.node.StreamBatches(c.UserContext(), a, name, p)
	if err != nil {
		return err
	}
	tape, err := s.node.Tape(c.UserContext(), a, name, tapeSteps)
	if err != nil {
		return err
	}
	v := pageView{Title: "Stream " + name, Nav: "agents", Twin: s.link("v1", "flight", "agents", a, "streams", name),
		Next: nextLink(c, batches.Next, p.Limit), View: streamView{st, batches.Items, s.drawTape(tape)}}
	return s.render(c, "stream", v, st)
}

func pageStep(s *Server, c *fiber.Ctx) error {
	a, name, err := paramStream(c)
	if err != nil {
		return err
	}
	seq, err := paramNumber(c, "seq")
	if err != nil {
		return err
	}
	step, err := s.node.StepAt(c.UserContext(), a, name, seq)
	if err != nil {
		return err
	}
	v, err := viewStep(step)
	if err != nil {
		return err
	}
	if v.Panel, err = s.stepPanel(c, step, seq); err != nil {
		return err
	}
	return s.render(c, "step", pageView{Title: fmt.Sprintf("Step %d of %s", seq, name), Nav: "agents", Twin: s.link("v1", "flight", "proofs", step.StepHash), View: v,
		Module: s.link("static", s.pages.verify.Record.Script.Name), Asks: true}, step)
}

func pageBatch(s *Server, c *fiber.Ctx) error {
	id, err := paramHash(c, "batchId")
	if err != nil {
		return err
	}
	b, err := s.node.Batch(c.UserContext(), id)
	if err != nil {
		return err
	}
	v := pageView{Title: "Batch " + shorten(id.String()), Nav: "agents", Twin: s.link("v1", "flight", "batches", id), View: b}
	return s.render(c, "batch", v, b)
}

func pageEpoch(s *Server, c *fiber.Ctx) error {
	id, err := paramEpoch(c)
	if err != nil {
		return err
	}
	e, err := s.node.Epoch(c.UserContext(), id)
	if err != nil {
		return err
	}
	v := pageView{Title: fmt.Sprintf("Epoch %d", e.ID), Nav: "epochs", Twin: s.link("v1", "flight", "epochs", id), View: e}
	return s.render(c, "epoch", v, e)
}

func pageConflict(s *Server, c *fiber.Ctx) error {
	id, err := paramNumber(c, "id")
	if err != nil {
		return err
	}
	e, err := s.node.Equivocation(c.UserContext(), id)
	if err != nil {
		return err
	}
	v := pageView{Title: fmt.Sprintf("Conflict %d", id), Nav: "conflicts", Twin: s.link("v1", "flight", "equivocations", id), View: conflictView{e, s.conflictPanel(e)},
		Module: s.link("static", s.pages.verify.Evidence.Script.Name)}
	return s.render(c, "conflict", v, e)
}

// pageSearch goes to the one thing that the text names.
func pageSearch(s *Server, c *fiber.Ctx) error {
	q, err := queryValue(c, "q")
	if err != nil {
		return err
	}
	v := searchView{Query: q}
	if q != "" {
		to, err := s.find(c, q)
		if err != nil {
			return err
		}
		if to != "" {
			c.Context().Response.Header.Set(fiber.HeaderLocation, to)
			c.Context().Response.SetStatusCode(http.StatusSeeOther)
			return nil
		}
	}
	return s.render(c, "search", pageView{Title: "Search", View: v}, nil)
}

type searchView struct{ Query string }
