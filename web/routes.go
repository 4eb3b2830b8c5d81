package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"karatum/app"
	"karatum/web/pages"
)

// A kind says which limits and headers a route has.
type kind int

const (
	free  kind = iota // health and files: no limit
	read              // one token of the reads' bucket, open to every origin
	write             // one token of the writes' bucket, open to every origin
	bulk              // takes its own tokens, one a line; open to every origin
	admin             // one token of the writes' bucket, then the operator's token
	page              // one token of the reads' bucket, HTML or its JSON twin
)

// A route is one line of the table below, which registers the handlers and makes
// /v1/openapi.json.
type route struct {
	method  string
	path    string // fiber's, without the base path
	kind    kind
	handle  func(*Server, *fiber.Ctx) error
	summary string
	answer  any      // zero value of what a 2xx carries as JSON; nil for no JSON
	codes   []string // refusals besides those that every route has
	query   []string // names in queryParams
	body    *bodySpec
	status  int    // of success, 200 where zero
	moves   bool   // or 303 to another page
	media   string // of success, where not JSON alone
}

// A bodySpec is what a route takes.
type bodySpec struct {
	accepts []string // media types, the preferred first
	limit   int      // bytes
	schema  string   // in components
	example string   // in web/examples, "" for none
}

var (
	jsonType   = []string{"application/json"}
	ndjsonType = []string{"application/x-ndjson", "application/ndjson", "application/jsonl"}

	batchBody = &bodySpec{jsonType, smallBody, "Batch", "batch.json"}
	bulkLines = &bodySpec{ndjsonType, bulkBody, "BatchLines", ""}
	disclosed = &bodySpec{jsonType, proofBody, "Disclosure", "disclosure.json"}
	emptyBody = &bodySpec{jsonType, smallBody, "Empty", ""}

	paged   = []string{"limit", "cursor"}
	byState = []string{"limit", "cursor", "state"}
)

const (
	mediaHTML = "text/html"
	mediaText = "text/plain"
	mediaLine = "application/x-ndjson"
	mediaFile = "*/*"
	mediaSSE  = "text/event-stream"
	mediaSVG  = "image/svg+xml"
	mediaGzip = "application/gzip"
)

