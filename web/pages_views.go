package web

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/a-h/templ"
	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
	"karatum/web/pages"
)

// maxFeedLook is how many events the front page looks through for its topics.
const maxFeedLook = 1024

func pageHome(s *Server, c *fiber.Ctx) error {
	st, err := s.node.Status(c.UserContext())
	if err != nil {
		return err
	}
	topics, err := queryTopics(c)
	if err != nil {
		return err
	}
	v := pages.HomeView{StatusView: st, URL: s.selfURL(c)}
	s.feed(&v, topics)
	return s.render(c, pages.Page{Title: "Live", Nav: "home", Live: true, Twin: s.link("v1", "status"), Body: s.site.HomePage(v)}, st)
}

// feed fills in the events of the topics.
func (s *Server) feed(v *pages.HomeView, topics []string) {
	last := s.node.Events().Last()
	events, _ := s.node.Events().Since(0, maxFeedLook)
	for i := len(events) - 1; i >= 0 && len(v.Rows) < pages.FeedRows; i-- {
		if slices.Contains(topics, events[i].Topic()) {
			v.Rows = append(v.Rows, s.site.Row(&events[i]))
		}
	}
	v.Stream = s.link("events", "stream") + fmt.Sprintf("?topics=%s&since=%d", strings.Join(topics, ","), last)
	for _, t := range []struct{ name, topics string }{{"All", ""}, {"Records", app.TopicRecords}, {"Chain", app.TopicChain}} {
		l := pages.TopicLink{Name: t.name, Href: s.link(), Current: t.topics == strings.Join(topics, ",") || t.topics == "" && len(topics) > 1}
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
	return s.render(c, pages.Page{Title: "Node", Nav: "node", Live: true, Twin: s.link("v1", "status"), Body: s.site.NodePage(st)}, st)
}

func pageAbout(s *Server, c *fiber.Ctx) error {
	return s.render(c, pages.Page{Title: "About", Nav: "about", Body: s.site.AboutPage()}, nil)
}

// pageList renders one part of a list; show is its body.
func pageList[T any](s *Server, c *fiber.Ctx, p pages.Page, read func(context.Context, app.Page) (app.List[T], error), show func(pages.List[T]) templ.Component) error {
	part, err := queryPage(c)
	if err != nil {
		return err
	}
	list, err := read(c.UserContext(), part)
	if err != nil {
		return err
	}
	p.Body = show(pages.List[T]{Items: list.Items, URL: s.selfURL(c), First: part.Cursor == "", Next: nextLink(c, list.Next)})
	return s.render(c, p, list)
}

func pageAgents(s *Server, c *fiber.Ctx) error {
	p := pages.Page{Title: "Agents", Nav: "agents", Twin: s.link("v1", "flight", "agents")}
	return pageList(s, c, p, s.node.Agents, s.site.AgentsPage)
}

func pageEpochs(s *Server, c *fiber.Ctx) error {
	p := pages.Page{Title: "Epochs", Nav: "epochs", Twin: s.link("v1", "flight", "epochs")}
	return pageList(s, c, p, s.node.Epochs, s.site.EpochsPage)
}

func pageConflicts(s *Server, c *fiber.Ctx) error {
	p := pages.Page{Title: "Conflicts", Nav: "conflicts", Twin: s.link("v1", "flight", "equivocations")}
	read := func(ctx context.Context, part app.Page) (app.List[app.EvidenceView], error) {
		return s.node.Equivocations(ctx, nil, part)
	}
	return pageList(s, c, p, read, s.site.ConflictsPage)
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
	if errors.Is(err, app.ErrUnknownStep) {
		return s.sealedStep(c, a, name, seq)
	}
	if err != nil {
		return err
	}
	v, err := pages.ViewOpened(step)
	if err != nil {
		return err
	}
	proof, err := s.anchored(c, step.BatchID)
	if err != nil {
		return err
	}
	if proof != nil {
		v.Epoch = &pages.PlaceView{Place: proof.Proof, Anchor: proof.Anchor}
	}
	if v.Panel, err = s.stepPanel(step, proof, seq); err != nil {
		return err
	}
	return s.render(c, pages.Page{Title: fmt.Sprintf("Step %d of %s", seq, name), Nav: "agents", Twin: s.link("v1", "flight", "proofs", step.StepHash),
		Module: s.link("static", s.verify.Record.Script.Name), Asks: true, Body: s.site.StepPage(v)}, step)
}

// sealedStep is the page of a step that a stored batch covers and nobody opened.
func (s *Server) sealedStep(c *fiber.Ctx, agent flight.Address, stream string, seq uint64) error {
	step, err := s.node.SealedStep(c.UserContext(), agent, stream, seq)
	if err != nil {
		return err
	}
	v := pages.SealedView{SealedStepView: step, URL: s.selfURL(c)}
	return s.render(c, pages.Page{Title: fmt.Sprintf("Step %d of %s", seq, stream), Nav: "agents", Twin: s.site.StepLink(agent, stream, seq) + twinSuffix, Body: s.site.SealedPage(v)}, step)
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
	opened, err := s.node.BatchSteps(c.UserContext(), id, pages.MaxBatchLines)
	if err != nil {
		return err
	}
	v, err := pages.ViewBatch(b, opened)
	if err != nil {
		return err
	}
	return s.render(c, pages.Page{Title: "Batch " + pages.Shorten(id.String()), Nav: "agents", Twin: s.link("v1", "flight", "batches", id), Body: s.site.BatchPage(v)}, b)
}

func pageEpoch(s *Server, c *fiber.Ctx) error {
	id, err := paramEpoch(c)
	if err != nil {
		return err
	}
	batch, err := queryValue(c, "batch")
	if err != nil {
		return err
	}
	block, err := queryNumber(c, "block")
	if err != nil {
		return err
	}
	e, err := s.node.Epoch(c.UserContext(), id)
	if err != nil {
		return err
	}
	return s.render(c, pages.Page{Title: fmt.Sprintf("Epoch %d", e.ID), Nav: "epochs", Twin: s.link("v1", "flight", "epochs", id), Body: s.site.EpochPage(pages.ViewEpoch(e, batch, block))}, e)
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
	return s.render(c, pages.Page{Title: fmt.Sprintf("Conflict %d", id), Nav: "conflicts", Twin: s.link("v1", "flight", "equivocations", id),
		Module: s.link("static", s.verify.Evidence.Script.Name), Body: s.site.ConflictPage(pages.ConflictView{EvidenceView: e, Panel: s.conflictPanel(e)})}, e)
}
