package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"karatum/testvectors"
)

// The last step of an anchored batch: every check but the chain's can run.
const edge = 4

func TestPanelPasses(t *testing.T) {
	b := newTab(t)
	b.open(site.step(edge))
	b.settled()
	s := b.rows("anchor:skip")
	if s.State != "pass" || s.Title != "7 of 8 checks passed" {
		t.Errorf("state %s, title %q", s.State, s.Title)
	}
	if !regexp.MustCompile(`^Done by your browser in (<1|\d+) ms, with 0 requests\.$`).MatchString(s.Sub) {
		t.Errorf("the header says %q", s.Sub)
	}
	if s.Evidence["anchor"] != "needs a chain connection" || !strings.Contains(s.Evidence["signature"], "EIP-712 recovers 0x") {
		t.Errorf("evidence %v", s.Evidence)
	}
	if role := eval[string](b, `document.querySelector('[data-title]').closest('[role]').getAttribute('role')`); role != "status" {
		t.Errorf("the header's role is %q", role)
	}
	b.click("[data-again]")
	b.settled()
	b.rows("anchor:skip")
}

// The step before one at an odd place stands beside it in the proof; at an even place
// nothing of it does.
func TestPanelOfAnInnerStep(t *testing.T) {
	var v struct {
		Flight struct{ Disclosures []json.RawMessage }
	}
	unmarshal(t, testvectors.V1, &v)
	b := newTab(t)
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	b.paste(string(v.Flight.Disclosures[4]))
	b.settled()
	if s := b.rows("epoch:skip", "anchor:skip"); !strings.HasPrefix(s.Evidence["links"], "follows step 3, which stands beside it") {
		t.Errorf("title %q, links %q", s.Title, s.Evidence["links"])
	}
	b.open(site.step(2))
	b.settled()
	if s := b.rows("links:skip", "anchor:skip"); s.Title != "6 of 8 checks passed" || s.Evidence["links"] != "the proof does not hold the step before this one" {
		t.Errorf("title %q, links %q", s.Title, s.Evidence["links"])
	}
}

// A batch signed as wallets sign, with hostile text, not anchored.
func TestPanelUnanchored(t *testing.T) {
	b := newTab(t)
	b.open(site.url + site.ours + "/0")
	b.settled()
	s := b.rows("epoch:skip", "anchor:skip")
	if !strings.Contains(s.Evidence["signature"], "EIP-191 recovers 0x") || !strings.HasPrefix(s.Evidence["epoch"], "not anchored yet") {
		t.Errorf("evidence %v", s.Evidence)
	}
	if !eval[bool](b, `document.querySelector('.rpc').hidden`) {
		t.Error("an RPC is offered where nothing is anchored")
	}
	b.near()
	if got := eval[string](b, `document.querySelector('[data-forge="amount"]').textContent`); got != "Change an opened value" {
		t.Errorf("without an amount the chip says %q", got)
	}
	b.click(`[data-forge="date"]`)
	b.wait(`document.querySelector('[data-verify]').dataset.state === 'fail'`)
	b.rows("signature:fail", "epoch:skip", "anchor:skip")
}

// Nothing is opened and the batch has one step: what cannot be forged is not
// offered.
func TestPanelOfOneSealedStep(t *testing.T) {
	b := newTab(t)
	b.open(site.url + site.ours + "/2")
	b.settled()
	s := b.rows("reveal:skip", "epoch:skip", "anchor:skip")
	if s.Evidence["reveal"] != "nothing is opened" || s.Title != "5 of 8 checks passed" {
		t.Errorf("title %q, evidence %v", s.Title, s.Evidence)
	}
	b.near()
	if got := eval[string](b, `[...document.querySelectorAll('[data-forge]:disabled')].map((c) => c.dataset.forge + ': ' + c.title).join('; ')`); got != "amount: nothing is opened; drop: a batch of one step needs no proof hash" {
		t.Errorf("not offered: %s", got)
	}
}

