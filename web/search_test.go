package web

import (
	"strings"
	"testing"

	"karatum/app"
	"karatum/flight"
)

// As JSON a search lists what the page would go to.
func TestSearchTwin(t *testing.T) {
	w := newWorld(t, "")
	batch := w.batch[0].ID().String()
	for _, c := range []struct{ path, accept, kind string }{
		{"/search.json?q=" + batch, "", app.FoundBatch},
		{"/search.json?q=" + strings.ToUpper(batch[2:9]), "", app.FoundBatch},
		{"/search?q=" + batch, "application/json", app.FoundBatch},
		{"/search?q=" + w.key.Address().String(), "application/json", app.FoundAgent},
	} {
		r, body := w.do("GET", c.path, nil, "Accept", c.accept)
		v, _ := jsonOf(t, body).(map[string]any)
		hits, _ := v["hits"].([]any)
		if r.StatusCode != 200 || len(hits) != 1 || hits[0].(map[string]any)["kind"] != c.kind {
			t.Errorf("%s: %d %s; want one %s", c.path, r.StatusCode, body, c.kind)
		}
	}
	if r, body := w.do("GET", "/search.json", nil); r.StatusCode != 200 || !strings.Contains(string(body), `"hits":[]`) {
		t.Errorf("without a text: %d %s", r.StatusCode, body)
	}
}

func TestOnlyHit(t *testing.T) {
	s := &Server{}
	one, three := uint64(1), uint64(3)
	agent := flight.Address{7}
	epoch := app.SearchHit{Kind: app.FoundEpoch, Epoch: &one}
	anchor := app.SearchHit{Kind: app.FoundAnchor, Epoch: &one}
	other := app.SearchHit{Kind: app.FoundAnchor, Epoch: &three}
	key := app.SearchHit{Kind: app.FoundAgent, ID: agent.String()}
	for i, c := range []struct {
		v    app.SearchView
		want string
	}{
		{app.SearchView{}, ""},
		{app.SearchView{Hits: []app.SearchHit{epoch}}, "/epochs/1"},
		{app.SearchView{Hits: []app.SearchHit{epoch, anchor}}, "/epochs/1"}, // both are there
		{app.SearchView{Hits: []app.SearchHit{epoch, other}}, ""},
		{app.SearchView{Hits: []app.SearchHit{key, epoch}}, ""},
		{app.SearchView{Hits: []app.SearchHit{epoch}, More: true}, ""},
	} {
		if got := s.onlyHit(&c.v); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}
