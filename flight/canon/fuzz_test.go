package canon_test

import (
	"bytes"
	"errors"
	"testing"

	"karatum/flight/canon"
)

func FuzzParse(f *testing.F) {
	v := load(f)
	for _, c := range v.Cases {
		f.Add([]byte(c.Raw))
	}
	for i := range v.Errors {
		f.Add(v.text(f, i))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := canon.Parse(text, canon.MaxDepth)
		if err != nil {
			var e *canon.Error
			if !errors.As(err, &e) || e.Code == "" || e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("refusal without a code or place: %#v", err)
			}
			return
		}
		b, err := v.Canonical()
		if err != nil {
			if errors.Is(err, &canon.Error{Code: canon.TooLarge}) {
				return
			}
			t.Fatalf("a parsed value is refused: %v", err)
		}
		again, err := canon.Canonical(b)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%q canonicalises to %q and that to %q, %v", text, b, again, err)
		}
	})
}
