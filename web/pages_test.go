package web

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"karatum/web/pages"
)

var (
	hrefs   = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	opening = regexp.MustCompile(`<([a-zA-Z][a-zA-Z0-9]*)([^>]*)>`)
	// The two kinds of script: a module file of ours, and data that is none.
	ownScript = regexp.MustCompile(`^<script type="(module" src="[a-z/]*/static/(app|live|record|evidence|verify)\.[0-9a-f]{16}\.js|application/json" id="record)">$`)
	attr      = regexp.MustCompile(`\s([a-zA-Z-]+)=`)
)

// testCrawl walks from the front page over every link of a full node and looks at
// each page that it finds.
func (w *world) testCrawl(t *testing.T) {
	u, err := url.Parse(w.url)
	check(t, err)
	base := u.Path
	w.url = strings.TrimSuffix(w.url, base)
	queue, seen, pages := []string{base + "/"}, map[string]bool{base + "/": true}, 0
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		r, body := w.do("GET", at, nil, "Accept", "text/html")
		if r.StatusCode != http.StatusOK {
			t.Errorf("GET %s: status %d: %.300s", at, r.StatusCode, body)
			continue
		}
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") || strings.HasSuffix(at, offlinePath) {
			continue // the offline page is one file by design, under a policy of its own
		}
		pages++
		lookAtPage(t, at, r, string(body))
		for _, m := range hrefs.FindAllStringSubmatch(string(body), -1) {
			to := html.UnescapeString(m[1])
			if strings.HasPrefix(to, "#") || strings.HasPrefix(to, "data:image/") {
				continue
			}
			if !strings.HasPrefix(to, base+"/") {
				t.Errorf("%s links to %s", at, to)
				continue
			}
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	if pages < 14 {
		t.Errorf("%d pages were found", pages)
	}
}

// lookAtPage checks what holds for every page.
func lookAtPage(t *testing.T, at string, r *http.Response, body string) {
	t.Helper()
	for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "X-Request-Id"} {
		if r.Header.Get(h) == "" {
			t.Errorf("%s has no %s", at, h)
		}
	}
	if p := r.Header.Get("Content-Security-Policy"); strings.Contains(p, "unsafe") || !strings.HasPrefix(p, "default-src 'none'") {
		t.Errorf("%s has the policy %s", at, p)
	}
	if n := strings.Count(body, "<h1"); n != 1 {
		t.Errorf("%s has %d h1", at, n)
	}
	if !strings.Contains(body, "<html lang=") || !strings.Contains(body, `<main id="main">`) || strings.Contains(body, "<title> ·") {
		t.Errorf("%s lacks its language, title or main", at)
	}
	for _, m := range opening.FindAllStringSubmatch(body, -1) {
		if m[1] == "script" && !ownScript.MatchString(m[0]) || m[1] == "img" || m[1] == "style" || m[1] == "iframe" {
			t.Errorf("%s has the element %s", at, m[0])
		}
		for _, a := range attr.FindAllStringSubmatch(m[2], -1) {
			if a[1] == "style" || strings.HasPrefix(a[1], "on") {
				t.Errorf("%s has the attribute %s", at, m[0])
			}
		}
	}
	for _, bad := range []string{"\u202e", "\a", "alert(1)<", "ZgotmplZ", "%!", "<no value>", "<nil>"} {
		if strings.Contains(body, bad) {
			t.Errorf("%s shows %q", at, bad)
		}
	}
	if r := strings.Count(body, "of 24"); r > 0 && !strings.Contains(body, "overage") {
		t.Errorf("%s shows a rating without its coverage", at)
	}
}

func TestPagesOfAnEmptyNode(t *testing.T) {
	a, _ := newNode(t)
	w := &world{t: t, app: a, url: "http://" + start(t, a, Config{})}
	for at, want := range map[string]string{
		"/": "No agent has reported yet", "/agents": "karatum_flight.py", "/epochs": "/v1/admin/anchor", "/conflicts": "karatum demo", "/replays": "/v1/flight/proofs/STEP_HASH/replay", "/node": "Database", "/about": "Not proved", "/docs": "Error codes", "/search": "finds an agent",
	} {
		r, body := w.do("GET", at, nil, "Accept", "text/html,*/*;q=0.8")
		if r.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("GET %s: status %d without %q: %.300s", at, r.StatusCode, want, body)
		}
		lookAtPage(t, at, r, string(body))
	}
}

// TestDocs: the handbook lists every route that is no page, and every error code.
func TestDocs(t *testing.T) {
	addr := start(t, echoNode(), Config{BasePath: "/node"})
	text, err := io.ReadAll(exchange(t, addr, "GET /node/docs HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n").Body)
	if err != nil {
		t.Fatal(err)
	}
	body := string(text)
	for _, r := range routes() {
		if r.kind != page && !strings.Contains(body, r.path) {
			t.Errorf("%s %s is not listed", r.method, r.path)
		}
	}
	for code := range codes {
		if !strings.Contains(body, `id="code-`+code+`"`) {
			t.Errorf("%s is not listed", code)
		}
	}
	var twin pages.DocsView
	if err := json.NewDecoder(exchange(t, addr, "GET /node/docs.json HTTP/1.1\r\nHost: x\r\n\r\n").Body).Decode(&twin); err != nil || len(twin.Codes) != len(codes) || len(twin.Groups) != 4 {
		t.Errorf("as JSON: %d codes, %d groups, %v", len(twin.Codes), len(twin.Groups), err)
	}
	if !strings.Contains(body, `href="/node/v1/status"`) || strings.Contains(body, `href="/v1/`) {
		t.Error("an address lacks the base path")
	}
}

