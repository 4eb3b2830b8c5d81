package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A tab is a page that a test looks at. At its end the console must be empty, and
// every request must have gone where the test allows.
type tab struct {
	t   *testing.T
	ctx context.Context

	allow   []string       // prefixes of addresses beside the node's
	expects *regexp.Regexp // console messages that belong to the test, nil for none

	mu       sync.Mutex
	console  []string
	requests []string
}

// patience bounds one wait; a step that needs longer, on a machine that does much
// besides, is broken.
const patience = time.Minute

func newTab(t *testing.T, opts ...chromedp.ContextOption) *tab {
	t.Helper()
	need(t, missing)
	b := &tab{t: t}
	ctx, cancel := chromedp.NewContext(browser, append(opts, chromedp.WithListener(b.hear))...)
	b.ctx = ctx
	t.Cleanup(func() {
		b.judge()
		cancel()
	})
	b.do(chromedp.EmulateViewport(1280, 900))
	for _, enable := range []func() error{
		func() error { _, err := chromedp.Call(b.ctx, log.Enable, struct{}{}); return err },
		func() error { _, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{}); return err },
	} {
		if err := enable(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *tab) hear(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, arg := range ev.Args {
			b.console = append(b.console, fmt.Sprintf("console.%s: %s", ev.Type, arg.Value))
		}
	case *runtime.EventExceptionThrown:
		b.console = append(b.console, fmt.Sprintf("exception: %s %s", ev.ExceptionDetails.Text, described(ev.ExceptionDetails.Exception)))
	case *log.EventEntryAdded:
		b.console = append(b.console, fmt.Sprintf("%s: %s %s", ev.Entry.Level, ev.Entry.Text, ev.Entry.URL))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, ev.Request.URL)
	}
}

func described(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

func (b *tab) judge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.console {
		if b.expects == nil || !b.expects.MatchString(line) {
			b.t.Errorf("the console says %q", line)
		}
	}
	for _, u := range b.requests {
		ok := strings.HasPrefix(u, site.url+"/") || strings.HasPrefix(u, "data:") || strings.HasPrefix(u, "blob:")
		for _, a := range b.allow {
			ok = ok || strings.HasPrefix(u, a)
		}
		if !ok {
			b.t.Errorf("the page asked %s", u)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatalf("open %s: %v", url, err)
	}
}

// eval runs an expression in the page; a promise is awaited.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v\n%s", expression, err, b.state())
	}
	return v
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	eval[bool](b, waiting(expression))
}

func waiting(expression string) string {
	return fmt.Sprintf(`new Promise((done) => { const look = () => (%s) ? done(true) : setTimeout(look, 10); look(); })`, expression)
}

// outlast waits as wait does, in each page that the tab loads meanwhile.
func (b *tab) outlast(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](waiting(expression), chromedp.EvalAwaitPromise))
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			b.t.Fatalf("%.200s: %v\n%s", expression, err, b.state())
		}
	}
}

// state is what a failed wait would like to have seen.
func (b *tab) state() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector('[data-verify]')?.innerText ?? document.body.innerText`))
	b.mu.Lock()
	defer b.mu.Unlock()
	return text + "\n" + strings.Join(b.console, "\n")
}

// click clicks as a mouse does, after scrolling there.
func (b *tab) click(selector string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.t.Fatalf("click %s: %v", selector, err)
	}
}

// slash presses the key. A keyboard's character belongs to its press, so that a page may
// take the press for itself; KeyEvent sends the two apart.
func (b *tab) slash() {
	b.t.Helper()
	key := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Code: "Slash", Text: "/", WindowsVirtualKeyCode: 191}
	if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, key); err != nil {
		b.t.Fatal(err)
	}
	key.Type, key.Text = input.DispatchKeyEventTypeKeyUp, ""
	if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, key); err != nil {
		b.t.Fatal(err)
	}
}

// run makes a subtest in the same tab.
func (b *tab) run(name string, test func(t *testing.T)) {
	parent := b.t
	parent.Run(name, func(t *testing.T) {
		b.t = t
		defer func() { b.t = parent }()
		test(t)
	})
}

// fill sets what a field holds.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(document.querySelector(%s).value = %s, true)`, quote(selector), quote(value)))
}

// settled waits for the panel to have a result.
func (b *tab) settled() {
	b.t.Helper()
	b.wait(`['pass', 'fail', 'partial'].includes(document.querySelector('[data-verify]').dataset.state)`)
}

// A panelState is what the panel says.
type panelState struct {
	State, Title, Sub, Change string
	Rows                      map[string]string // state by id
	Hidden                    map[string]string // what a screen reader hears of it
	Evidence                  map[string]string
}

func (b *tab) panel() panelState {
	b.t.Helper()
	raw := eval[string](b, `(() => { const p = document.querySelector('[data-verify]'), all = (f) => Object.fromEntries([...p.querySelectorAll('.checks > li')].map((li) => [li.dataset.check, f(li)]));
return JSON.stringify({ state: p.dataset.state, title: p.querySelector('[data-title]').textContent, sub: p.querySelector('[data-sub]').textContent, change: p.querySelector('[data-change]')?.textContent ?? '',
rows: all((li) => li.dataset.s), hidden: all((li) => li.querySelector('.state').textContent), evidence: all((li) => li.querySelector('.ev').textContent) }); })()`)
	var s panelState
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// rows checks the states of the rows, those not named being passes. "links:skip".
func (b *tab) rows(named ...string) panelState {
	b.t.Helper()
	s := b.panel()
	want := map[string]string{}
	for id := range s.Rows {
		want[id] = "pass"
	}
	for _, n := range named {
		id, state, _ := strings.Cut(n, ":")
		if want[id] == "" {
			b.t.Errorf("there is no row %s", id)
		}
		want[id] = state
	}
	words := map[string]string{"pass": "passed", "fail": "failed", "skip": "not run", "partial": "passed in part"}
	for id, state := range want {
		if s.Rows[id] != state || s.Hidden[id] != words[state] {
			b.t.Errorf("row %s is %s (%q), want %s: %s", id, s.Rows[id], s.Hidden[id], state, s.Evidence[id])
		}
	}
	return s
}

func (b *tab) size(width, height int64) { b.t.Helper(); b.do(chromedp.EmulateViewport(width, height)) }

// theme sets what the system prefers.
func (b *tab) theme(name string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		b.t.Fatal(err)
	}
}

// shoot saves a picture of the whole page where the flag asks for it.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	eval[bool](b, `(scrollTo(0, 0), true)`)
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}