// near brings the focus to the forge, which loads what works there.
func (b *tab) near() {
	b.t.Helper()
	eval[bool](b, `(document.querySelector('[data-forge="step"]').focus(), true)`)
	b.wait(`document.querySelector('[data-save]').href.startsWith('blob:')`)
}

// TestNothingMovesUnderThePointer: what is loaded as a pointer comes near leaves every
// button where it was, or the press would miss it.
func TestNothingMovesUnderThePointer(t *testing.T) {
	const places = `JSON.stringify([...document.querySelectorAll('.forge button, .rpc button, .indep a, .indep button')].map((e) => {
		const at = e.getBoundingClientRect()
		return [e.textContent, at.x, at.y + scrollY, at.width, at.height]
	}))`
	for _, url := range []string{site.step(edge), site.url + site.ours + "/0", site.url + site.ours + "/2", site.url + "/conflicts/1"} {
		b := newTab(t)
		b.size(390, 800)
		b.open(url)
		b.settled()
		eval[bool](b, `document.fonts.ready.then(() => true)`)
		before := eval[string](b, places)
		eval[bool](b, `(document.querySelector('.indep').dispatchEvent(new PointerEvent('pointerover')), true)`)
		b.wait(`document.querySelector('[data-save]').href.startsWith('blob:')`)
		if after := eval[string](b, places); after != before || !strings.Contains(before, "Copy") {
			t.Errorf("%s: before %s\nafter %s", url, before, after)
		}
	}
}

func TestForgeries(t *testing.T) {
	b := newTab(t)
	b.open(site.step(edge))
	b.settled()
	for _, c := range []struct {
		forge, change, caught string
		rows                  []string
	}{
		{"amount", `claim\.amount is now 25000001, was 25000000`, "opened values match their seals", []string{"reveal:fail", "anchor:skip"}},
		{"step", `step\.seq is now 5, was 4`, "right place in the batch; reaches the signed root", []string{"place:fail", "path:fail", "links:skip", "anchor:skip"}},
		{"date", `createdAt is now \d+, was \d+`, "signed by the agent; part of the epoch", []string{"signature:fail", "epoch:fail", "anchor:skip"}},
		{"drop", `proof\.siblings is now \w+ hash(es)?, was \w+ hash(es)?`, "reaches the signed root", []string{"path:fail", "anchor:skip"}},
		{"signature", `signature is now ….*, was ….*`, "signed by the agent", []string{"signature:fail", "anchor:skip"}},
	} {
		b.run(c.forge, func(t *testing.T) {
			b.click(`[data-forge="` + c.forge + `"]`)
			b.wait(`document.querySelector('[data-verify]').dataset.state === 'fail' && document.querySelector('[data-forge="` + c.forge + `"]').getAttribute('aria-pressed') === 'true'`)
			s := b.rows(c.rows...)
			if !regexp.MustCompile(`^` + c.change + `$`).MatchString(s.Change) {
				t.Errorf("the change is shown as %q", s.Change)
			}
			if !strings.HasPrefix(s.Title, "Rejected: ") || !regexp.MustCompile(`^Caught in .* with 0 requests\. The agent did not sign this\.$`).MatchString(s.Sub) {
				t.Errorf("header %q, %q", s.Title, s.Sub)
			}
			if eval[int](b, `document.querySelectorAll('[aria-pressed="true"]').length`) != 1 {
				t.Error("more than one chip is pressed")
			}
			b.wait(`document.querySelector('[data-caught]').textContent !== ''`)
			if got := eval[string](b, `document.querySelector('[data-caught]').textContent`); got != "Caught by: "+c.caught+"." {
				t.Errorf("beside the chips it says %q", got)
			}
			b.shoot("forged-" + c.forge)
		})
	}
	b.click(`[data-forge="none"]`)
	b.wait(`document.querySelector('[data-verify]').dataset.state === 'pass'`)
	if s := b.rows("anchor:skip"); s.Change != "" || eval[int](b, `document.querySelectorAll('[aria-pressed="true"]').length`) != 0 {
		t.Errorf("after Restore the change is %q", s.Change)
	}
}

