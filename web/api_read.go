package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
)

// sendView answers with what a read of the node returned.
func sendView[T any](c *fiber.Ctx, v T, err error) error {
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, v)
}

// byHash is a read of one thing by its hash.
func byHash[T any](c *fiber.Ctx, name string, read func(context.Context, flight.Hash) (T, error)) error {
	h, err := paramHash(c, name)
	if err != nil {
		return err
	}
	v, err := read(c.UserContext(), h)
	return sendView(c, v, err)
}

// byAgent is a read of a list of one agent's things.
func byAgent[T any](c *fiber.Ctx, read func(context.Context, flight.Address, app.Page) (app.List[T], error)) error {
	a, err := paramAgent(c)
	if err != nil {
		return err
	}
	p, err := queryPage(c)
	if err != nil {
		return err
	}
	v, err := read(c.UserContext(), a, p)
	return sendView(c, v, err)
}

// byPage is a read of a list.
func byPage[T any](c *fiber.Ctx, read func(context.Context, app.Page) (app.List[T], error)) error {
	p, err := queryPage(c)
	if err != nil {
		return err
	}
	v, err := read(c.UserContext(), p)
	return sendView(c, v, err)
}

func getBatch(s *Server, c *fiber.Ctx) error      { return byHash(c, "batchId", s.node.Batch) }
func getBatchProof(s *Server, c *fiber.Ctx) error { return byHash(c, "batchId", s.node.BatchProof) }
func getReplay(s *Server, c *fiber.Ctx) error     { return byHash(c, "stepHash", s.node.ReplayOf) }
func getStep(s *Server, c *fiber.Ctx) error       { return byHash(c, "stepHash", s.node.Step) }
func getBundle(s *Server, c *fiber.Ctx) error {
	hash, err := paramHash(c, "stepHash")
	if err != nil {
		return err
	}
	step, err := s.node.Step(c.UserContext(), hash)
	if err != nil {
		return err
	}
	proof, err := s.anchored(c, step.BatchID)
	return sendView(c, bundle{step.Disclosure, proof}, err)
}

func getAgents(s *Server, c *fiber.Ctx) error  { return byPage(c, s.node.Agents) }
func getStreams(s *Server, c *fiber.Ctx) error { return byAgent(c, s.node.Streams) }
func getEpochs(s *Server, c *fiber.Ctx) error  { return byPage(c, s.node.Epochs) }

func getSteps(s *Server, c *fiber.Ctx) error {
	state, err := queryVerdict(c)
	if err != nil {
		return err
	}
	return byAgent(c, func(ctx context.Context, a flight.Address, p app.Page) (app.List[app.StepView], error) {
		return s.node.Steps(ctx, a, state, p)
	})
}

func getAgent(s *Server, c *fiber.Ctx) error {
	a, err := paramAgent(c)
	if err != nil {
		return err
	}
	v, err := s.node.Agent(c.UserContext(), a)
	return sendView(c, v, err)
}

func getStream(s *Server, c *fiber.Ctx) error {
	a, name, err := paramStream(c)
	if err != nil {
		return err
	}
	v, err := s.node.Stream(c.UserContext(), a, name)
	return sendView(c, v, err)
}

func getStreamBatches(s *Server, c *fiber.Ctx) error {
	a, name, err := paramStream(c)
	if err != nil {
		return err
	}
	p, err := queryPage(c)
	if err != nil {
		return err
	}
	v, err := s.node.StreamBatches(c.UserContext(), a, name, p)
	return sendView(c, v, err)
}

func getStepAt(s *Server, c *fiber.Ctx) error {
	a, name, err := paramStream(c)
	if err != nil {
		return err
	}
	seq, err := paramNumber(c, "seq")
	if err != nil {
		return err
	}
	v, err := s.node.StepAt(c.UserContext(), a, name, seq)
	return sendView(c, v, err)
}

func getEpoch(s *Server, c *fiber.Ctx) error {
	id, err := paramEpoch(c)
	if err != nil {
		return err
	}
	v, err := s.node.Epoch(c.UserContext(), id)
	return sendView(c, v, err)
}

// paramEpoch returns an epoch's root or number, in the one form of each.
func paramEpoch(c *fiber.Ctx) (string, error) {
	v, err := param(c, "root")
	if err != nil {
		return "", err
	}
	_, isNumber := decimal(v, maxSeq)
	if _, err := flight.ParseHash(v); err != nil && !isNumber {
		return "", badField("root", "an epoch is named by its root, 32 bytes as lower-case 0x hex, or by its number")
	}
	return v, nil
}

func getEquivocations(s *Server, c *fiber.Ctx) error {
	return byPage(c, func(ctx context.Context, p app.Page) (app.List[app.EvidenceView], error) {
		return s.node.Equivocations(ctx, nil, p)
	})
}

func getAgentEquivocations(s *Server, c *fiber.Ctx) error {
	return byAgent(c, func(ctx context.Context, a flight.Address, p app.Page) (app.List[app.EvidenceView], error) {
		return s.node.Equivocations(ctx, &a, p)
	})
}

func getEquivocation(s *Server, c *fiber.Ctx) error {
	id, err := paramNumber(c, "id")
	if err != nil {
		return err
	}
	v, err := s.node.Equivocation(c.UserContext(), id)
	return sendView(c, v, err)
}

func getReplays(s *Server, c *fiber.Ctx) error {
	state, err := queryValue(c, "state")
	if err != nil {
		return err
	}
	return byPage(c, func(ctx context.Context, p app.Page) (app.List[app.ReplaySummary], error) {
		return s.node.Replays(ctx, state, p)
	})
}

func getReplayByID(s *Server, c *fiber.Ctx) error {
	id, err := paramNumber(c, "replay")
	if err != nil {
		return err
	}
	v, err := s.node.Replay(c.UserContext(), id)
	return sendView(c, v, err)
}

func getStatus(s *Server, c *fiber.Ctx) error {
	v, err := s.node.Status(c.UserContext())
	return sendView(c, v, err)
}

func getOpenAPI(s *Server, c *fiber.Ctx) error { return sendFile(c, s.openapi, false) }

func getHealth(_ *Server, c *fiber.Ctx) error { return c.SendString("ok\n") }

// getReady answers 503 while something that the node needs does not work. What it
// is goes to the log and to /node, for an error may name addresses.
func getReady(s *Server, c *fiber.Ctx) error {
	err := s.node.Ready(c.UserContext())
	if err == nil {
		return c.SendString("ready\n")
	}
	var known *app.Error
	if errors.As(err, &known) {
		return known
	}
	s.log.WarnContext(c.UserContext(), "not ready", "err", err)
	return errNotReady
}
