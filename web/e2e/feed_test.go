package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	window "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

const following = `document.querySelector('#live-state').dataset.state === 'on'`

// inFeed says that the feed begins with the batches, the newest first. Names are kept
// apart by marks that are not seen.
func (p *pen) inFeed(batches ...int) string {
	want := make([]string, len(batches))
	for i, n := range batches {
		want[i] = fmt.Sprintf("%s batch %d", p.stream, n)
	}
	return fmt.Sprintf(`[...document.querySelectorAll('#feed .thing')].slice(0, %d).map((e) => e.textContent.replace(/[\u2068\u2069]/g, '')).join() === %s`, len(want), quote(strings.Join(want, ",")))
}

// mark leaves a mark in the page, which goes when the page is loaded again.
func (b *tab) mark() { b.t.Helper(); eval[bool](b, `window.marked = true`) }

func (b *tab) marked() bool { b.t.Helper(); return eval[bool](b, `window.marked === true`) }

// seqs are the numbers of the events in the feed, the newest first.
func (b *tab) seqs() []int {
	b.t.Helper()
	var seqs []int
	unmarshal(b.t, []byte(eval[string](b, `JSON.stringify([...document.querySelectorAll('#feed > li')].map((li) => +li.dataset.seq))`)), &seqs)
	return seqs
}

// gapless checks that the feed has each event once, in order.
func (b *tab) gapless() {
	b.t.Helper()
	seqs := b.seqs()
	for i := 1; i < len(seqs); i++ {
		if seqs[i-1] != seqs[i]+1 {
			b.t.Errorf("event %d stands above %d", seqs[i-1], seqs[i])
		}
	}
	if len(seqs) < 2 {
		b.t.Errorf("the feed has %d events", len(seqs))
	}
}

// TestFeed: a batch appears by itself, with its counters; while paused it waits.
func TestFeed(t *testing.T) {
	b := newTab(t)
	p := newPen(t, site, "feed")
	b.open(site.url + "/")
	b.wait(following)
	b.mark()
	before := eval[string](b, `document.querySelector('[data-count="batches"]').textContent`)
	p.write()
	b.wait(p.inFeed(0))
	b.wait(`document.querySelector('[data-count="batches"]').textContent !== ` + quote(before))
	if got := eval[string](b, `document.querySelector('#feed > li').innerText.replace(/[\u2068\u2069]/g, '').replace(/\s+/g, ' ')`); !strings.Contains(got, "delivered feed batch 0, 1 step") || !strings.Contains(got, "just now") {
		t.Errorf("the row says %q", got)
	}

	b.click("#feed-pause")
	b.wait(`document.querySelector('#live-state').innerText === 'Paused'`)
	p.write()
	p.write()
	b.wait(`document.querySelector('#feed-new').checkVisibility() && document.querySelector('#feed-new').textContent === '2 new'`)
	if !eval[bool](b, p.inFeed(0)) {
		t.Error("the feed goes on while paused")
	}
	b.click("#feed-new")
	b.wait(p.inFeed(2, 1, 0) + ` && document.querySelector('#feed-new').hidden`)
	p.write()
	b.wait(`document.querySelector('#feed-new').textContent === '1 new'`)
	b.click("#feed-pause")
	b.wait(p.inFeed(3, 2, 1, 0) + ` && document.querySelector('#feed-new').hidden && ` + following)
	b.gapless()
	if !b.marked() {
		t.Error("the page was loaded again")
	}
}

// show brings the window of the tab to the reader, or away.
func (b *tab) show(state window.WindowState) {
	b.t.Helper()
	w, err := chromedp.Call(b.ctx, window.GetWindowForTarget, window.GetWindowForTargetParams{})
	if err == nil {
		_, err = chromedp.Call(b.ctx, window.SetWindowBounds, window.SetWindowBoundsParams{WindowID: w.WindowID, Bounds: &window.Bounds{WindowState: state}})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestHiddenTab: a page that nobody sees holds no stream; shown again, it has what
// came meanwhile.
func TestHiddenTab(t *testing.T) {
	need(t, missing)
	m := newMeter(t, site.url)
	b := newTab(t, chromedp.WithNewBrowserContext())
	b.allow = []string{m.url + "/"}
	p := newPen(t, site, "hidden")
	b.open(m.url + "/")
	b.wait(following)
	b.mark()
	p.write()
	b.wait(p.inFeed(0))
	b.show(window.WindowStateMinimized)
	b.wait(`document.hidden`)
	m.wait(t, 0)
	p.write()
	p.write()
	b.show(window.WindowStateNormal)
	b.wait(p.inFeed(2, 1, 0))
	b.gapless()
	if now, ever := m.open(); now != 1 || ever != 2 || !b.marked() {
		t.Errorf("%d streams are open of %d; the page is the first: %t", now, ever, b.marked())
	}
}

// TestRestart: the node stops and starts again on the same data; to the browser, at the
// same address.
// The page loads itself again, and has each batch once: those before, those that came
// before the page was back, and those after.
func TestRestart(t *testing.T) {
	need(t, missing)
	data := filepath.Join(t.TempDir(), "data")
	n := restartable(t, data)
	w := newWire(t, n)
	b := newTab(t)
	b.allow, b.expects = []string{w.url + "/"}, regexp.MustCompile(`net::ERR_`)
	p := newPen(t, n, "lasting")
	b.open(w.url + "/")
	b.wait(following)
	b.mark()
	p.write()
	p.write()
	b.wait(p.inFeed(1, 0))
	b.gapless()
	last := b.seqs()[0]

	n.stop()
	w.cut()
	b.wait(`document.querySelector('#live-state').dataset.state === 'stale'`)
	p.to = restartable(t, data)
	p.write()
	w.mend(p.to)
	b.outlast(`!window.marked && ` + p.inFeed(2, 1, 0) + ` && ` + following)
	p.write()
	b.wait(p.inFeed(3, 2, 1, 0))
	b.gapless()
	seqs := b.seqs()
	if len(seqs) != 4 || slices.Min(seqs) <= last {
		t.Errorf("events %v, after %d of the start before", seqs, last)
	}
}

// restartable starts a node of its own on the data. It ends with the test unless it is
// stopped before.
func restartable(t *testing.T, data string) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{cancel: cancel, replayed: make(chan struct{}, 4)}
	t.Cleanup(n.stop)
	if err := os.MkdirAll(filepath.Dir(data), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.serve(ctx, data); err != nil {
		t.Fatal(err)
	}
	return n
}