// ask fills the form of the last row and sends it.
func (b *tab) ask(rpc, attester string) {
	b.t.Helper()
	b.fill(`.rpc [name="rpc"]`, rpc)
	b.fill(`.rpc [name="attester"]`, attester)
	b.click(".rpc button")
}

func TestAskAnRPC(t *testing.T) {
	b := newTab(t)
	lie := lyingRPC(t, site.chain)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	b.allow = []string{site.chain, lie, dead.URL}
	b.expects = regexp.MustCompile(`net::ERR_CONNECTION_REFUSED`)
	b.open(site.step(edge))
	b.settled()
	for _, c := range []struct {
		name, rpc, attester string
		rows                []string
		title, says         string
	}{
		{"the attester that I expect", site.chain, site.attester, nil, "All 8 checks passed", "attested by 0x"},
		{"nobody in particular", site.chain, "", []string{"anchor:partial"}, "7 of 8 checks passed, 1 in part", "anyone can attest"},
		{"another attester", site.chain, "0x" + strings.Repeat("1", 40), []string{"anchor:fail"}, "Rejected: 1 of 8 checks failed", "the attester is 0x"},
		{"an RPC that lies", lie, site.attester, []string{"anchor:fail"}, "Rejected: 1 of 8 checks failed", "does not attest this epoch"},
		{"an RPC that is not there", dead.URL, site.attester, []string{"anchor:skip"}, "7 of 8 checks passed", "could not be asked"},
	} {
		b.run(c.name, func(t *testing.T) {
			b.ask(c.rpc, c.attester)
			b.wait(`document.querySelector('[data-check="anchor"] .ev').textContent.includes(` + quote(c.says) + `) && document.querySelector('[data-verify]').dataset.state !== 'running'`)
			s := b.rows(c.rows...)
			if s.Title != c.title || strings.Contains(s.Sub, "with 0 requests") || strings.Contains(s.Sub, "did not sign") {
				t.Errorf("header %q, %q", s.Title, s.Sub)
			}
			if c.rows == nil && !strings.Contains(s.Sub, "with 3 requests") {
				t.Errorf("the header says %q of three calls", s.Sub)
			}
			b.shoot("rpc-" + strings.ReplaceAll(c.name, " ", "-"))
		})
	}
	for _, c := range [][3]string{{"ftp://x", "", "must begin with https://"}, {"http://example.org", "", "must begin with https://"}, {site.chain, "0x12", "40 hex digits"}} {
		eval[bool](b, `(document.querySelector('[data-wrong]').textContent = '', true)`)
		b.ask(c[0], c[1])
		b.wait(`document.querySelector('[data-wrong]').innerText.includes(` + quote(c[2]) + `)`)
	}
}

func quote(s string) string {
	text, _ := json.Marshal(s) // of a string, never fails
	return string(text)
}

// lyingRPC passes calls on and changes one digit of the transaction's input.
func lyingRPC(t *testing.T, chain string) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "content-type")
		if r.Method == http.MethodOptions {
			return
		}
		res, err := http.Post(chain, "application/json", r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		changed := regexp.MustCompile(`("input":"0x[0-9a-f]{400})(.)`).ReplaceAllFunc(body, func(m []byte) []byte {
			m[len(m)-1] = map[bool]byte{true: '1', false: '0'}[m[len(m)-1] == '0']
			return m
		})
		_, _ = w.Write(changed) // the page sees a short answer
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// behind serves the node with another policy, as a cautious proxy would.
func behind(t *testing.T, change func(http.Header)) string {
	target, err := url.Parse(site.url)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error { change(r.Header); return nil },
	})
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestWorkerBlocked(t *testing.T) {
	proxy := behind(t, func(h http.Header) {
		h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "worker-src 'self'", "worker-src 'none'", 1))
	})
	b := newTab(t)
	b.allow, b.expects = []string{proxy}, regexp.MustCompile(`worker-src 'none'|Creating a worker from`)
	b.open(strings.Replace(site.step(edge), site.url, proxy, 1))
	b.settled()
	s := b.rows("anchor:skip")
	if !strings.Contains(s.Sub, "in this page, for workers are blocked here, in ") || !strings.Contains(s.Sub, "with 0 requests") {
		t.Errorf("the header says %q", s.Sub)
	}
	b.click(`[data-forge="signature"]`)
	b.wait(`document.querySelector('[data-verify]').dataset.state === 'fail'`)
	b.rows("signature:fail", "anchor:skip")
}

