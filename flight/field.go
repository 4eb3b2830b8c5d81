package flight

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"karatum/flight/canon"
)

// A FieldError refuses a document and names the field at fault, by its path in
// the document ("signature", "fromSeq", "proof.index"). Code is the JSON code of
// spec section 1 where the text itself is at fault, else empty.
type FieldError struct {
	Field  string
	Code   canon.Code
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

func fieldErr(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// parseDoc parses a whole document of at most maxBytes, nested at most maxDepth.
func parseDoc(text []byte, maxDepth, maxBytes int) (canon.Value, error) {
	if len(text) > maxBytes {
		return canon.Value{}, &FieldError{Code: canon.TooLarge, Reason: fmt.Sprintf("the document is over %d bytes", maxBytes)}
	}
	v, err := canon.Parse(text, maxDepth)
	var ce *canon.Error
	if errors.As(err, &ce) {
		return v, &FieldError{Code: ce.Code, Reason: ce.Error()}
	}
	return v, err
}

// object checks that v is an object whose keys are exactly the required ones and
// any of the optional ones. path names v; a key is reported below it.
func object(v canon.Value, path string, required []string, optional ...string) error {
	if v.Kind != canon.Object {
		return fieldErr(path, "must be an object, not %s", v.Kind)
	}
	for _, k := range required {
		if _, ok := v.Get(k); !ok {
			return fieldErr(join(path, k), "is missing")
		}
	}
	for i := range v.Obj {
		if k := v.Obj[i].Key; !slices.Contains(required, k) && !slices.Contains(optional, k) {
			return fieldErr(join(path, clip(k)), "unknown key %q", clip(k))
		}
	}
	return nil
}

// clip shortens text from outside before it is echoed, and makes it UTF-8.
func clip(s string) string {
	if len(s) > 64 {
		s = s[:64] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// A reader takes typed fields out of an object that [object] has checked and
// keeps the first error.
type reader struct {
	v    canon.Value
	path string
	err  error
}

func (r *reader) fail(key, format string, args ...any) {
	if r.err == nil {
		r.err = fieldErr(join(r.path, key), format, args...)
	}
}

func (r *reader) text(key string) string {
	v, _ := r.v.Get(key)
	if v.Kind != canon.String {
		r.fail(key, "must be a string, not %s", v.Kind)
	}
	return v.Str
}

func (r *reader) integer(key string) uint64 {
	v, _ := r.v.Get(key)
	n, ok := v.Int()
	if !ok {
		r.fail(key, "must be an integer from 0 to 2^53-1")
	}
	return n
}

func (r *reader) hash(key string) (h Hash) {
	if err := unhex(h[:], r.text(key)); err != nil {
		r.fail(key, "must be 32 bytes as lower-case 0x hex")
	}
	return h
}

func (r *reader) address(key string) (a Address) {
	if err := unhex(a[:], r.text(key)); err != nil {
		r.fail(key, "must be an address as lower-case 0x hex")
	}
	return a
}

// optHash returns nil where the object lacks the key.
func (r *reader) optHash(key string) *Hash {
	if _, ok := r.v.Get(key); !ok {
		return nil
	}
	h := r.hash(key)
	return &h
}
