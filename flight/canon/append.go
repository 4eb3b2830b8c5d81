package canon

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Canonical parses one committed value and returns its canonical bytes: at most
// [MaxDepth] deep and [MaxBytes] long. Every refusal is an [*Error].
func Canonical(text []byte) ([]byte, error) {
	v, err := Parse(text, MaxDepth)
	if err != nil {
		return nil, err
	}
	return v.Canonical()
}

// Canonical returns the canonical bytes of a committed value, or TOO_DEEP or
// TOO_LARGE past the limits of spec section 1. A value built in Go is also judged
// as its text would be: NON_FINITE, INVALID_UTF8 and DUPLICATE_KEY.
func (v Value) Canonical() ([]byte, error) {
	if err := check(v, MaxDepth); err != nil {
		return nil, err
	}
	b := Append(nil, v)
	if len(b) > MaxBytes {
		return nil, refuse(TooLarge, "over 1 MiB of canonical bytes")
	}
	return b, nil
}

func refuse(code Code, reason string) error { return &Error{Code: code, Offset: -1, Reason: reason} }

// check refuses a value that no text could have given, or one with more than room
// containers inside each other.
func check(v Value, room int) error {
	switch v.Kind {
	case Number:
		if math.IsNaN(v.Num) || math.IsInf(v.Num, 0) {
			return refuse(NonFinite, "a number is not finite")
		}
	case String:
		if !ValidString(v.Str) {
			return refuse(InvalidUTF8, "a string is not UTF-8")
		}
	case Array, Object:
		if room == 0 {
			return refuse(TooDeep, "more than 64 containers inside each other")
		}
	}
	if v.Kind == Array {
		for i := range v.Arr {
			if err := check(v.Arr[i], room-1); err != nil {
				return err
			}
		}
	}
	if v.Kind == Object {
		return checkMembers(v.Obj, room-1)
	}
	return nil
}

