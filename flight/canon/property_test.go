package canon_test

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"karatum/flight/canon"
)

// text draws the JSON text of any value.
func text(t *rapid.T) []byte {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	return []byte(drawValue(rnd, rapid.IntRange(0, 6).Draw(t, "depth")))
}

func TestCanonicalIsAFixpoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := text(t)
		once, err := canon.Canonical(raw)
		if err != nil {
			t.Fatalf("Canonical(%q): %v", raw, err)
		}
		twice, err := canon.Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q canonicalises to %q and that to %q, %v", raw, once, twice, err)
		}
	})
}

func TestEveryCutIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(drawObject(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), 4))
		for n := range raw {
			if v, err := canon.Parse(raw[:n], 10); err == nil {
				t.Fatalf("%q, cut from %q, was taken for %v", raw[:n], raw, v)
			}
		}
	})
}

// units is the slow model of a string: its UTF-16 code units.
func units(t *rapid.T, label string) []uint16 {
	unit := rapid.OneOf(rapid.SampledFrom([]uint16{0, 'a', 'b', 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xd800, 0xd83d, 0xdbff, 0xdc00, 0xde00, 0xdfff, 0xe000, 0xfb33, 0xffff}), rapid.Uint16())
	return rapid.SliceOfN(unit, 0, 6).Draw(t, label)
}

// fromUnits parses the string from its escapes.
func fromUnits(t *rapid.T, us []uint16) string {
	const hex = "0123456789abcdef"
	b := []byte{'"'}
	for _, u := range us {
		b = append(b, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
	}
	v, err := canon.Parse(append(b, '"'), 0)
	if err != nil {
		t.Fatalf("Parse(%s): %v", b, err)
	}
	return v.Str
}

func TestCompareOrdersByCodeUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := units(t, "prefix")
		ua, ub := append(slices.Clone(prefix), units(t, "a")...), append(slices.Clone(prefix), units(t, "b")...)
		a, b := fromUnits(t, ua), fromUnits(t, ub)
		if got, want := cmp.Compare(canon.Compare(a, b), 0), slices.Compare(ua, ub); got != want {
			t.Fatalf("Compare(%x, %x) = %d, want %d", ua, ub, got, want)
		}
	})
}

func TestStringsKeepEveryCodeUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := units(t, "units")
		s := fromUnits(t, us)
		if !canon.ValidString(s) {
			t.Fatalf("%x is held as %x, which is not WTF-8", us, s)
		}
		back, err := canon.Parse(canon.AppendString(nil, s), 0)
		if err != nil || back.Str != s {
			t.Fatalf("%x comes back as %x, %v", s, back.Str, err)
		}
		if got, want := canon.CodePoints(s), len(utf16.Decode(us)); got != want {
			t.Fatalf("CodePoints(%x) = %d, want %d", us, got, want)
		}
	})
}
