package e2e

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A wire stands between a browser and a node, and can be cut: to the browser the node
// has died. It keeps its port meanwhile, which another process could take otherwise.
type wire struct {
	url string

	mu   sync.Mutex // guards the rest
	to   string     // address of the node, "" while cut
	open []net.Conn
}

func newWire(t *testing.T, to *node) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "http://" + ln.Addr().String()}
	w.mend(to)
	t.Cleanup(func() {
		ln.Close()
		w.cut()
	})
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // the test is over
			}
			w.carry(c)
		}
	}()
	return w
}

// mend leads to a node from now on.
func (w *wire) mend(to *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = strings.TrimPrefix(to.url, "http://")
}

func (w *wire) carry(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to == "" {
		c.Close()
		return
	}
	far, err := net.Dial("tcp", w.to)
	if err != nil {
		c.Close()
		return
	}
	w.open = append(w.open, c, far)
	for _, way := range [][2]net.Conn{{c, far}, {far, c}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // either end may go
			way[0].Close()
		}()
	}
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = ""
	for _, c := range w.open {
		c.Close()
	}
	w.open = nil
}

const grey = `document.documentElement.classList.contains('stale')`

// TestStale: where the node has died, its numbers turn grey and say how old they are;
// when it is back they are read again.
func TestStale(t *testing.T) {
	need(t, missing)
	for _, page := range []string{"/", "/node"} {
		t.Run(page, func(t *testing.T) {
			w := newWire(t, site)
			b := newTab(t)
			b.allow, b.expects = []string{w.url + "/"}, regexp.MustCompile(`net::ERR_`)
			b.open(w.url + page)
			b.wait(`document.querySelector('#live-state').dataset.state === 'on'`)
			w.cut()
			b.wait(`document.querySelector('#live-state').innerText.startsWith('Reconnecting, last heard')`)
			if eval[bool](b, grey) {
				t.Error("fresh numbers are grey")
			}
			eval[bool](b, `(() => { const now = Date.now; Date.now = () => now() + 190000; return true })()`)
			b.wait(grey + ` && document.querySelector('#as-of').textContent === 'as of 3 min ago'`)
			w.mend(site)
			b.wait(`!(` + grey + `) && document.querySelector('#as-of').textContent === '' && document.querySelector('#live-state').dataset.state === 'on'`)
		})
	}
}

// TestTimes: the switch shows every time as it is, and the next page remembers.
func TestTimes(t *testing.T) {
	b := newTab(t)
	url := site.url + "/agents/" + site.agent
	b.open(url)
	all := func(want string) string {
		return fmt.Sprintf(`(() => { const t = [...document.querySelectorAll('time')]; return t.length > 3 && t.every((e) => %s) })()`, want)
	}
	const exact, relative = `/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/`, `/^(just now|in .+|.+ ago)$/`
	plain, utc := all(relative+`.test(e.textContent) && `+exact+`.test(e.title)`), all(exact+`.test(e.textContent) && `+relative+`.test(e.title)`)
	b.wait(plain)
	b.click(`[data-times]`)
	b.wait(utc)
	b.open(url)
	b.wait(utc + ` && document.querySelector('[data-times]').ariaPressed === 'true'`)
	b.click(`[data-times]`)
	b.wait(plain)
}

// TestFilter: each filter of opened steps lists as many as it says, all with its
// verdict.
func TestFilter(t *testing.T) {
	b := newTab(t)
	b.open(site.url + "/agents/" + site.agent)
	total := eval[int](b, `document.querySelectorAll('.steps tbody tr').length`)
	sum := 0
	for _, verdict := range []string{"Confirmed", "Contradicted", "Unverifiable"} {
		b.open(eval[string](b, `[...document.querySelectorAll('.seg.wide a')].find((a) => a.innerText.startsWith('`+verdict+`')).href`))
		b.wait(`document.querySelector('.seg.wide [aria-current]').innerText.startsWith('` + verdict + `')`)
		n := eval[int](b, `Number(document.querySelector('.seg.wide [aria-current] .num').textContent)`)
		rows := eval[string](b, `[...document.querySelectorAll('.steps tbody tr')].map((r) => r.querySelector('.badge').innerText.trim()).join()`)
		if want := strings.TrimSuffix(strings.Repeat(verdict+",", n), ","); rows != want || n == 0 {
			t.Errorf("%s %d lists %q", verdict, n, rows)
		}
		sum += n
	}
	if sum != total || total == 0 {
		t.Errorf("the filters list %d steps, the page without one %d", sum, total)
	}
}
