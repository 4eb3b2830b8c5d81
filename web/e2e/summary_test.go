package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// halfMinute takes the page's timers of 30 seconds away from its clock: they run when a
// test calls halfMinutePasses.
const halfMinute = `(() => {
const set = window.setInterval, due = []
window.setInterval = (f, ms, ...rest) => ms === 30000 ? due.push(f) : set(f, ms, ...rest)
window.halfMinutePasses = () => { for (const f of due) f(); return due.length }
})()`

// heard keeps what the page says to a screen reader, in order.
const heard = `(() => {
window.heard = []
const keep = (said) => { if (said) heard.push(said.replace(/[\u2068\u2069]/g, '')) }
new MutationObserver((list) => { for (const m of list) for (const n of m.addedNodes) keep(n.textContent) }).observe(document.querySelector('body > [role=status]'), { childList: true })
return true })()`

// TestSummary: who hears the page is told twice a minute how much is new, and the last of
// it; not of every row, and nothing where nothing is new. Paused, the page tells it too.
func TestSummary(t *testing.T) {
	b := newTab(t)
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: halfMinute}); err != nil {
		t.Fatal(err)
	}
	p := newPen(t, site, "told")
	b.open(site.url + "/?topics=records")
	b.wait(following)
	eval[bool](b, heard)
	passes := func() {
		t.Helper()
		if timers := eval[int](b, `halfMinutePasses()`); timers != 1 {
			t.Fatalf("the page has %d timers of half a minute, want 1", timers)
		}
	}
	told := func(want ...string) {
		t.Helper()
		b.wait(fmt.Sprintf(`heard.length >= %d`, len(want)))
		if got := eval[string](b, `heard.join('|')`); got != strings.Join(want, "|") {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	who := p.key.Address().String()
	who = who[:6] + "…" + who[len(who)-4:]

	p.write()
	p.write()
	b.wait(p.inFeed(1, 0))
	if n := eval[int](b, `heard.length`); n != 0 {
		t.Errorf("%d things are heard before half a minute has passed", n)
	}
	passes()
	two := "2 new events, the last: " + who + " delivered told batch 1, 1 step"
	told(two)

	passes() // nothing new
	b.click("#feed-pause")
	p.write()
	b.wait(`document.querySelector('#feed-new').textContent === '1 new'`)
	passes()
	one := "1 new event: " + who + " delivered told batch 2, 1 step"
	told(two, one)

	if rows := eval[bool](b, `!document.querySelector('#feed').closest('[aria-live], [role=log], [role=status]')`); !rows {
		t.Error("the feed itself is read aloud, row by row")
	}
}

// TestReadoutWords: the word under a number of the front page follows the number.
func TestReadoutWords(t *testing.T) {
	b := newTab(t)
	b.open(site.url + "/")
	b.wait(following)
	eval[bool](b, `[...document.querySelectorAll('[data-one]')].every((e) => e.textContent = 'unread')`)
	newPen(t, site, "counted").write()
	b.wait(`[...document.querySelectorAll('[data-one]')].every((e) => e.textContent === (e.previousElementSibling.textContent === '1' ? e.dataset.one : e.dataset.many))`)
	if n := eval[int](b, `document.querySelectorAll('[data-one]').length`); n != 4 {
		t.Errorf("%d numbers have words, want 4", n)
	}
}

// TestSpark: the bars of the last hour are drawn again as batches come, and as the
// server draws them for a reader who comes later.
func TestSpark(t *testing.T) {
	b := newTab(t)
	b.open(site.url + "/")
	b.wait(following)
	const drawn = `JSON.stringify([...document.querySelectorAll('.spark, .spark path')].map((e) => e.getAttribute('d') ?? e.ariaLabel))`
	before := eval[string](b, `(() => {
		for (const e of document.querySelectorAll('.spark path')) e.setAttribute('d', '')
		const spark = document.querySelector('.spark')
		spark.ariaLabel = spark.ariaLabel.replace(/\S+ in one/, '? in one')
		return `+drawn+`
	})()`)
	newPen(t, site, "spark").write()
	for {
		b.wait(drawn + ` !== ` + quote(before))
		before = eval[string](b, drawn)
		var here []string
		if err := json.Unmarshal([]byte(before), &here); err != nil || len(here) != 3 {
			t.Fatalf("drawn %s, %v", before, err)
		}
		page, err := site.get("/")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(here, func(s string) bool { return !bytes.Contains(page, []byte(`"`+s+`"`)) }) {
			return
		}
		// A batch came or a minute ended in between; the page will draw again.
	}
}
