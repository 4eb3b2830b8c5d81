package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// look names the pages that this folder answers for, and how to bring each to the
// state that is looked at.
func look(t *testing.T) []struct {
	name, url string
	ready     func(*tab)
} {
	bundle := string(fetchDocuments(t).bundle)
	return []struct {
		name, url string
		ready     func(*tab)
	}{
		{"live", site.url + "/", func(b *tab) { b.wait(`document.querySelector('#live-state').dataset.state === 'on'`) }},
		{"node", site.url + "/node", func(b *tab) { b.wait(`document.querySelector('#live-state').dataset.state === 'on'`) }},
		{"agents", site.url + "/agents", func(*tab) {}},
		{"agent", site.url + "/agents/" + site.agent, func(*tab) {}},
		{"agent-hostile", site.url + path.Dir(site.ours), func(*tab) {}},
		{"stream", site.url + site.ours, func(*tab) {}},
		{"step", site.step(edge), (*tab).settled},
		{"step-forged", site.step(edge), func(b *tab) {
			b.settled()
			b.click(`[data-forge="amount"]`)
			b.wait(`document.querySelector('[data-verify]').dataset.state === 'fail'`)
		}},
		{"step-hostile", site.url + site.ours + "/0", (*tab).settled},
		{"step-sealed", site.url + site.ours + "/1", func(*tab) {}},
		{"conflict", site.url + "/conflicts/1", (*tab).settled},
		{"step-replayed", site.step(paid), (*tab).settled},
		{"replays", site.url + "/replays", func(*tab) {}},
		{"replay", site.url + "/replays/1", func(*tab) {}},
		{"replays-none", site.url + "/replays?state=failed", func(*tab) {}},
		{"verify", site.url + "/verify", func(b *tab) {
			b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
			b.paste("{")
			b.wait(`!document.querySelector('[data-error]').hidden`)
		}},
		{"verify-bundle", site.url + "/verify", func(b *tab) {
			b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
			b.paste(bundle)
			b.settled()
		}},
		{"offline", site.url + "/verify.html", func(b *tab) {
			b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
			b.paste(bundle)
			b.settled()
		}},
	}
}

const axeFile = "../../.ci/npm/node_modules/axe-core/axe.min.js"

// No page breaks a rule of axe, none scrolls sideways, in either theme, at any
// width.
func TestAccessibility(t *testing.T) {
	need(t, missing)
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		need(t, "run npm ci --prefix .ci/npm for axe")
	}
	for _, page := range look(t) {
		t.Run(page.name, func(t *testing.T) {
			b := newTab(t)
			b.open(page.url)
			page.ready(b)
			eval[bool](b, `(scrollTo(0, 0), true)`) // what the sticky header covers for a moment is no small target
			eval[bool](b, string(axe)+`; true`)
			for _, theme := range []string{"light", "dark"} {
				b.theme(theme)
				for _, width := range []int64{1280, 390, 320} {
					b.size(width, 900)
					at := fmt.Sprintf("%s %d px", theme, width)
					if over := eval[string](b, `(() => { const w = document.documentElement.clientWidth; return document.documentElement.scrollWidth <= w ? '' : [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > w + 1).map((e) => e.tagName + '.' + e.className).slice(0, 5).join(' '); })()`); over != "" {
						t.Errorf("%s: scrolls sideways: %s", at, over)
					}
					for _, v := range violations(t, b) {
						t.Errorf("%s: %s", at, v)
					}
					b.shoot(fmt.Sprintf("%s-%s-%d", page.name, theme, width))
				}
			}
		})
	}
}

func violations(t *testing.T, b *tab) (out []string) {
	t.Helper()
	raw := eval[string](b, `axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((r) => JSON.stringify(r.violations.map((v) => ({ id: v.id, nodes: v.nodes.map((n) => n.target.join(' ') + ': ' + (n.any[0] ?? n.all[0] ?? n.none[0])?.message) }))))`)
	var found []struct {
		ID    string
		Nodes []string
	}
	if err := json.Unmarshal([]byte(raw), &found); err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		out = append(out, v.ID+": "+strings.Join(v.Nodes[:min(len(v.Nodes), 4)], "; "))
	}
	return out
}
