package web

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"karatum/flight"
)

// A stream may have the name of anything beside it: its page, the JSON of that and
// its steps are reached from the page of the agent.
func TestStreamsOfAnyName(t *testing.T) {
	a, _ := newNode(t)
	w := &world{t: t, app: a, url: "http://" + start(t, a, Config{})}
	var err error
	w.key, err = flight.NewKey()
	check(t, err)
	names := []string{"badge.svg", "streams", "export", ".json", "main.json", "main.json.json", "a.json-b", "a.json-b.json", "5", "%2e%2e", "a b", "...", "?name=x&#1", strings.Repeat("長", 64)}
	for _, w.stream = range names {
		w.steps, w.hidden, w.batch = nil, nil, nil
		w.record(0)
		w.post("/v1/flight/batches", w.sign(0, 0, 0, 0), 201)
		d, err := flight.NewDisclosure(w.batch[0], w.steps, 0, w.hidden[0])
		check(t, err)
		body, err := json.Marshal(d)
		check(t, err)
		w.post("/v1/flight/proofs", body, 200)
	}
	_, home := w.do("GET", "/agents/"+w.key.Address().String(), nil, "Accept", "text/html")
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			bdi := `<bdi class="name">` + regexp.QuoteMeta(html.EscapeString(name)) + `</bdi>`
			links := regexp.MustCompile(`<a(?: class="where")? href="([^"]+)">\s*`+bdi).FindAllStringSubmatch(string(home), -1)
			tested := 0
			for _, m := range links {
				at := html.UnescapeString(m[1])
				path, query, ok := strings.Cut(at, "?")
				switch {
				case strings.HasPrefix(query, "stream="): // chooses a tape
					continue
				case strings.HasSuffix(path, "/0"):
					tested++
					if r, body := w.do("GET", at, nil, "Accept", "text/html"); r.StatusCode != 200 || !strings.Contains(string(body), html.EscapeString(name)) {
						t.Errorf("GET %s: status %d: %.300s", at, r.StatusCode, body)
					}
					continue
				case ok:
					query = "?" + query
				}
				tested++
				if r, body := w.do("GET", at, nil, "Accept", "text/html"); r.StatusCode != 200 || !regexp.MustCompile(`<h1>Stream `+bdi).Match(body) {
					t.Errorf("GET %s: status %d: %.300s", at, r.StatusCode, body)
				}
				for address, accept := range map[string]string{at: "application/json", path + ".json" + query: "text/html"} {
					r, body := w.do("GET", address, nil, "Accept", accept)
					if got, _ := jsonOf(t, body).(map[string]any); r.StatusCode != 200 || got["stream"] != name {
						t.Errorf("GET %s: status %d: %.300s", address, r.StatusCode, body)
					}
				}
			}
			if tested < 2 {
				t.Errorf("%d of the page's links lead to the stream and its step: %q", tested, links)
			}
		})
	}
}