func checkMembers(members []Member, room int) error {
	var keys keySet
	for i := range members {
		m := &members[i]
		if !ValidString(m.Key) {
			return refuse(InvalidUTF8, "a key is not UTF-8")
		}
		if keys.has(members[:i], m.Key) {
			return refuse(DuplicateKey, "a key stands twice in one object")
		}
		if err := check(m.Value, room); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON writes the form of [Append], so that a Value may stand inside
// documents of encoding/json.
func (v Value) MarshalJSON() ([]byte, error) { return Append(nil, v), nil }

// Append appends the canonical form of v to b. It judges nothing: a number that
// is not finite comes out as null, as JSON.stringify has it, and keys may repeat.
// [Value.Canonical] is the strict form.
func Append(b []byte, v Value) []byte {
	switch v.Kind {
	case Bool:
		return strconv.AppendBool(b, v.Bool)
	case Number:
		return AppendNumber(b, v.Num)
	case String:
		return AppendString(b, v.Str)
	case Array:
		b = append(b, '[')
		for i := range v.Arr {
			if i > 0 {
				b = append(b, ',')
			}
			b = Append(b, v.Arr[i])
		}
		return append(b, ']')
	case Object:
		return appendObject(b, v.Obj)
	}
	return append(b, "null"...)
}

func appendObject(b []byte, members []Member) []byte {
	byKey := func(x, y Member) int { return Compare(x.Key, y.Key) }
	if !slices.IsSortedFunc(members, byKey) {
		members = slices.Clone(members)
		slices.SortFunc(members, byKey)
	}
	b = append(b, '{')
	for i := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, members[i].Key), ':')
		b = Append(b, members[i].Value)
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// AppendString appends the JSON form of a WTF-8 string: short escapes where JSON
// has them, \u00xx for other control characters, \udxxx for a lone surrogate,
// and every other character as it is.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0xed {
			continue
		}
		if c == 0xed {
			if u, ok := surrogate(s[i:]); ok {
				b = append(append(b, s[from:i]...), '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
				i += 2
				from = i + 1
			}
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		b = appendEscape(b, c)
	}
	return append(append(b, s[from:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// surrogate returns the lone surrogate at the start of a WTF-8 string.
func surrogate(s string) (uint16, bool) {
	if len(s) < 3 || s[0] != 0xed || s[1] < 0xa0 {
		return 0, false
	}
	return 0xd000 | uint16(s[1]&0x3f)<<6 | uint16(s[2]&0x3f), true
}

// AppendNumber appends f as ECMAScript's JSON.stringify prints it: null where it
// is not finite.
func AppendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	if f == 0 {
		return append(b, '0')
	}
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(b, int64(f), 10)
	}
	if f < 0 {
		b, f = append(b, '-'), -f
	}
	dec, exp := shortest(f)
	return layout(b, dec.b(), exp)
}

// decimal holds up to 17 digits without an allocation.
type decimal struct {
	buf [24]byte
	n   int
}

func (d *decimal) b() []byte { return d.buf[:d.n] }

// shortest returns the fewest digits that read back as f > 0, and where the
// decimal point stands: 0.digits * 10^exp.
func shortest(f float64) (d decimal, exp int) {
	var buf [32]byte
	s := strconv.AppendFloat(buf[:0], f, 'e', -1, 64)
	e := len(s) - 1
	for s[e] != 'e' {
		e--
	}
	x, _ := strconv.Atoi(string(s[e+1:])) // AppendFloat wrote it
	for _, c := range s[:e] {
		if c != '.' {
			d.buf[d.n] = c
			d.n++
		}
	}
	for d.n > 1 && d.buf[d.n-1] == '0' {
		d.n--
	}
	return d, x + 1
}

// layout places digits by the rules of ECMAScript's Number::toString: n is the
// position of the point behind k digits.
func layout(b, digits []byte, n int) []byte {
	k := len(digits)
	switch {
	case k <= n && n <= 21:
		b = append(b, digits...)
		return zeros(b, n-k)
	case 0 < n && n <= 21:
		return append(append(append(b, digits[:n]...), '.'), digits[n:]...)
	case -6 < n && n <= 0:
		return append(zeros(append(b, '0', '.'), -n), digits...)
	}
	b = append(b, digits[0])
	if k > 1 {
		b = append(append(b, '.'), digits[1:]...)
	}
	b = append(b, 'e')
	if n > 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(n-1), 10)
}

func zeros(b []byte, n int) []byte {
	for range n {
		b = append(b, '0')
	}
	return b
}

// Compare orders two WTF-8 strings by UTF-16 code unit, as ECMAScript sorts
// keys. It differs from byte order where a supplementary character meets one
// above U+DFFF or a lone surrogate.
func Compare(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return cmp.Compare(len(a), len(b))
	}
	for i > 0 && (a[i]&0xc0 == 0x80 || b[i]&0xc0 == 0x80) {
		i-- // back to the start of the code point that differs
	}
	ua, ub := units{s: a[i:]}, units{s: b[i:]}
	for {
		x, okx := ua.next()
		y, oky := ub.next()
		if x != y || okx != oky || !okx {
			return cmp.Or(cmp.Compare(b2i(okx), b2i(oky)), cmp.Compare(x, y))
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// units walks the UTF-16 code units of a WTF-8 string.
type units struct {
	s   string
	low uint16 // pending second half of a pair
}

func (u *units) next() (uint16, bool) {
	if u.low != 0 {
		l := u.low
		u.low = 0
		return l, true
	}
	if u.s == "" {
		return 0, false
	}
	if x, ok := surrogate(u.s); ok {
		u.s = u.s[3:]
		return x, true
	}
	r, n := utf8.DecodeRuneInString(u.s)
	u.s = u.s[n:]
	if r >= 0x10000 {
		r -= 0x10000
		u.low = uint16(0xdc00 | r&0x3ff)
		return uint16(0xd800 | r>>10), true
	}
	return uint16(r), true
}
