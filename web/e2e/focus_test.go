package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// atFocus says what has the focus and what is wrong with it: no ring, no name, out of
// sight, or hidden under the header that stays; nothing behind the last stop.
const atFocus = `(() => {
const e = document.activeElement
if (!e || e === document.body) return ''
const at = e.getBoundingClientRect(), top = e.closest('.mast, .skip') ? 0 : document.querySelector('.mast').getBoundingClientRect().bottom, style = getComputedStyle(e), wrong = []
const name = (e.ariaLabel || e.labels?.[0]?.textContent || e.textContent).trim()
if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 3) wrong.push('no ring')
if (!name) wrong.push('no name')
if (at.bottom <= 0 || at.top >= innerHeight || at.right <= 0 || at.left >= innerWidth) wrong.push('out of sight')
if (at.bottom > 0 && at.bottom <= top) wrong.push('under the header')
return e.tagName.toLowerCase() + ' ' + (name || e.outerHTML).slice(0, 40) + ': ' + wrong.join(', ')
})()`

// TestFocus: from the skip link to the last link of the page and back, every stop is
// seen, is called something and stands clear of the header. The skip link leads to the
// content.
func TestFocus(t *testing.T) {
	need(t, missing)
	for _, c := range []struct{ name, url string }{
		{"live", "/"}, {"agent", "/agents/" + site.agent}, {"stream", site.ours}, {"step", strings.TrimPrefix(site.step(edge), site.url)}, {"epoch", "/epochs/1"},
		{"replay", "/replays/1"}, {"node", "/node"}, {"docs", "/docs"}, {"error", "/nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTab(t)
			if c.name == "error" {
				b.expects = regexp.MustCompile(`status of 404`)
			}
			b.size(1024, 600)
			b.open(site.url + c.url)
			if c.name == "step" {
				b.settled()
			}
			b.do(chromedp.KeyEvent(kb.Tab))
			if got := eval[string](b, atFocus); got != "a Skip to content: " {
				t.Errorf("the first stop is %q", got)
			}
			walk := func(way string, keys ...chromedp.KeyOption) {
				stops := 1
				for ; stops < 300; stops++ {
					b.do(chromedp.KeyEvent(kb.Tab, keys...))
					at := eval[string](b, atFocus)
					if at == "" {
						break
					}
					if !strings.HasSuffix(at, ": ") {
						t.Errorf("%s: %s", way, at)
					}
				}
				if stops < 15 || stops == 300 {
					t.Errorf("%s: %d stops", way, stops)
				}
			}
			walk("on")
			walk("back", chromedp.KeyModifiers(chromedp.ModifierShift))

			b.open(site.url + c.url)
			b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
			b.wait(`location.hash === '#main'`)
			b.do(chromedp.KeyEvent(kb.Tab))
			if at := eval[bool](b, `document.activeElement.closest('#main, footer') !== null`); !at {
				t.Errorf("behind the skip link is %q", eval[string](b, atFocus))
			}
		})
	}
}

// TestForcedColours: where the system paints its own colours over backgrounds, one still
// sees which entry is chosen, that a job has run and that the node is heard.
func TestForcedColours(t *testing.T) {
	b := newTab(t)
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}},
	}); err != nil {
		t.Fatal(err)
	}
	b.open(site.url + "/")
	b.wait(following)
	for what, seen := range map[string]string{
		"the emulation":     `matchMedia('(forced-colors: active)').matches`,
		"the current page":  `get('.nav [aria-current]').borderBottomStyle === 'solid' && get('.nav a:not([aria-current])').borderBottomStyle === 'none'`,
		"the chosen filter": `get('.seg [aria-current]').backgroundColor !== get('.card').backgroundColor`,
		"the node is heard": `get('#live-state .pulse').backgroundColor !== get('.card').backgroundColor`,
		"the bar of a job":  `get(bar()).backgroundColor !== get('.card').backgroundColor`,
	} {
		if !eval[bool](b, `(() => {
const get = (e) => getComputedStyle(typeof e === 'string' ? document.querySelector(e) : e)
const bar = () => document.querySelector('.beats .bar').appendChild(document.createElement('span'))
return `+seen+`})()`) {
			t.Errorf("%s is not seen", what)
		}
	}
}
