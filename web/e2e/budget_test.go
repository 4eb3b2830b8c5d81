package e2e

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Bounds of a first view, nothing of which is in the browser's cache.
const (
	viewBytes    = 90 << 10
	viewRequests = 7
	htmlBytes    = 12 << 10
	cssBytes     = 10 << 10
	jsBytes      = 3 << 10
	checkBytes   = 10 << 10 // of scripts beside these, where the page checks something
	mostShift    = 0.02
)

// shifts adds up how much of the page moved without the reader's doing.
const shifts = `window.shifted = 0; window.shifts = []
const see = (list) => list.forEach((e) => { if (!e.hadRecentInput) { shifted += e.value; shifts.push(...e.sources.map((s) => s.node?.outerHTML?.slice(0, 80))) } })
window.shiftsSeen = new PerformanceObserver((l) => see(l.getEntries())); shiftsSeen.observe({ type: 'layout-shift', buffered: true })
window.seeShifts = () => see(shiftsSeen.takeRecords())`

// A kindOfPage is one that has a budget, and the state in which it has loaded all that
// it loads by itself.
type kindOfPage struct {
	name, path string
	checks     bool // something, in the reader's browser
	done       string
}

func kindsOfPage(t *testing.T) []kindOfPage {
	const (
		follows = `document.querySelector('#live-state').dataset.state === 'on'`
		settled = `['pass', 'fail', 'partial'].includes(document.querySelector('[data-verify]').dataset.state)`
	)
	var step struct{ BatchID string }
	stream := "/agents/" + site.agent + "/" + url.PathEscape(site.stream)
	unmarshal(t, fetchDocuments(t).step, &step)
	return []kindOfPage{
		{name: "live", path: "/", done: follows},
		{name: "agents", path: "/agents"},
		{name: "agent", path: "/agents/" + site.agent},
		{name: "stream", path: stream},
		{name: "batch", path: "/batches/" + step.BatchID},
		{name: "step", path: strings.TrimPrefix(site.step(edge), site.url), checks: true, done: settled},
		{name: "sealed", path: site.ours + "/1"},
		{name: "replay", path: "/replays/1"},
		{name: "epochs", path: "/epochs"},
		{name: "epoch", path: "/epochs/1"},
		{name: "conflict", path: "/conflicts/1", checks: true, done: settled},
		{name: "node", path: "/node", done: follows},
		{name: "docs", path: "/docs"},
		{name: "verify", path: "/verify", done: `document.querySelector('[data-verify]').dataset.ready === ''`},
	}
}

// cold opens a page in a browser that has never seen the node, and waits until it has
// loaded everything, fonts too, and has been drawn.
func (p kindOfPage) cold(t *testing.T, width int64) (*tab, *meter) {
	t.Helper()
	m := newMeter(t, site.url)
	b := newTab(t, chromedp.WithNewBrowserContext())
	b.allow = []string{m.url + "/"}
	b.size(width, 900)
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: shifts}); err != nil {
		t.Fatal(err)
	}
	b.open(m.url + p.path)
	if p.done != "" {
		b.wait(p.done)
	}
	eval[bool](b, `document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => { seeShifts(); done(true) }))))`)
	return b, m
}

// TestBudgets: what a first view of each kind of page costs, and how still it is.
func TestBudgets(t *testing.T) {
	need(t, missing)
	for _, p := range kindsOfPage(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // each is a browser of its own
			b, m := p.cold(t, 1280)
			b.still("1280 px")
			requests, bytes, of := m.sum()
			html, css, js := of["text/html"], of["text/css"], of["text/javascript"]
			t.Logf("%d requests, %d bytes: html %d, css %d, js %d", requests, bytes, html, css, js)
			if requests > viewRequests || bytes > viewBytes {
				t.Errorf("%d requests, %d bytes:%s", requests, bytes, m.list())
			}
			mostJS := jsBytes
			if p.checks {
				mostJS += checkBytes
			}
			if html > htmlBytes || css > cssBytes || js > mostJS || html*css*js == 0 {
				t.Errorf("html %d, css %d, js %d bytes", html, css, js)
			}
			for _, u := range b.asked() {
				if !strings.HasPrefix(u, m.url+"/") && !strings.HasPrefix(u, "blob:") {
					t.Errorf("asks %s", u)
				}
			}
			narrow, _ := p.cold(t, 390)
			narrow.still("390 px")
		})
	}
}

// still checks that next to nothing of the page moved while it loaded.
func (b *tab) still(at string) {
	b.t.Helper()
	var seen struct {
		Shifted float64
		Shifts  []string
	}
	if err := json.Unmarshal([]byte(eval[string](b, `JSON.stringify({ shifted, shifts })`)), &seen); err != nil {
		b.t.Fatal(err)
	}
	if seen.Shifted > mostShift {
		b.t.Errorf("%s: the page shifts by %.3f: %s", at, seen.Shifted, strings.Join(seen.Shifts, "\n"))
	}
}

// asked is the addresses that the page has asked for so far.
func (b *tab) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.requests...)
}
