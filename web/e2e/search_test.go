package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"karatum/app"
)

// search types into the box and sends it, as a reader does who came by the slash key.
func (b *tab) search(text string) {
	b.t.Helper()
	b.mark()
	b.slash()
	b.wait(`document.activeElement.id === 'q'`)
	b.do(chromedp.KeyEvent(text), chromedp.KeyEvent(kb.Enter))
	b.outlast(`!window.marked && document.readyState === 'complete'`)
}

// at is where the tab is, without the node's address.
func (b *tab) at() string {
	b.t.Helper()
	return eval[string](b, `decodeURIComponent(location.pathname)`)
}

// TestSearch: whatever names a thing leads to its page, however it is written.
func TestSearch(t *testing.T) {
	need(t, missing)
	var step app.StepView
	var body struct{ Args, TxHash string }
	var proof app.BatchProofView
	d := fetchDocuments(t)
	unmarshal(t, d.step, &step)
	unmarshal(t, step.Step, &body)
	unmarshal(t, d.proof, &proof)
	agent, epoch := "/agents/"+site.agent, "/epochs/1"
	place := agent + "/" + site.stream + "/4"
	hash := step.StepHash.String()
	spaced := strings.ToUpper(hash[2:10] + " " + hash[10:34] + "  " + hash[34:])
	b := newTab(t)
	b.theme("light") // and without transitions, which a quick reader breaks off
	b.open(site.url + "/about")
	for _, c := range []struct{ name, text, want string }{
		{"an address", site.agent, agent},
		{"an address in upper case", strings.ToUpper(site.agent), agent},
		{"a batch id", step.BatchID.String(), "/batches/" + step.BatchID.String()},
		{"a step's hash", hash, place},
		{"a hash in upper case with spaces, without 0x", spaced, place},
		{"the first digits of a hash, without 0x", hash[2:18], place},
		{"a transaction", body.TxHash, place},
		{"a commitment", body.Args, place},
		{"an epoch's root", proof.Epoch.Root.String(), epoch},
		{"an epoch's number", "1", epoch},
		{"an anchoring transaction", proof.Anchor.TxHash.String(), epoch},
		{"the attester", site.attester, "/node"},
		{"a place", site.agent + "/" + site.stream + "/4", place},
	} {
		b.run(c.name, func(t *testing.T) {
			b.search(c.text)
			if got := b.at(); got != c.want {
				t.Errorf("%q leads to %s, want %s", c.text, got, c.want)
			}
		})
	}
}

// TestSearchOfSeveral: what names several things lists them, each with its address.
func TestSearchOfSeveral(t *testing.T) {
	b := newTab(t)
	p := newPen(t, site, "twice")
	p.open(p.write())
	p.open(p.write())
	b.theme("light") // and without transitions, which a quick reader breaks off
	b.open(site.url + "/about")
	b.search(p.sealed.String())
	if at, title := b.at(), eval[string](b, `document.title`); at != "/search" || !strings.HasPrefix(title, "Search") {
		t.Errorf("a commitment of two steps leads to %s, %q", at, title)
	}
	var links []string
	unmarshal(t, []byte(eval[string](b, `JSON.stringify([...document.querySelectorAll('main tbody tr')].map((r) => r.cells[0].innerText + ' ' + new URL(r.cells[1].querySelector('a').href).pathname))`)), &links)
	at := strings.TrimPrefix(p.page(), site.url)
	if got, want := strings.Join(links, "\n"), "Step with a commitment "+at+"/0\nStep with a commitment "+at+"/1"; got != want {
		t.Errorf("listed are\n%s\nwant\n%s", got, want)
	}
}

// TestSearchOfNothing: what is not here is told apart from what has no form of anything,
// and the reader learns where else to go.
func TestSearchOfNothing(t *testing.T) {
	b := newTab(t)
	b.theme("light") // and without transitions, which a quick reader breaks off
	b.open(site.url + "/about")
	for text, says := range map[string]string{
		"0x" + strings.Repeat("5a", 32): "It could have been a batch id,",
		"0x" + strings.Repeat("5a", 20): "It could have been an agent's address or a key of this node",
		"nobody & <b>":                  "It is neither a number nor enough of a hash",
	} {
		b.search(text)
		main := eval[string](b, `document.querySelector('main').innerText.replace(/[\u2068\u2069]/g, '')`)
		if b.at() != "/search" || !strings.Contains(main, says) || !strings.Contains(main, "Nothing here is called "+text+".") {
			t.Errorf("%s: %s says %q", text, b.at(), main)
		}
		if got := eval[string](b, `new URLSearchParams(location.search).get('q')`); got != text {
			t.Errorf("%q was looked for, not %q", got, text)
		}
		if !eval[bool](b, `[...document.querySelectorAll('main a')].some((a) => new URL(a.href).pathname === '/verify')`) {
			t.Errorf("%s: nothing leads to /verify", text)
		}
	}
}

// TestSearchKeys: the slash goes to the box from anywhere but a field, Escape leaves it.
func TestSearchKeys(t *testing.T) {
	b := newTab(t)
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	b.slash()
	b.wait(`document.activeElement.id === 'q' && document.activeElement.value === ''`)
	b.do(chromedp.KeyEvent("a/b"))
	b.wait(`document.activeElement.value === 'a/b'`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.wait(`document.activeElement === document.body`)
	b.slash()
	b.wait(`document.activeElement.id === 'q' && getSelection().toString() === 'a/b'`) // to be typed over
	eval[bool](b, `(document.querySelector('#document').focus(), true)`)
	b.slash()
	b.wait(`document.activeElement.id === 'document' && document.activeElement.value === '/'`)
}