func (w *world) testPages(t *testing.T) {
	agent, batch, step, root := w.key.Address().String(), w.batch[0].ID().String(), w.steps[0].Hash().String(), w.epoch().Root.String()
	stepAt := w.expand("/agents/{agent}/{stream}/0")
	for _, tt := range []struct {
		request string
		status  int
		want    string // in the body, or the Location of a redirect
	}{
		{"GET /agents/" + agent, 200, "Signed two histories"},
		{"GET /agents/" + agent, 200, "coverage 33.3%"},
		{"GET /agents/" + agent, 200, "unbound"},
		{"GET /agents/{agent}/{stream}", 200, "Steps 2 to 3 never delivered"},
		{"GET /agents/{agent}/{stream}/4", 200, "Only its hash is under the batch"},
		{"GET /agents/{agent}/{stream}/5", 200, "the last of its batch, so the signed header names its hash"},
		{"GET /agents/{agent}/{stream}/3", 404, "no batch with the steps 2 to 3 was ever delivered"},
		{"GET /agents/{agent}/{stream}/6", 404, "the last step of the stream that one covers is 5"},
		{"GET /agents/{agent}/nowhere/5", 404, "at most its hash is known"},
		{"GET /agents/{nobody}", 404, "UNKNOWN_AGENT"},
		{"GET /agents/0x00", 400, "BAD_REQUEST"},
		{"GET /batches/{zero}", 404, "UNKNOWN_BATCH"},
		{"GET /epochs/" + root, 200, batch},
		{"GET /epochs/9999", 404, "UNKNOWN_EPOCH"},
		{"GET /conflicts/1", 200, `<mark class="diff">`},
		{"GET /conflicts/9", 404, "UNKNOWN_EVIDENCE"},
		{"GET /replays/9", 404, "UNKNOWN_REPLAY"},
		{"GET /replays?state=lost", 400, "state must be"},
		{"GET /replays?state=failed", 200, "No replay is failed"},
		{"GET /agents?limit=999", 400, "limit"},
		{"GET /nope", 404, "NOT_FOUND"},
		{"GET /search?q=" + agent, 303, "/agents/" + agent},
		{"GET /search?q=%20" + strings.ToUpper(agent[2:]) + "%20", 303, "/agents/" + agent},
		{"GET /search?q=" + batch, 303, "/batches/" + batch},
		{"GET /search?q=" + step, 303, stepAt},
		{"GET /search?q=" + root, 303, "/epochs/" + sprint(w.epoch().ID)},
		{"GET /search?q=" + sprint(w.epoch().ID), 303, "/epochs/" + sprint(w.epoch().ID)},
		{"GET /search?q=https://evil.example", 200, "Nothing here is called"},
		{"GET /search?q=" + strings.Repeat("ab", 32), 200, "a batch id, the hash of an opened step, "},
		{"GET /search?q=" + agent[:12], 303, "/agents/" + agent},
		{"GET /search?q=%3Cscript%3Ealert(1)%3C/script%3E", 200, "&lt;script&gt;"},
		{"GET /search?q=" + strings.Repeat("a", 6000), 200, "cut here"},
		{"GET /search?q=%ff", 400, "BAD_REQUEST"},
	} {
		t.Run(tt.request, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.request, " ")
			r, body := w.do(method, w.expand(path), nil, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
			got := string(body) + r.Header.Get("Location")
			if r.StatusCode != tt.status || !strings.Contains(got, tt.want) {
				t.Errorf("status %d, want %d with %s: %.600s", r.StatusCode, tt.status, tt.want, got)
			}
			if tt.status != 303 {
				lookAtPage(t, path, r, string(body))
			}
		})
	}
}

func TestAccept(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	for accept, want := range map[string]string{
		"":                                  "text/html; charset=utf-8",
		"*/*":                               "text/html; charset=utf-8",
		"application/json":                  "application/json",
		"Application/JSON":                  "application/json",
		"text/html,*/*;q=0.8":               "text/html; charset=utf-8",
		"text/html;q=0.5, application/json": "application/json",
		"application/json;q=0.1, text/html": "text/html; charset=utf-8",
		"application/json;q=x":              "text/html; charset=utf-8",
	} {
		r := exchange(t, addr, "GET /agents HTTP/1.1\r\nHost: x\r\nAccept: "+accept+"\r\n\r\n")
		if got := r.Header.Get("Content-Type"); got != want || r.Header.Get("Vary") != "Accept, Accept-Encoding, Cookie" {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
	}
	for accept, want := range map[string]string{"": "application/json", "*/*": "application/json", "text/html": "text/html; charset=utf-8"} {
		r := exchange(t, addr, "GET /nope HTTP/1.1\r\nHost: x\r\nAccept: "+accept+"\r\n\r\n")
		if got := r.Header.Get("Content-Type"); got != want || r.StatusCode != 404 {
			t.Errorf("an error under Accept %q: %s, want %s", accept, got, want)
		}
	}
}
