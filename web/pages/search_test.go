package pages

import (
	"strings"
	"testing"
	"time"

	"karatum/app"
	"karatum/flight"
)

// Every kind of hit has words, an address of its own and a line in the list.
func TestSearchPage(t *testing.T) {
	s := &Site{Base: "/under", Now: time.Now}
	agent, hash, n, epoch := flight.Address{1}, flight.Keccak256([]byte("x")).String(), uint64(7), uint64(3)
	v := app.SearchView{Query: "<b>", Tried: []string{}}
	for _, c := range []struct {
		hit        app.SearchHit
		href, text string
	}{
		{app.SearchHit{Kind: app.FoundAgent, ID: agent.String(), Agent: &agent}, "/under/agents/" + agent.String(), "Show"},
		{app.SearchHit{Kind: app.FoundNode, ID: agent.String()}, "/under/node", "Show"},
		{app.SearchHit{Kind: app.FoundStream, ID: agent.String(), Agent: &agent, Stream: "a b"}, "/under/agents/" + agent.String() + "/a%20b", "a b"},
		{app.SearchHit{Kind: app.FoundBatch, ID: hash, Agent: &agent, Stream: "main", Index: &n}, "/under/batches/" + hash, "main batch 7"},
		{app.SearchHit{Kind: app.FoundStep, ID: hash, Agent: &agent, Stream: "main", Seq: &n}, "/under/agents/" + agent.String() + "/main/7", "main 7"},
		{app.SearchHit{Kind: app.FoundTx, ID: hash, Agent: &agent, Stream: "\u202emain", Seq: &n, ChainID: &n}, "/under/agents/" + agent.String() + "/%E2%80%AEmain/7", `\u{202e}main 7`},
		{app.SearchHit{Kind: app.FoundCommitment, ID: hash, Agent: &agent, Stream: "main", Seq: &n}, "/under/agents/" + agent.String() + "/main/7", "main 7"},
		{app.SearchHit{Kind: app.FoundEpoch, ID: hash, Epoch: &epoch, ChainID: &n}, "/under/epochs/3", "Epoch 3"},
		{app.SearchHit{Kind: app.FoundAnchor, ID: hash, Epoch: &epoch, ChainID: &n}, "/under/epochs/3", "Epoch 3"},
	} {
		v.Hits = []app.SearchHit{c.hit}
		var b strings.Builder
		if err := s.SearchPage(v).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		words := foundWords[c.hit.Kind]
		if got := s.FoundAt(c.hit); got != c.href || !strings.Contains(b.String(), `href="`+c.href+`"`) || !strings.Contains(b.String(), c.text) ||
			words.is == "" || words.sought == "" || !strings.Contains(b.String(), words.is) || strings.Contains(b.String(), "<b>") {
			t.Errorf("%s: %s, want %s and %q in\n%s", c.hit.Kind, got, c.href, c.text, &b)
		}
	}
}

func TestSearchPageOfNothing(t *testing.T) {
	s := &Site{Now: time.Now}
	for _, c := range []struct {
		v    app.SearchView
		want string
	}{
		{app.SearchView{Query: "x", Tried: []string{app.FoundAgent, app.FoundNode, app.FoundEpoch}}, "an agent&#39;s address, a key of this node or an epoch&#39;s root or number; this node has none such."},
		{app.SearchView{Query: "x"}, "neither a number nor enough of a hash"},
		{app.SearchView{}, "finds an agent"},
	} {
		var b strings.Builder
		if err := s.SearchPage(c.v).Render(t.Context(), &b); err != nil || !strings.Contains(b.String(), c.want) || !strings.Contains(b.String(), `href="/verify"`) {
			t.Errorf("%+v: no %q, %v in\n%s", c.v, c.want, err, &b)
		}
	}
}
