package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"karatum/app"
	"karatum/flight"
	"karatum/web/verifier"
)

var update = flag.Bool("update", false, "write what is rendered to testdata")

func render(t testing.TB, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Render(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares what is rendered with testdata, an element on a line.
func golden(t *testing.T, name string, c templ.Component) {
	t.Helper()
	got := strings.ReplaceAll(render(t, c), "><", ">\n<") + "\n"
	file := filepath.Join("testdata", name+".html")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			t.Errorf("%s, line %d: %s\nwant %s", file, i+1, a[i], strings.Join(b[min(i, len(b)):min(i+1, len(b))], ""))
			return
		}
	}
	t.Errorf("%s has %d lines, want %d", file, len(a), len(b))
}

// layout is a whole page around a body.
func layout(title string, body templ.Component) templ.Component {
	return testSite().Layout(Page{Title: title, Nav: "agents", Twin: "/base/v1/status", Module: "/base/static/record.0123.js", Theme: "dark", Body: body})
}

// parts are what has a golden file: those that many pages are made of, and two pages.
func parts() map[string]templ.Component {
	s, rating, block := testSite(), 2.27, uint64(1234567)
	thin := RatedView{RatingView: app.RatingView{Rating: &rating, Confirmed: 1, Contradicted: 1}, Coverage: .5, OpenedSteps: 3, RecordedSteps: 6}
	event := app.Event{Seq: 5, At: ago(time.Second), Kind: app.EventBatch, Agent: address(1), Stream: hostileStream, FromSeq: 2, ToSeq: 4}
	return map[string]templ.Component{
		"rated-none":  Rated(RatedView{Dev: true}),
		"rated-thin":  Rated(thin),
		"rated":       Rated(s.Primary(testAgent(1))),
		"dial-none":   Dial(drawDial(RatedView{})),
		"dial-thin":   Dial(drawDial(thin)),
		"hash":        Hash(hash("x").String(), s.Link("batches", hash("x"))),
		"time":        s.Time(ago(49 * time.Hour)),
		"time-never":  s.Time(0),
		"name":        Name(hostileName),
		"anchor":      Anchor(app.AnchorView{ChainID: 1, BlockNumber: &block, State: "orphaned"}),
		"tape":        Tape(testTape()),
		"feed":        s.Feed(s.Row(&event)),
		"feed-blank":  s.Feed(FeedRow{Icon: "in"}),
		"statement":   statementCard("Statement a", statement{"eip712", "0x01", []statementLine{{"stream", hostileName, true}, {"index", "1", false}}}),
		"layout":      layout(hostileStream, Name(hostileName)),
		"page-agents": s.AgentsPage(List[app.AgentView]{Items: []app.AgentView{testAgent(1), testAgent(2)}, Next: "/base/agents?cursor=x&limit=2"}),
		"page-error":  s.ErrorPage("Not found", &app.Error{Code: "NOT_FOUND", Message: hostileName, Details: map[string]any{"field": hostileName}}, "id-1", "/base/agents/"+hostileName),
	}
}

