package e2e

import (
	"fmt"
	"regexp"
	"testing"

	clipboard "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// whole is a hash or address in its whole length.
var whole = regexp.MustCompile(`^0x([0-9a-f]{40}|[0-9a-f]{64})$`)

const short = `document.querySelector('main .hash:not(.full)')`

// TestCopy: the button and a selection of the short form give the whole hash.
func TestCopy(t *testing.T) {
	b := newTab(t)
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := chromedp.Call(b.ctx, clipboard.SetPermission, clipboard.SetPermissionParams{
			Permission: &clipboard.PermissionDescriptor{Name: name}, Setting: clipboard.PermissionSettingGranted, Origin: site.url,
		}); err != nil {
			t.Fatal(err)
		}
	}
	b.open(site.url + "/agents/" + site.agent)
	held := func() string { return eval[string](b, `navigator.clipboard.readText()`) }
	clear := func() { eval[bool](b, `navigator.clipboard.writeText('nothing').then(() => true)`) }
	full := eval[string](b, short+`.dataset.h`)
	shown := eval[string](b, short+`.querySelector('[title]').textContent`)
	if !whole.MatchString(full) || shown != full[:6]+"…"+full[len(full)-4:] {
		t.Fatalf("%s is shown as %s", full, shown)
	}

	clear()
	b.click(`main .hash:not(.full) .copy`)
	b.wait(short + `.querySelector('.copy').classList.contains('done') && document.querySelector('[role="status"]:last-of-type').textContent === 'Copied'`)
	if got := held(); got != full {
		t.Errorf("the button gives %q, want %s", got, full)
	}

	for name, choose := range map[string]string{
		"all of it":  `getSelection().selectAllChildren(e)`,
		"the ending": `getSelection().setBaseAndExtent(e.firstChild, 8, e.firstChild, e.textContent.length)`,
	} {
		clear()
		eval[bool](b, fmt.Sprintf(`(() => { const e = %s.querySelector('[title]'); %s; return true })()`, short, choose))
		for _, k := range kb.Encode('c') {
			if k.Type == kb.KeyChar {
				continue
			}
			k.Modifiers = int64(chromedp.ModifierCtrl)
			if k.Type == kb.KeyDown {
				k.Commands = []string{"copy"} // what the system makes of the key
			}
			if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, *k); err != nil {
				t.Fatal(err)
			}
		}
		if got := held(); got != full {
			t.Errorf("of %s, %q is copied, want %s", name, got, full)
		}
	}
}

// TestSameHash: under the pointer or with the focus, a hash lights up wherever it is on
// the page, and no other does.
func TestSameHash(t *testing.T) {
	b := newTab(t)
	b.open(site.url + "/")
	const lit = `[...document.querySelectorAll('.lit')]`
	same := fmt.Sprintf(`[...document.querySelectorAll('[data-h="%s"]')]`, site.agent)
	if n := eval[int](b, same+`.length`); n < 2 {
		t.Fatalf("the agent stands on the page %d times", n)
	}
	all := fmt.Sprintf(`%s.every((e) => e.classList.contains('lit')) && %s.length === %s.length`, same, lit, same)
	eval[bool](b, same+`.length && (`+same+`[0].scrollIntoView({ block: 'center' }), true)`)
	var at struct{ X, Y float64 }
	unmarshal(t, []byte(eval[string](b, `JSON.stringify((({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 }))(`+same+`[0].querySelector('a').getBoundingClientRect()))`)), &at)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at.X, at.Y))
	b.wait(all)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
	b.wait(lit + `.length === 0`)
	eval[bool](b, `(`+same+`[1].querySelector('a').focus(), true)`)
	b.wait(all)
	b.slash()
	b.wait(lit + `.length === 0`)
}