func routes() []route {
	get, post := http.MethodGet, http.MethodPost
	refusedBatch := []string{"CLOCK_SKEW", "BAD_SIGNATURE", "EQUIVOCATION", "BATCH_QUOTA", "DISK_FULL", "BUSY"}
	refusedProof := []string{"STEP_SCHEMA", "SIGNATURE", "STEP_BATCH", "PROOF", "PREV_HEAD", "HEAD", "REVEAL_KEY", "COMMITMENT", "CLAIM",
		"UNKNOWN_BATCH", "REVEAL_TOO_LARGE", "REVEAL_QUOTA", "DISK_FULL", "BUSY"}
	replayCodes := []string{"UNKNOWN_STEP", "UNKNOWN_REPLAY", "NO_TX", "REPLAY_STATE", "DISK_FULL", "BUSY"}
	return []route{
		// Writes, each signed by its own content.
		{method: post, path: "/v1/flight/batches", kind: write, handle: postBatch, summary: "Take in one signed batch. 201 is sent after the row is durable; 200 repeats the receipt of a duplicate.",
			answer: app.IngestAnswer{}, status: http.StatusCreated, codes: refusedBatch, body: batchBody},
		{method: post, path: "/v1/flight/batches/bulk", kind: bulk, handle: postBulk, summary: "Take in many batches, one a line. Each gets an answer line, in order: what the single route answers, or its error.",
			answer: nil, media: mediaLine, codes: []string{"BUSY"}, body: bulkLines},
		{method: post, path: "/v1/flight/proofs", kind: write, handle: postProof, summary: "Disclose fields of one step. Every check is done; 422 names the first that fails. Each 64 KiB of the body count as a request.",
			answer: app.StepView{}, codes: refusedProof, query: []string{"publishReveals"}, body: disclosed},
		{method: post, path: "/v1/flight/proofs/:stepHash/replay", kind: write, handle: postReplay, summary: "Queue the replay of the step's transaction; ?prefix=none leaves the block's earlier transactions out.",
			answer: app.ReplayView{}, status: http.StatusAccepted, codes: []string{"UNKNOWN_STEP", "NO_TX", "FOREIGN_TX", "REPLAY_QUEUE", "DISK_FULL", "BUSY"}, query: []string{"prefix"}, body: emptyBody},

		// Reads.
		{method: get, path: "/v1/flight/batches/:batchId", kind: read, handle: getBatch, summary: "One batch with its receipt, and its epoch or null.", answer: app.BatchView{}, codes: []string{"UNKNOWN_BATCH"}},
		{method: get, path: "/v1/flight/batches/:batchId/proof", kind: read, handle: getBatchProof, summary: "The batch's place in its epoch, and the anchor.", answer: app.BatchProofView{}, codes: []string{"UNKNOWN_BATCH", "NOT_ANCHORED"}},
		{method: get, path: "/v1/flight/proofs/:stepHash", kind: read, handle: getStep, summary: "One disclosed step with its verdict.", answer: app.StepView{}, codes: []string{"UNKNOWN_STEP"}},
		{method: get, path: "/v1/flight/proofs/:stepHash/bundle", kind: read, handle: getBundle, summary: "The disclosure with its batch's place in the epoch, as karatum verify takes them.", answer: bundle{}, codes: []string{"UNKNOWN_STEP"}},
		{method: get, path: "/v1/flight/proofs/:stepHash/replay", kind: read, handle: getReplay, summary: "The replay of the step's transaction.", answer: app.ReplayView{}, codes: []string{"UNKNOWN_STEP", "UNKNOWN_REPLAY"}},
		{method: get, path: "/v1/flight/replays", kind: read, handle: getReplays, summary: "Replays of transactions, the last queued first.", answer: app.List[app.ReplaySummary]{}, query: byState},
		{method: get, path: "/v1/flight/replays/:replay", kind: read, handle: getReplayByID, summary: "One replay: the chain's receipt beside the replayed one, and what that rests on.", answer: app.ReplayDetail{}, codes: []string{"UNKNOWN_REPLAY"}},
		{method: get, path: "/v1/flight/agents", kind: read, handle: getAgents, summary: "The keys that sent batches.", answer: app.List[app.AgentView]{}, query: paged},
		{method: get, path: "/v1/flight/agents/:address", kind: read, handle: getAgent, summary: "Counts, field rating with coverage, binding.", answer: app.AgentView{}, codes: []string{"UNKNOWN_AGENT"}},
		{method: get, path: "/v1/flight/agents/:address/streams", kind: read, handle: getStreams, summary: "The streams of a key.", answer: app.List[app.StreamView]{}, query: paged, codes: []string{"UNKNOWN_AGENT"}},
		{method: get, path: "/v1/flight/agents/:address/streams/:stream", kind: read, handle: getStream, summary: "What a recorder reads before it signs: batches, gaps, head.", answer: app.StreamView{}, codes: []string{"UNKNOWN_STREAM"}},
		{method: get, path: "/v1/flight/agents/:address/streams/:stream/batches", kind: read, handle: getStreamBatches, summary: "The batches of a stream, by index.", answer: app.List[app.BatchView]{}, query: paged, codes: []string{"UNKNOWN_STREAM"}},
		{method: get, path: "/v1/flight/agents/:address/streams/:stream/steps/:seq", kind: read, handle: getStepAt, summary: "The disclosed step at a place of a stream.", answer: app.StepView{}, codes: []string{"UNKNOWN_STEP"}},
		{method: get, path: "/v1/flight/agents/:address/steps", kind: read, handle: getSteps, summary: "The disclosed steps of a key. A part ends early where much is kept open of them.", answer: app.List[app.StepView]{}, query: append([]string{"verdict"}, paged...), codes: []string{"UNKNOWN_AGENT"}},
		{method: get, path: "/v1/flight/agents/:address/equivocations", kind: read, handle: getAgentEquivocations, summary: "Evidence against one key.", answer: app.List[app.EvidenceView]{}, query: paged, codes: []string{"UNKNOWN_AGENT"}},
		{method: get, path: "/v1/flight/agents/:address/export", kind: read, handle: getExport, summary: "The whole public record of a key as one archive, which karatum verify checks. It costs 100 reads, and few run at once.", media: mediaGzip, codes: []string{"UNKNOWN_AGENT", "BUSY"}},
		{method: get, path: "/v1/flight/epochs", kind: read, handle: getEpochs, summary: "Epochs with their anchors.", answer: app.List[app.EpochView]{}, query: paged},
		{method: get, path: "/v1/flight/epochs/:root", kind: read, handle: getEpoch, summary: "One epoch, by root or number, with its batch ids.", answer: app.EpochView{}, codes: []string{"UNKNOWN_EPOCH"}},
		{method: get, path: "/v1/flight/equivocations", kind: read, handle: getEquivocations, summary: "Evidence of two signed histories under one stream.", answer: app.List[app.EvidenceView]{}, query: paged},
		{method: get, path: "/v1/flight/equivocations/:id", kind: read, handle: getEquivocation, summary: "One piece of evidence, checkable from its JSON alone.", answer: app.EvidenceView{}, codes: []string{"UNKNOWN_EVIDENCE"}},
		{method: get, path: "/v1/status", kind: read, handle: getStatus, summary: "What the node is doing.", answer: app.StatusView{}},
		{method: get, path: "/v1/openapi.json", kind: read, handle: getOpenAPI, summary: "This description.", answer: map[string]any{}},

		// Operator only.
		{method: post, path: "/v1/admin/anchor", kind: admin, handle: postAnchor, summary: "Anchor what waits, now.", answer: app.AnchorRun{}, body: emptyBody, codes: []string{"NOT_READY"}},
		{method: post, path: "/v1/admin/proofs/:stepHash/delete-reveals", kind: admin, handle: postDeleteReveals, summary: "Delete the published reveals of a step. The opened claim stays.", answer: struct{}{}, body: emptyBody, codes: []string{"UNKNOWN_STEP"}},

		{method: post, path: "/v1/admin/proofs/:stepHash/recheck", kind: admin, handle: postRecheck, summary: "Look at the step's transaction again at the next run, its verdict final or not.", answer: app.RecheckView{}, status: http.StatusAccepted, body: emptyBody, codes: []string{"UNKNOWN_STEP", "NO_TX", "RECHECK_QUEUE", "DISK_FULL", "BUSY"}},
		{method: post, path: "/v1/admin/proofs/:stepHash/replay/cancel", kind: admin, handle: postReplayCancel, summary: "End the queued or running replay of the step's transaction. It stays cancelled until the operator has it run again.", answer: app.ReplayView{}, status: http.StatusAccepted, body: emptyBody, query: []string{"prefix"}, codes: replayCodes},
		{method: post, path: "/v1/admin/proofs/:stepHash/replay/rerun", kind: admin, handle: postReplayRerun, summary: "Queue the replay of the step's transaction once more, however it has ended. Its result is forgotten.", answer: app.ReplayView{}, status: http.StatusAccepted, body: emptyBody, query: []string{"prefix"}, codes: append([]string{"REPLAY_QUEUE"}, replayCodes...)},

		// Health and files.
		{method: get, path: "/healthz", kind: free, handle: getHealth, summary: "Liveness: the process answers.", media: mediaText},
		{method: get, path: "/readyz", kind: free, handle: getReady, summary: "Readiness: chain, database and crons work.", media: mediaText, codes: []string{"NOT_READY"}},
		{method: get, path: "/metrics", kind: free, handle: getMetrics, summary: "Prometheus metrics.", media: mediaText},
		{method: get, path: "/static/*", kind: free, handle: getStatic, summary: "Style sheet, script, fonts and icon of the pages.", media: mediaFile, codes: []string{"NOT_FOUND"}},
		{method: get, path: "/sdk/*", kind: free, handle: serveTree, summary: "The single-file SDKs; their names at the directory itself.", media: mediaFile, codes: []string{"NOT_FOUND"}},
		{method: get, path: "/testvectors/*", kind: free, handle: serveTree, summary: "The test vectors of the format; their names at the directory itself.", media: mediaFile, codes: []string{"NOT_FOUND"}},

		// Pages. Each has the JSON of the API under Accept: application/json.
		{method: get, path: "/", kind: page, handle: pageHome, summary: "Live events, status and quick start.", answer: app.StatusView{}, query: []string{"topics"}, media: mediaHTML},
		{method: get, path: "/events/stream", kind: page, handle: getEvents, summary: "Events as they happen, as server-sent events; Last-Event-ID resumes.", query: []string{"topics", "since"}, media: mediaSSE, codes: []string{"BUSY"}},
		{method: get, path: "/agents", kind: page, handle: pageAgents, summary: "Agents.", answer: app.List[app.AgentView]{}, query: paged, media: mediaHTML},
		{method: get, path: "/agents/:address", kind: page, handle: pageAgent, summary: "One agent.", answer: app.AgentView{}, media: mediaHTML, codes: []string{"UNKNOWN_AGENT"}},
		{method: get, path: "/agents/:address/badge.svg", kind: page, handle: getBadge, summary: "An agent's rating with its coverage, as a picture for other sites.", media: mediaSVG, codes: []string{"UNKNOWN_AGENT"}},
		{method: get, path: "/agents/:address/streams", kind: page, handle: pageNamedStream, summary: "The stream called ?called=, which may be called anything.", answer: app.StreamView{}, query: append([]string{"called"}, paged...), media: mediaHTML, codes: []string{"UNKNOWN_STREAM"}},
		{method: get, path: "/agents/:address/:stream", kind: page, handle: pageStream, summary: "One stream.", answer: app.StreamView{}, query: paged, media: mediaHTML, codes: []string{"UNKNOWN_STREAM"}},
		{method: get, path: "/agents/:address/:stream/:seq", kind: page, handle: pageStep, summary: "One step. Of one that nobody opened, the page and its JSON, which has sealed: true and no record, say which batch covers it.", answer: app.StepView{}, media: mediaHTML, codes: []string{"UNKNOWN_STEP"}},
		{method: get, path: "/batches/:batchId", kind: page, handle: pageBatch, summary: "One batch.", answer: app.BatchView{}, media: mediaHTML, codes: []string{"UNKNOWN_BATCH"}},
		{method: get, path: "/epochs", kind: page, handle: pageEpochs, summary: "Epochs.", answer: app.List[app.EpochView]{}, query: paged, media: mediaHTML},
		{method: get, path: "/epochs/:root", kind: page, handle: pageEpoch, summary: "One epoch with its tree, and the path of one batch.", answer: app.EpochView{}, query: []string{"batch", "block"}, media: mediaHTML, codes: []string{"UNKNOWN_EPOCH"}},
		{method: get, path: "/conflicts", kind: page, handle: pageConflicts, summary: "Evidence of equivocation.", answer: app.List[app.EvidenceView]{}, query: paged, media: mediaHTML},
		{method: get, path: "/conflicts/:id", kind: page, handle: pageConflict, summary: "One piece of evidence.", answer: app.EvidenceView{}, media: mediaHTML, codes: []string{"UNKNOWN_EVIDENCE"}},
		{method: get, path: "/search", kind: page, handle: pageSearch, summary: "Find what an address, hash or number names: one thing redirects, several are listed.", answer: app.SearchView{}, query: []string{"q"}, media: mediaHTML, moves: true},
		{method: get, path: "/replays", kind: page, handle: pageReplays, summary: "Replays of transactions.", answer: app.List[app.ReplaySummary]{}, query: byState, media: mediaHTML},
		{method: get, path: "/replays/:replay", kind: page, handle: pageReplay, summary: "One replay: both outcomes side by side.", answer: app.ReplayDetail{}, media: mediaHTML, codes: []string{"UNKNOWN_REPLAY"}},
		{method: get, path: "/verify", kind: page, handle: pageVerify, summary: "Check any document in the reader's browser.", media: mediaHTML},
		{method: get, path: offlinePath, kind: free, handle: getOffline, summary: "The page that checks documents without a network, in one file.", media: mediaHTML},
		{method: get, path: "/node", kind: page, handle: pageNode, summary: "Health of the node.", answer: app.StatusView{}, media: mediaHTML},
		{method: get, path: "/docs", kind: page, handle: pageDocs, summary: "How a record is made and checked, the API, error codes.", answer: pages.DocsView{}, media: mediaHTML},
		{method: get, path: "/about", kind: page, handle: pageAbout, summary: "What is proved and what is not, licences.", media: mediaHTML},
	}
}