// bodies are the pages of a node on which everything that an agent, a chain's node or
// a requester can choose is hostile.
func bodies(t testing.TB) map[string]templ.Component {
	s, step := testSite(), testStep(t)
	conflict := app.EvidenceView{ID: 1, Agent: address(1), Stream: hostileStream, Index: 3, Reason: hostileName, SeenAt: ago(time.Minute), Evidence: json.RawMessage(`{"a":"<script>"}`)}
	batch := app.BatchView{
		BatchID: hash("batch"), Scheme: flight.EIP712, Header: flight.Header{Agent: address(1), Stream: hostileStream, Index: 1, FromSeq: 1000, ToSeq: 1999, CreatedAt: ago(time.Hour) / 1000},
		Receipt: &flight.Receipt{Node: address(5), Position: 1000, ReceivedAt: ago(time.Hour), AnchorBy: ago(-time.Minute) / 1000},
	}
	epoch := app.EpochView{ID: 7, LastError: hostileName, Anchor: app.AnchorView{State: "final"}, Times: map[string]uint64{"pending": ago(time.Hour), hostileName: ago(time.Minute)}, Batches: []flight.Hash{hash("a")}}
	stream := app.StreamView{Agent: address(1), Stream: hostileStream, Gaps: []app.Missing{{}}}
	sealed := SealedView{URL: "http://127.0.0.1:8080", SealedStepView: app.SealedStepView{
		Agent: address(1), Stream: hostileStream, Seq: 1999, StepHash: &batch.Header.Head, Prev: &batch.Header.PrevHead, Index: 999, Size: 1000, Batch: batch,
		Neighbors: []app.SealedNeighbor{{Seq: 1998, Known: app.NeighborOpened, Verdict: "contradicted"}, {Seq: 2000, Known: app.NeighborMissing}},
	}}
	return map[string]templ.Component{
		"sealed":    s.SealedPage(sealed),
		"agent":     s.AgentPage(AgentView{AgentView: testAgent(1), StreamList: []app.StreamView{stream}, StepList: []StepView{step}, ConflictList: []app.EvidenceView{conflict}, Tape: testTape()}),
		"agents":    s.AgentsPage(List[app.AgentView]{First: true, URL: "http://127.0.0.1:8080"}),
		"step":      s.StepPage(step),
		"stream":    s.StreamPage(StreamView{StreamView: stream, Items: []app.BatchView{batch}, Tape: testTape()}),
		"batch":     s.BatchPage(testBatchView(t, batch)),
		"epochs":    s.EpochsPage(List[app.EpochView]{Items: []app.EpochView{epoch}}),
		"epoch":     s.EpochPage(ViewEpoch(epoch, hostileName, 0)),
		"conflicts": s.ConflictsPage(List[app.EvidenceView]{Items: []app.EvidenceView{conflict}}),
		"conflict":  s.ConflictPage(ConflictView{EvidenceView: conflict, Panel: verifier.Panel{Checks: verifier.EvidenceChecks()}}),
		"home":      s.HomePage(HomeView{StatusView: testStatus(), URL: "http://127.0.0.1:8080"}),
		"node":      s.NodePage(testStatus()),
		"docs": s.DocsPage(DocsView{URL: "http://127.0.0.1:8080", Groups: []RouteGroup{{ID: "operator", Title: "Operator", Routes: []RouteLine{{"GET", "/v1/status", "Status", "/base/v1/status"}}}},
			Codes: []CodeLine{{"BUSY", 503, "later"}}, Checks: []CheckLine{{"Title", "what it proves"}}}),
	}
}

func testBatchView(t testing.TB, b app.BatchView) BatchView {
	t.Helper()
	v, err := ViewBatch(b, app.OpenedSteps{Steps: []app.TapeStep{{Seq: b.Header.FromSeq + 3, State: "confirmed", ClaimKind: hostileName}}, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestGolden(t *testing.T) {
	for name, c := range parts() {
		t.Run(name, func(t *testing.T) { golden(t, name, c) })
	}
}

// Nothing that an agent chose becomes markup or turns text around, whatever the part.
func TestHostile(t *testing.T) {
	all := parts()
	for name, body := range bodies(t) {
		all[name] = layout(hostileName, body)
	}
	for name, c := range all {
		got := render(t, c)
		for _, bad := range []string{"<script>", "<img", "alert(1)<", "\u202e", "\a", " style=", "about:invalid", "%!", "<nil>"} {
			if strings.Contains(got, bad) {
				t.Errorf("%s shows %q", name, bad)
			}
		}
		if strings.Contains(got, "of 24") && !strings.Contains(got, "overage") {
			t.Errorf("%s shows a rating without its coverage", name)
		}
	}
}

// A document that is not JSON makes no page, instead of a part of one.
func TestBrokenDocument(t *testing.T) {
	v := testStep(t)
	v.Panel.Document = json.RawMessage(`{"a": `)
	var b bytes.Buffer
	if err := testSite().StepPage(v).Render(context.Background(), &b); err == nil {
		t.Error("a broken document was rendered")
	}
}

// BenchmarkAgents renders the page of agents with 50 rows.
func BenchmarkAgents(b *testing.B) {
	s := testSite()
	var list List[app.AgentView]
	for i := range 50 {
		list.Items = append(list.Items, testAgent(byte(i)))
	}
	var buf bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		buf.Reset()
		if err := s.Layout(Page{Title: "Agents", Body: s.AgentsPage(list)}).Render(context.Background(), &buf); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(buf.Len()))
}
