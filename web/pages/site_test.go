package pages

import (
	"go/build"
	"strings"
	"testing"

	"karatum/flight"
)

// What is shown knows neither where it comes from nor how it is sent.
func TestImports(t *testing.T) {
	p, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range p.Imports {
		for _, banned := range []string{"karatum/store", "karatum/chain", "github.com/gofiber", "github.com/valyala", "html/template"} {
			if name == "karatum/web" || strings.HasPrefix(name, banned) {
				t.Errorf("imports %s", name)
			}
		}
	}
}

func TestLink(t *testing.T) {
	s := testSite()
	for want, got := range map[string]string{
		"/base/":             s.Link(),
		"/base/epochs/7":     s.Link("epochs", 7),
		"/base/a%2F..%2Fb/c": s.Link("a/../b", "c"),
		"/base/agents/0x0000000000000000000000000000000000000000/%22%3E%3Cscript%3Ealert%281%29%3Cb%3E%20%3F%23%252f&+%3B:%20%D8%B3%D9%84%D8%A7%D9%85": s.Link("agents", flight.Address{}, hostileStream),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestText(t *testing.T) {
	for want, got := range map[string]string{
		"1,234,567":       number(1234567),
		"999":             number(999),
		"1 batch":         plural(1, "batch", "batches"),
		"0 batches":       plural(0, "batch", "batches"),
		"5.0 MiB":         byteSize(5 << 20),
		"16.0 EiB":        byteSize(1<<64 - 1),
		"0x1234…cdef":     Shorten("0x1234567890abcdef"),
		"84532, block 10": place(84532, new(uint64(10))),
		"1":               place(1, nil),
		"a\\u{202e}b\nc":  Visible("a\u202eb\nc"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := Visible(strings.Repeat("é", 2*previewRunes))
	if n := strings.Count(long, "é"); n != previewRunes || !strings.HasSuffix(long, "has all of it)") {
		t.Errorf("%d runes are kept: %.40s", n, long[len(long)-40:])
	}
	if got, err := asJSON("a\u202e\U000e0001<"); err != nil || got != `"a\u202e\udb40\udc01\u003c"` {
		t.Errorf("%s, %v", got, err)
	}
}
