package e2e

import (
	"strings"
	"testing"
	"unicode/utf8"

	"karatum/flight/canon"
)

// wicked is a stream's name of 64 code points that tries to break a page.
const wicked = `"><script>alert(1)<\script>` + "סופ־שלום" + "🦀🦀" + `'&amp;{{7*7}}--!>WWWWWWWWWW`

// TestHostileAndHuge: names and opened values as long and as wicked as they may be. On
// the narrowest screen no page scrolls sideways, nothing in them runs, and each page has
// one heading and says what it is about.
func TestHostileAndHuge(t *testing.T) {
	need(t, missing)
	if n := utf8.RuneCountInString(wicked); n != 64 {
		t.Fatalf("the name has %d code points", n)
	}
	p := newPen(t, site, wicked)
	p.args = canon.Str(strings.Repeat(hostile, 64<<10/len(hostile)-100))
	p.open(p.write())
	agent := p.key.Address().String()
	for _, c := range []struct{ name, url, title string }{
		{"live", site.url + "/", "Live"},
		{"agent", site.url + "/agents/" + agent, agent[:6]},
		{"stream", p.page(), wicked},
		{"step", p.page() + "/0", wicked},
		{"search", site.url + "/search?q=" + strings.Repeat("W", 200), "Search"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newTab(t)
			b.size(320, 900)
			b.open(c.url)
			if c.name == "step" {
				b.settled()
			}
			title := strings.NewReplacer("\u2068", "", "\u2069", "").Replace(eval[string](b, `document.title`))
			if !strings.Contains(title, c.title) || !strings.HasSuffix(title, " · Karatum") {
				t.Errorf("the title is %q", title)
			}
			if n := eval[int](b, `document.querySelectorAll('h1').length`); n != 1 {
				t.Errorf("%d first headings", n)
			}
			if over := eval[int](b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
				t.Errorf("scrolls sideways by %d px", over)
			}
			if strangers := eval[string](b, `[...document.querySelectorAll('script:not([src]):not([type="application/json"]), img, [onerror]')].map((e) => e.outerHTML.slice(0, 80)).join()`); strangers != "" {
				t.Errorf("what was text has become %s", strangers)
			}
			b.shoot("hostile-" + c.name)
		})
	}
}
