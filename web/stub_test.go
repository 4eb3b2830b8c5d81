package web

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"karatum/app"
	"karatum/flight"
)

// stub answers for a node where a test is about HTTP alone. Methods that a test
// does not set panic, which is a test of its own.
type stub struct {
	Node
	ingest   func(ctx context.Context, body []byte) (app.IngestAnswer, error)
	bulk     func(ctx context.Context, lines [][]byte) []app.BulkAnswer
	disclose func(ctx context.Context, body []byte, publish bool) (app.StepView, error)
	agent    func(flight.Address) (app.AgentView, error)
	stream   func(flight.Address, string) (app.StreamView, error)
	agents   func(app.Page) (app.List[app.AgentView], error)
	events   *app.Events
	ready    error
	anchors  atomic.Int32
}

const operatorToken = "s3cret"

func (s *stub) Ingest(ctx context.Context, body []byte) (app.IngestAnswer, error) {
	return s.ingest(ctx, body)
}
func (s *stub) IngestBulk(ctx context.Context, lines [][]byte) []app.BulkAnswer {
	return s.bulk(ctx, lines)
}
func (s *stub) Disclose(ctx context.Context, body []byte, publish bool) (app.StepView, error) {
	return s.disclose(ctx, body, publish)
}
func (s *stub) Agent(_ context.Context, a flight.Address) (app.AgentView, error) { return s.agent(a) }
func (s *stub) Stream(_ context.Context, a flight.Address, name string) (app.StreamView, error) {
	return s.stream(a, name)
}
func (s *stub) Agents(_ context.Context, p app.Page) (app.List[app.AgentView], error) {
	return s.agents(p)
}
func (s *stub) Ready(context.Context) error     { return s.ready }
func (s *stub) CheckOperator(token string) bool { return token == operatorToken }
func (s *stub) Network() app.NetworkView {
	return app.NetworkView{Name: "dev", ChainID: 31337}
}
func (s *stub) Pulse() app.PulseView         { return app.PulseView{} }
func (s *stub) Events() *app.Events          { return s.events }
func (s *stub) Metrics() prometheus.Gatherer { return prometheus.NewRegistry() }
func (s *stub) AnchorForOperator(context.Context) (app.AnchorRun, error) {
	s.anchors.Add(1)
	return app.AnchorRun{Epochs: 1, Batches: 2}, nil
}

// echoNode takes every batch and says how long its body was.
func echoNode() *stub {
	return &stub{
		ingest: func(_ context.Context, body []byte) (app.IngestAnswer, error) {
			return app.IngestAnswer{Receipt: flight.Receipt{Position: uint64(len(body))}, Continuity: app.Continuous}, nil
		},
		bulk: func(_ context.Context, lines [][]byte) []app.BulkAnswer {
			out := make([]app.BulkAnswer, len(lines))
			for i, l := range lines {
				out[i] = app.BulkAnswer{Line: i, Answer: &app.IngestAnswer{Receipt: flight.Receipt{Position: uint64(len(l))}}}
			}
			return out
		},
		disclose: func(_ context.Context, body []byte, publish bool) (app.StepView, error) {
			return app.StepView{ReceivedAt: uint64(len(body)), Late: publish}, nil
		},
		agents: func(p app.Page) (app.List[app.AgentView], error) {
			return app.List[app.AgentView]{Items: []app.AgentView{}, Next: p.Cursor}, nil
		},
		stream: func(a flight.Address, name string) (app.StreamView, error) {
			return app.StreamView{Agent: a, Stream: name}, nil
		},
		agent: func(flight.Address) (app.AgentView, error) { return app.AgentView{}, app.ErrUnknownAgent },
	}
}

// start serves the node on a port of its own until the test ends and returns the
// address.
func start(t testing.TB, node Node, cfg Config) string {
	t.Helper()
	addr, _ := startStoppable(t, node, cfg)
	return addr
}

// startStoppable returns a stop function too, which waits for the end.
func startStoppable(t testing.TB, node Node, cfg Config) (string, func() error) {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := New(node, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	var ended bool
	stop := func() error {
		cancel()
		if ended {
			return nil
		}
		ended = true
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return ln.Addr().String(), stop
}

func flightReceipt(position uint64) flight.Receipt { return flight.Receipt{Position: position} }
