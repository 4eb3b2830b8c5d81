package web

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"karatum/app"
	"karatum/flight"
)

// A Node is what the server needs of the application; [app.App] is one. A slice
// that a method is given is not changed afterwards, so it may be kept. Errors that
// a client may see are [*app.Error]; all others are INTERNAL outside and whole in
// the log.
type Node interface {
	Ingest(ctx context.Context, body []byte) (app.IngestAnswer, error)
	IngestBulk(ctx context.Context, lines [][]byte) []app.BulkAnswer
	Disclose(ctx context.Context, body []byte, publish bool) (app.StepView, error)

	Batch(ctx context.Context, id flight.Hash) (app.BatchView, error)
	BatchSteps(ctx context.Context, id flight.Hash, limit int) (app.OpenedSteps, error)
	BatchProof(ctx context.Context, id flight.Hash) (app.BatchProofView, error)
	Step(ctx context.Context, stepHash flight.Hash) (app.StepView, error)
	QueueReplay(ctx context.Context, stepHash flight.Hash, prefix string) (app.ReplayView, error)
	ReplayOf(ctx context.Context, stepHash flight.Hash) (app.ReplayView, error)
	CancelReplay(ctx context.Context, stepHash flight.Hash, prefix string) (app.ReplayView, error)
	RerunReplay(ctx context.Context, stepHash flight.Hash, prefix string) (app.ReplayView, error)
	Replays(ctx context.Context, state string, p app.Page) (app.List[app.ReplaySummary], error)
	Replay(ctx context.Context, id uint64) (app.ReplayDetail, error)
	StepAt(ctx context.Context, agent flight.Address, stream string, seq uint64) (app.StepView, error)
	SealedStep(ctx context.Context, agent flight.Address, stream string, seq uint64) (app.SealedStepView, error)
	Agents(ctx context.Context, p app.Page) (app.List[app.AgentView], error)
	Agent(ctx context.Context, agent flight.Address) (app.AgentView, error)
	Streams(ctx context.Context, agent flight.Address, p app.Page) (app.List[app.StreamView], error)
	Stream(ctx context.Context, agent flight.Address, name string) (app.StreamView, error)
	Tape(ctx context.Context, agent flight.Address, stream string, steps uint64) (app.TapeView, error)
	StreamBatches(ctx context.Context, agent flight.Address, name string, p app.Page) (app.List[app.BatchView], error)
	Steps(ctx context.Context, agent flight.Address, state flight.State, p app.Page) (app.List[app.StepView], error)
	StepCounts(ctx context.Context, agent flight.Address) (app.VerdictsView, error)
	Anchoring(ctx context.Context, agent flight.Address) (app.AnchoringView, error)
	Epochs(ctx context.Context, p app.Page) (app.List[app.EpochView], error)
	Epoch(ctx context.Context, rootOrID string) (app.EpochView, error)
	Equivocations(ctx context.Context, agent *flight.Address, p app.Page) (app.List[app.EvidenceView], error)
	Equivocation(ctx context.Context, id uint64) (app.EvidenceView, error)
	Export(ctx context.Context, agent flight.Address) (*app.Export, error)
	Search(ctx context.Context, text string) (app.SearchView, error)

	AnchorForOperator(ctx context.Context) (app.AnchorRun, error)
	Recheck(ctx context.Context, stepHash flight.Hash) (app.RecheckView, error)
	DeleteReveals(ctx context.Context, stepHash flight.Hash) error

	Network() app.NetworkView
	Pulse() app.PulseView
	Events() *app.Events
	Status(ctx context.Context) (app.StatusView, error)
	Ready(ctx context.Context) error
	CheckOperator(token string) bool
	Metrics() prometheus.Gatherer
}
