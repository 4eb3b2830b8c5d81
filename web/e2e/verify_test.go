package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"karatum/testvectors"
)

// documents are what /verify takes.
type documents struct {
	disclosure, step, proof, batch, evidence, bundle []byte
}

// fetchDocuments reads them from the node as anybody would.
func fetchDocuments(t *testing.T) (d documents) {
	t.Helper()
	get := func(path string) []byte {
		raw, err := site.get(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	d.step = get("/v1/flight/agents/" + site.agent + "/streams/" + url.PathEscape(site.stream) + "/steps/4")
	var step struct {
		BatchID    string
		Disclosure json.RawMessage
	}
	var list struct {
		Items []struct{ Evidence json.RawMessage }
	}
	unmarshal(t, d.step, &step)
	unmarshal(t, get("/v1/flight/equivocations"), &list)
	d.disclosure, d.evidence = step.Disclosure, list.Items[0].Evidence
	d.batch, d.proof = get("/v1/flight/batches/"+step.BatchID), get("/v1/flight/batches/"+step.BatchID+"/proof")
	var receipt struct{ Receipt json.RawMessage }
	unmarshal(t, d.batch, &receipt)
	d.bundle = marshal(t, map[string]json.RawMessage{"disclosure": d.disclosure, "proof": d.proof, "receipt": receipt.Receipt, "evidence": d.evidence})
	return d
}

func unmarshal(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// paste puts a document into the form and sends it.
func (b *tab) paste(document string) {
	b.t.Helper()
	b.fill("#document", document)
	b.click(`[data-check-form] [type="submit"]`)
}

func TestVerifyPage(t *testing.T) {
	d := fetchDocuments(t)
	b := newTab(t)
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	b.mu.Lock()
	before := len(b.requests)
	b.mu.Unlock()
	eight := "reveal step place path links signature epoch anchor"
	for _, c := range []struct {
		name     string
		document []byte
		rows     string
		not      []string
		title    string
	}{
		{"disclosure", d.disclosure, eight, []string{"epoch:skip", "anchor:skip"}, "6 of 8 checks passed"},
		{"API answer", d.step, eight, []string{"epoch:skip", "anchor:skip"}, "6 of 8 checks passed"},
		{"proof", d.proof, "epoch anchor", []string{"anchor:skip"}, "1 of 2 checks passed"},
		{"batch with its receipt", d.batch, "batch receipt same", nil, "All 3 checks passed"},
		{"evidence", d.evidence, "a b contradiction", nil, "Proven: the agent signed both"},
		{"bundle of everything", d.bundle, "a b contradiction " + eight + " receipt same", []string{"anchor:skip"}, "12 of 13 checks passed"},
	} {
		b.run(c.name, func(t *testing.T) {
			b.paste(string(c.document))
			b.wait(`document.querySelector('[data-title]').textContent === ` + quote(c.title))
			b.rows(c.not...)
			if got := eval[string](b, `[...document.querySelectorAll('.checks > li')].map((li) => li.dataset.check).join(' ')`); got != c.rows {
				t.Errorf("rows %s, want %s", got, c.rows)
			}
			b.shoot("verify-" + strings.ReplaceAll(c.name, " ", "-"))
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := map[string]int{}
	for _, u := range b.requests[before:] {
		if asked[u]++; strings.HasPrefix(u, "blob:") || strings.HasSuffix(u, ".woff2") {
			continue
		}
		if !forDocuments.MatchString(strings.TrimPrefix(u, site.url)) || asked[u] > 1 {
			t.Errorf("checking asked %s, %d times so far", u, asked[u])
		}
	}
}

// forDocuments are the files that /verify loads once, when the first document of a
// kind is there. Nothing of a document is in their addresses.
var forDocuments = regexp.MustCompile(`^/static/(view|tools|record-worker|evidence-worker|worker)\.[0-9a-f]{16}\.js$`)

// TestBatchPage leads from a batch's page to its check, and lists its steps.
func TestBatchPage(t *testing.T) {
	d := fetchDocuments(t)
	var batch struct{ BatchID string }
	unmarshal(t, d.batch, &batch)
	b := newTab(t)
	b.open(site.url + "/batches/" + batch.BatchID)
	if lines := eval[string](b, `[...document.querySelectorAll('[aria-labelledby="st"] tbody tr')].map((tr) => tr.textContent.trim()).join('|')`); !strings.Contains(lines, "Step 4") || !strings.Contains(lines, "sealed") {
		t.Errorf("steps: %s", lines)
	}
	b.click(`.actions a[href*="/verify#"]`)
	b.outlast(`document.querySelector('[data-title]')?.textContent === 'All 3 checks passed'`)
	b.shoot("batch-verified")
}

// What cannot be read is refused with its field and its line.
func TestVerifyRefusals(t *testing.T) {
	var v struct {
		Flight struct{ Disclosures []json.RawMessage }
	}
	unmarshal(t, testvectors.V1, &v)
	lines := func(change func(string) string) string {
		var doc any
		unmarshal(t, v.Flight.Disclosures[0], &doc)
		text, err := json.MarshalIndent(doc, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		return change(string(text))
	}
	swap := func(pattern, to string) string {
		return lines(func(s string) string {
			out := regexp.MustCompile(pattern).ReplaceAllString(s, to)
			if out == s {
				t.Fatalf("%s is not there", pattern)
			}
			return out
		})
	}
	compact := func(raw json.RawMessage) string {
		var doc any
		unmarshal(t, raw, &doc)
		return string(marshal(t, doc))
	}
	b := newTab(t)
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	for _, c := range []struct{ name, document, says string }{
		{"empty", "  ", `nothing to check yet`},
		{"no JSON", "{\n \"step\": nope}", `Line 2, column 10: `},
		{"duplicate key", "{\"a\": 1,\n\"a\": 2}", `Line 2, column \d+: key "a" stands twice`},
		{"something else", "{\"x\": 1}", `no disclosure, batch, batch proof, receipt or evidence`},
		{"unknown key", swap(`"scheme"`, "\"extra\": 1,\n  \"scheme\""), `Line 14, column 3: batch\.extra: unknown key`},
		{"upper-case hex", swap(`("agent": "0x)[0-9a-f]{2}([0-9a-f]{38}",\n   "createdAt")`, `${1}AB${2}`), `Line 4, column \d+: batch\.header\.agent: must be 20 bytes as lower-case 0x hex`},
		{"unsafe integer", swap(`"index": \d+`, `"index": 9007199254740993`), `Line \d+, column \d+: no double holds this integer exactly`},
		{"lone surrogate in a claimed text", swap(`"scheme": "[^"]*"`, `"scheme": "\ud800"`), `Line \d+, column 3: batch\.scheme: must be one of`},
		{"a bundle's proof", `{"disclosure": ` + compact(v.Flight.Disclosures[0]) + `, "proof":` + "\n" + `{"batchId": 1, "epoch": 2, "proof": 3}}`, `Line 2, column 2: proof\.batchId: must be 32 bytes`},
	} {
		b.run(c.name, func(t *testing.T) {
			b.paste(c.document)
			b.wait(`!document.querySelector('[data-error]').hidden`)
			got := eval[string](b, `document.querySelector('[data-error]').textContent`)
			if !regexp.MustCompile(c.says).MatchString(got) {
				t.Errorf("it says %q, want %s", got, c.says)
			}
			if s := b.panel(); s.State != "idle" || len(s.Rows) != 0 || eval[bool](b, `document.querySelector('[data-opened]').checkVisibility()`) {
				t.Error("a result stands beside the refusal")
			}
			eval[bool](b, `(document.querySelector('[data-error]').hidden = true)`)
		})
	}
	b.shoot("verify-refused")
}

// A document comes by file, drop and address as well.
func TestVerifyIntake(t *testing.T) {
	d := fetchDocuments(t)
	b := newTab(t)
	file := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(file, d.bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	b.do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}))
	b.wait(`document.querySelector('[data-title]').textContent === '12 of 13 checks passed'`)
	if got := eval[string](b, `document.querySelector('.cmd-text').textContent`); got != "karatum verify mine.json" {
		t.Errorf("the command is %q", got)
	}
	eval[bool](b, `(() => { const data = new DataTransfer(); data.items.add(new File([`+quote(string(d.evidence))+`], 'dropped.json')); document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); return true; })()`)
	b.wait(`document.querySelector('[data-title]').textContent === 'Proven: the agent signed both'`)
	for name, fragment := range map[string]string{
		"base64url": base64.RawURLEncoding.EncodeToString(d.batch), "percent": strings.ReplaceAll(url.QueryEscape(string(d.batch)), "+", "%20"),
	} {
		b.run(name, func(t *testing.T) {
			eval[bool](b, `(location.hash = '', location.hash = `+quote(fragment)+`, true)`)
			b.wait(`document.querySelector('[data-title]').textContent === 'All 3 checks passed'`)
		})
	}
	eval[bool](b, `(location.hash = '!', true)`)
	b.wait(`document.querySelector('[data-error]').textContent.includes('after # is no document')`)
}

func TestConflictPage(t *testing.T) {
	b := newTab(t)
	b.open(site.url + "/conflicts/1")
	b.settled()
	s := b.rows()
	if s.Title != "Proven: the agent signed both" || !strings.Contains(s.Evidence["a"], "EIP-712 recovers 0x") || !strings.Contains(s.Evidence["b"], "EIP-191 recovers 0x") {
		t.Errorf("title %q, evidence %v", s.Title, s.Evidence)
	}
	if want := "The agent signed two different batches number 1 of stream “" + site.stream + "”, and only one can be its history."; !strings.HasPrefix(s.Evidence["contradiction"], want) {
		t.Errorf("the contradiction is told as %q", s.Evidence["contradiction"])
	}
	if got := eval[string](b, `[...document.querySelectorAll('.differ dt')].map((e) => e.textContent).join(' ')`); got != "head root" {
		t.Errorf("the statements differ in %s", got)
	}
	// The page marks the same fields in what the server wrote.
	if got := eval[string](b, `[...document.querySelectorAll('.kv > div')].filter((e) => e.querySelector('mark')).map((e) => e.querySelector('dt').textContent).join(' ')`); got != "head root head root" {
		t.Errorf("marked are %s", got)
	}
	raw, err := site.get(strings.TrimPrefix(eval[string](b, `document.querySelector('footer a[href*="/v1/"][href*="equivocations"]').href`), site.url))
	if err != nil || !strings.Contains(string(raw), `"SAME_INDEX"`) {
		t.Errorf("the JSON is %.100s, %v", raw, err)
	}
	if name := eval[string](b, `document.querySelector('[data-save]').download`); name != "conflict-1.json" {
		t.Errorf("the evidence is saved as %s", name)
	}
}

// The saved page works from a file without a request, and its policy refuses every
// connection although the network is there.
func TestOfflinePage(t *testing.T) {
	d := fetchDocuments(t)
	page, err := site.get("/verify.html")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "karatum-verify.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newTab(t)
	b.allow = []string{"file://", "about:"}
	b.expects = regexp.MustCompile(`violates the following Content Security Policy directive|Refused to (connect|load)`)
	b.open("file://" + file)
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	b.mu.Lock()
	if len(b.console) > 0 {
		t.Errorf("the console says %q", b.console)
	}
	b.mu.Unlock()
	b.paste(string(d.bundle))
	b.wait(`document.querySelector('[data-title]').textContent === '12 of 13 checks passed'`)
	b.rows("anchor:skip")
	b.click(`[data-forge="amount"]`)
	b.wait(`document.querySelector('[data-verify]').dataset.state === 'fail'`)
	b.rows("reveal:fail", "anchor:skip")
	b.shoot("offline")
	b.open("about:blank")
	b.open("file://" + file + "#" + base64.RawURLEncoding.EncodeToString(d.evidence))
	b.wait(`document.querySelector('[data-title]').textContent === 'Proven: the agent signed both'`)
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	defer srv.Close()
	b.allow = append(b.allow, srv.URL)
	for _, ask := range []string{`fetch('` + srv.URL + `')`, `fetch('data:,x')`, `new Promise((done, fail) => { const s = new WebSocket('` + strings.Replace(srv.URL, "http", "ws", 1) + `'); s.onerror = fail; s.onopen = done; })`,
		`new Promise((done, fail) => { const i = new Image(); i.onload = done; i.onerror = fail; i.src = '` + srv.URL + `/x.svg'; })`, `new Promise((done, fail) => { if (navigator.sendBeacon('` + srv.URL + `', 'x')) setTimeout(fail, 50); else fail(); })`} {
		if got := eval[string](b, `(`+ask+`).then(() => 'it connects', () => 'refused')`); got != "refused" {
			t.Errorf("%s: %s", ask, got)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests left the offline page", n)
	}
}