func TestWithoutJavaScript(t *testing.T) {
	b := newTab(t)
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	b.open(site.step(edge))
	s := b.panel()
	if s.State != "idle" || s.Title != "Not checked yet" || s.Sub != "Needs JavaScript, or use a command below" {
		t.Errorf("state %s, %q, %q", s.State, s.Title, s.Sub)
	}
	for id, heard := range s.Hidden {
		if s.Rows[id] != "wait" || heard != "not run yet" {
			t.Errorf("row %s is %s, %q", id, s.Rows[id], heard)
		}
	}
	text := eval[string](b, `document.querySelector('.indep').innerText`)
	for _, want := range []string{"karatum verify step-4.json", "python3 karatum_flight.py verify step-4.json", "Save verifier", "Save record"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "localhost") || strings.Contains(text, "Copy") || eval[bool](b, `document.querySelector('[data-again]').checkVisibility()`) || eval[bool](b, `document.querySelector('.forge').checkVisibility()`) {
		t.Error("something is offered that needs JavaScript")
	}
	// What is saved without JavaScript is what the commands take.
	raw, err := site.get(strings.TrimPrefix(eval[string](b, `document.querySelector('[data-save]').href`), site.url))
	if err != nil || !strings.Contains(string(raw), `"disclosure"`) {
		t.Errorf("the saved record is %.100s, %v", raw, err)
	}
}

// Everything in the panel is reached and worked with the keyboard.
func TestKeyboard(t *testing.T) {
	b := newTab(t)
	b.open(site.step(edge))
	b.settled()
	eval[bool](b, `(document.querySelector('[data-again]').focus(), true)`)
	var seen []string
	for range 16 {
		at := eval[string](b, `(() => { const e = document.activeElement; return (e.dataset.forge ?? e.name ?? '') || e.textContent.trim(); })()`)
		if !eval[bool](b, `(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(), top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 3 && (top === e || e.contains(top)); })()`) && len(seen) > 0 {
			t.Errorf("the focus at %q is not to be seen", at)
		}
		if seen = append(seen, at); at == "this file" {
			break
		}
		if at == "signature" {
			b.do(chromedp.KeyEvent(" "))
			b.wait(`document.querySelector('[data-verify]').dataset.state === 'fail'`)
		}
		if at == "none" {
			b.do(chromedp.KeyEvent(kb.Enter))
			b.wait(`document.querySelector('[data-verify]').dataset.state === 'pass'`)
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	want := "Run again rpc Ask this RPC attester amount step date drop signature none Save verifier Save record Open on localhost Copy Copy this file"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("the keyboard goes\n%s, want\n%s", got, want)
	}
}

// The ladder: what the page hands out checks elsewhere.
func TestTakeAway(t *testing.T) {
	b := newTab(t)
	b.open(site.step(edge))
	b.settled()
	b.near()
	name := eval[string](b, `document.querySelector('[data-save]').download`)
	local := eval[string](b, `document.querySelector('[data-local]').href`)
	if name != "step-4.json" || !strings.HasPrefix(local, "http://localhost:8080/verify#") {
		t.Errorf("the record is %s, the local address %.60s", name, local)
	}
	b.open(site.url + "/verify#" + local[strings.Index(local, "#")+1:])
	b.settled()
	if s := b.rows("anchor:skip"); s.Title != "7 of 8 checks passed" {
		t.Errorf("from the fragment: %q", s.Title)
	}
}
