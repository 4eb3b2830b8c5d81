package web

import (
	"encoding/xml"
	"strings"
	"testing"

	"karatum/app"
	"karatum/flight"
	"karatum/web/pages"
)

func TestBadge(t *testing.T) {
	r := 21.06
	for _, tt := range []struct {
		rated pages.RatedView
		want  string
	}{
		{pages.RatedView{}, "no rating yet, coverage 0.0%"},
		{pages.RatedView{RatingView: app.RatingView{Rating: &r, Confirmed: 54, Contradicted: 2}, Coverage: .124}, "21.1 of 24, coverage 12.4%"},
		{pages.RatedView{RatingView: app.RatingView{Rating: &r, Confirmed: 3}, Coverage: 1, Dev: true}, "21.1 of 24 (thin, 3 compared), coverage 100.0%, dev chain only"},
	} {
		svg := badge(tt.rated)
		var doc struct {
			G struct {
				Text []string `xml:"text"`
			} `xml:"g"`
		}
		check(t, xml.Unmarshal([]byte(svg), &doc))
		if len(doc.G.Text) != 2 || doc.G.Text[1] != tt.want {
			t.Errorf("the badge says %q, want %q", doc.G.Text, tt.want)
		}
	}
}

func TestBadgeIsServed(t *testing.T) {
	node := echoNode()
	node.agent = func(a flight.Address) (app.AgentView, error) { return app.AgentView{Address: a}, nil }
	addr := start(t, node, Config{})
	path := "GET /agents/" + flight.Address{1}.String() + "/badge.svg HTTP/1.1\r\nHost: x\r\n"
	r := exchange(t, addr, path+"\r\n")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("status %d, headers %v", r.StatusCode, r.Header)
	}
	if again := exchange(t, addr, path+"If-None-Match: "+r.Header.Get("ETag")+"\r\n\r\n"); again.StatusCode != 304 {
		t.Errorf("with its tag: status %d", again.StatusCode)
	}
}

// TestTwins: the suffix gives the JSON that Accept gives.
func TestTwins(t *testing.T) {
	node := echoNode()
	addr := start(t, node, Config{})
	suffix := exchange(t, addr, "GET /agents.json HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n")
	if suffix.StatusCode != 200 || suffix.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s", suffix.StatusCode, suffix.Header.Get("Content-Type"))
	}
	page := exchange(t, addr, "GET /agents HTTP/1.1\r\nHost: x\r\n\r\n")
	tag := page.Header.Get("ETag")
	if again := exchange(t, addr, "GET /agents HTTP/1.1\r\nHost: x\r\nIf-None-Match: "+tag+"\r\n\r\n"); tag == "" || again.StatusCode != 304 {
		t.Errorf("tag %q: status %d", tag, again.StatusCode)
	}
	var asked flight.Address
	node.agent = func(a flight.Address) (app.AgentView, error) { asked = a; return app.AgentView{}, app.ErrUnknownAgent }
	want := flight.Address{2}
	if r := exchange(t, addr, "GET /agents/"+want.String()+".json HTTP/1.1\r\nHost: x\r\n\r\n"); errorOf(t, r) != "UNKNOWN_AGENT" || asked != want {
		t.Errorf("status %d, asked for %s", r.StatusCode, asked)
	}
	// A stream that is called so is asked for by a query.
	node.stream = func(a flight.Address, name string) (app.StreamView, error) {
		if name != "a" {
			t.Errorf("the stream asked for is %q", name)
		}
		return app.StreamView{}, app.ErrUnknownStream
	}
	if r := exchange(t, addr, "GET /agents/"+flight.Address{2}.String()+"/a.json HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 404 {
		t.Errorf("a stream: status %d", r.StatusCode)
	}
}
