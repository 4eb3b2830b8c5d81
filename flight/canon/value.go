// Package canon owns canonical JSON, the bytes under every hash of the flight
// record (spec section 1).
//
// The canonical form of a value is what ECMAScript's JSON.stringify prints for
// it, with object keys sorted by UTF-16 code unit at every level. [Parse] reads
// JSON strictly: one value, no duplicate keys, no number that ECMAScript would
// print as another one. [Append] writes the canonical form.
//
// Strings are held as WTF-8: UTF-8 in which a lone surrogate, which JSON can
// write as \ud800 but UTF-8 cannot, takes its three-byte generalised form. Raw
// input with such bytes is refused, so the form is unambiguous.
package canon

import "unicode/utf8"

// Limits of one committed value (spec section 1).
const (
	MaxDepth = 64      // containers inside each other
	MaxBytes = 1 << 20 // canonical bytes
)

// Kind says what a Value is.
type Kind uint8

// The six kinds of a JSON value.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "boolean", "number", "string", "array", "object"}

// String returns the JSON name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown kind"
}

// A Value is one JSON value. Only the field that Kind names is meaningful. The
// zero Value is null.
type Value struct {
	Kind Kind
	Bool bool
	Num  float64  // finite
	Str  string   // WTF-8
	Arr  []Value  // in order
	Obj  []Member // in source order, keys distinct
}

// A Member is one key of an object with its value.
type Member struct {
	Key   string // WTF-8
	Value Value
}

// Get returns the value under key and whether the object has it. It is false
// for every other kind.
func (v Value) Get(key string) (Value, bool) {
	if v.Kind != Object {
		return Value{}, false
	}
	for i := range v.Obj {
		if v.Obj[i].Key == key {
			return v.Obj[i].Value, true
		}
	}
	return Value{}, false
}

// Int returns the value as an integer of the protocol's range, 0 to 2^53-1.
// Typed fields are compared by value, so 1.0 is 1 and -0 is 0.
func (v Value) Int() (uint64, bool) {
	if v.Kind != Number || v.Num < 0 || v.Num > MaxInt || v.Num != float64(uint64(v.Num)) {
		return 0, false
	}
	return uint64(v.Num), true
}

// MaxInt is the largest integer of a typed protocol field, 2^53-1.
const MaxInt = 1<<53 - 1

// Str returns a string value.
func Str(s string) Value { return Value{Kind: String, Str: s} }

// Int returns a number value of an integer of the protocol's range.
func Int(n uint64) Value { return Value{Kind: Number, Num: float64(n)} }

// Obj returns an object of the members, whose keys must be distinct.
func Obj(m ...Member) Value { return Value{Kind: Object, Obj: m} }

// ValidString reports whether s is WTF-8: UTF-8 in which a surrogate, never the
// second half of a pair, may take its three-byte form.
func ValidString(s string) bool {
	high := false // the code point before was a lone high surrogate
	for s != "" {
		if u, ok := surrogate(s); ok {
			if high && u >= 0xdc00 {
				return false
			}
			high, s = u < 0xdc00, s[3:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			return false
		}
		high, s = false, s[n:]
	}
	return true
}

// CodePoints returns the number of code points of a WTF-8 string; a lone
// surrogate counts as one.
func CodePoints(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i]&0xc0 != 0x80 {
			n++
		}
	}
	return n
}
