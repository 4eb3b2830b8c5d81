package pages

import (
	"strings"
	"testing"
)

// FuzzVisible checks that no text from outside can reorder or hide what stands
// beside it.
func FuzzVisible(f *testing.F) {
	f.Add("plain")
	f.Add("\u202egnp.exe\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if got := Visible(text); strings.ContainsAny(got, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\ufeff\x00\x1b") {
			t.Errorf("%q is shown as %q", text, got)
		}
	})
}