// register builds fiber's routes from the table: HEAD beside each GET, and the
// preflight answer beside what is open to every origin.
func (s *Server) register() {
	s.bodyLimits = map[string]int{}
	methods, paths := map[string]string{}, []string(nil)
	for i := range s.table {
		r := &s.table[i]
		path := s.cfg.BasePath + r.path
		h := s.wrap(r)
		if r.hasSuffix() { // before the page, whose parameter would take the suffix too
			s.fiber.Add(r.method, path+twinSuffix, asTwin(h))
		}
		s.fiber.Add(r.method, path, h)
		allow := r.method
		if r.method == http.MethodGet {
			s.fiber.Add(http.MethodHead, path, h)
			allow = "GET, HEAD"
		}
		if r.body != nil && r.body.limit > smallBody {
			s.bodyLimits[path] = r.body.limit
		}
		if s.isOpen([]byte(path)) {
			if methods[path] == "" {
				paths = append(paths, path)
			}
			methods[path] = join(methods[path], allow)
		}
	}
	for _, path := range paths { // as in the table: a name goes before a parameter
		s.fiber.Add(http.MethodOptions, path, preflight(methods[path]))
	}
}

// twinSuffix asks for a page as JSON.
const twinSuffix = ".json"

// hasSuffix reports whether the page is JSON under its address with the suffix:
// where the last part of the address is not a free name, which says so itself.
func (r *route) hasSuffix() bool {
	return r.kind == page && r.answer != nil && r.path != "/" && !strings.HasSuffix(r.path, "/:stream")
}

