package pages

import (
	"fmt"

	"karatum/app"
)

// FeedRows is how many events the front page keeps, and the most that a stream
// sends at once.
const FeedRows = 100

// A FeedRow is an event in words: who, verb, what with its address, and the rest.
// The stream sends it as JSON, and the page has the same rows without a script.
type FeedRow struct {
	Seq   uint64 `json:"seq"`
	At    uint64 `json:"at"` // unix ms
	Topic string `json:"topic"`
	Kind  string `json:"kind"`
	State string `json:"state,omitempty"`
	Icon  string `json:"icon"`
	Agent string `json:"agent,omitempty"` // address
	Who   string `json:"who,omitempty"`   // the same, short
	Home  string `json:"agentHref,omitempty"`
	Verb  string `json:"verb"`
	What  string `json:"what"`
	Href  string `json:"href"`
	Tail  string `json:"tail,omitempty"`
	Sub   string `json:"sub,omitempty"`
}

// Row says an event in words.
func (s *Site) Row(e *app.Event) FeedRow {
	r := FeedRow{Seq: e.Seq, At: e.At, Topic: e.Topic(), Kind: e.Kind, State: e.State}
	if e.Kind == app.EventEpoch {
		s.epochRow(&r, e)
		return r
	}
	r.Agent, r.Who, r.Home = e.Agent.String(), Shorten(e.Agent.String()), s.Link("agents", e.Agent)
	step := func() {
		r.What, r.Href = fmt.Sprintf("%s %s", isolated(e.Stream), number(e.FromSeq)), s.StepLink(e.Agent, e.Stream, e.FromSeq)
	}
	switch e.Kind {
	case app.EventBatch:
		r.Icon, r.Verb, r.What, r.Href = "in", "delivered", fmt.Sprintf("%s batch %s", isolated(e.Stream), number(e.Index)), s.Link("batches", e.BatchID)
		if r.Tail = ", 1 step"; e.ToSeq > e.FromSeq {
			r.Tail = fmt.Sprintf(", %s steps", number(e.ToSeq-e.FromSeq+1))
		}
		switch e.State {
		case app.Gap:
			r.Sub = "Batches before it are missing"
		case app.Filled:
			r.Sub = "Fills a gap"
		}
	case app.EventOpened:
		r.Icon, r.Verb = "unk", "opened"
		step()
		if r.Sub = reasonWords(e.Reason); e.Reason == "TX_NOT_FOUND" {
			r.Sub = "Its claim is compared with the chain next"
		}
	case app.EventVerdict:
		r.Icon, r.Verb = stateClass(e.State), "made a claim in"
		step()
		r.Tail = ": " + e.State
		if r.Sub = verdictWords[e.State]; e.Reason != "" {
			r.Sub = reasonWords(e.Reason)
		}
	case app.EventConflict:
		r.Icon, r.Verb, r.What, r.Href = "warn", "signed two histories of", fmt.Sprintf("%s batch %s", isolated(e.Stream), number(e.Index)), s.Link("conflicts")
		r.Sub = conflictReason(e.State) + ". Both statements are kept as evidence"
	}
	return r
}

// isolated is a name that does not reorder the words after it, in a text that goes to
// a script too.
func isolated(name string) string { return "\u2068" + Visible(name) + "\u2069" }

func (s *Site) epochRow(r *FeedRow, e *app.Event) {
	r.Icon, r.What, r.Href = "anchor", fmt.Sprintf("Epoch %d", e.Epoch), s.Link("epochs", e.Epoch)
	batches := "1 batch"
	if e.Batches != 1 {
		batches = number(e.Batches) + " batches"
	}
	switch e.State {
	case "failed", "orphaned":
		r.Icon, r.Tail, r.Sub = "warn", " with "+batches+": "+e.State, Visible(e.Reason)
	default:
		r.Tail = fmt.Sprintf(" with %s is %s", batches, e.State)
	}
	if e.BlockNum > 0 {
		r.Sub = "Block " + number(e.BlockNum)
	}
}