func asTwin(h fiber.Handler) fiber.Handler {
	return func(c *fiber.Ctx) error {
		c.Context().SetUserValue(twinSuffix, true)
		return h(c)
	}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// wrap is what stands before every handler: deadline, limits and guards, in the
// order of their cost, and the count of the answer.
func (s *Server) wrap(r *route) fiber.Handler {
	counters := s.metrics.of(r.method, r.path)
	open := s.isOpen([]byte(s.cfg.BasePath + r.path))
	return func(c *fiber.Ctx) error {
		if open {
			openCORS(&c.Context().Response.Header)
		}
		c.SetUserContext(s.contextOf(r))
		err := s.guard(r, c)
		if err == nil {
			err = r.handle(s, c)
		}
		if err != nil {
			s.fail(c, err)
		} else if res := &c.Context().Response; r.kind == read && !res.IsBodyStream() {
			s.oweFor(c.Context(), len(res.Body()))
		}
		counters.count(c.Context().Response.StatusCode())
		return nil
	}
}

func (s *Server) contextOf(r *route) context.Context {
	if r.kind == admin {
		return s.patience.current()
	}
	return s.deadlines.current()
}

// guard takes the route's tokens and checks what must hold before its body is read.
func (s *Server) guard(r *route, c *fiber.Ctx) error {
	bucket := s.reads
	switch r.kind {
	case free, bulk:
		bucket = nil
	case write, admin:
		bucket = s.writes
	}
	if bucket != nil {
		if got, wait := bucket.take(s.clientAddr(c.Context()), 1, s.cfg.Now()); got == 0 {
			return rateLimited(wait)
		}
	}
	if r.kind == admin {
		if e := s.adminGuard(c); e != nil {
			return e
		}
	}
	if r.body != nil {
		if e := checkMedia(&c.Context().Request.Header, r.body.accepts); e != nil {
			return e
		}
	}
	return nil
}

// readToken is the bytes of an answer that one token of the reads buys: a step's page of
// a megabyte takes a quarter of a second to make.
const readToken = 128 << 10

// oweFor takes what a large answer costs beyond the token of every read.
func (s *Server) oweFor(ctx *fasthttp.RequestCtx, size int) {
	s.reads.owe(s.clientAddr(ctx), size/readToken, s.cfg.Now())
}

// preflight answers a browser that asks before it reads or posts.
func preflight(allow string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		h := &c.Context().Response.Header
		openCORS(h)
		h.Set(fiber.HeaderAllow, allow+", OPTIONS")
		h.Set(fiber.HeaderAccessControlAllowMethods, allow)
		h.Set(fiber.HeaderAccessControlAllowHeaders, "Content-Type")
		h.Set(fiber.HeaderAccessControlMaxAge, "86400")
		c.Context().Response.SetStatusCode(http.StatusNoContent)
		return nil
	}
}
