package canon

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// mapKeys is the object size from which duplicate keys are looked up in a map;
// below it a linear look is quicker.
const mapKeys = 12

// Parse reads exactly one JSON value, nested at most maxDepth containers deep.
// Every refusal is an [*Error]. Time and memory are linear in the input; the
// caller bounds its length.
func Parse(text []byte, maxDepth int) (Value, error) {
	p := parser{text: text, maxDepth: maxDepth, sizes: sizes(text, maxDepth)}
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.pos != len(text) {
		return Value{}, p.fail(TrailingData, "more follows after the value")
	}
	return v, nil
}

type parser struct {
	text     []byte
	pos      int
	maxDepth int
	sizes    []uint32 // of the containers to come, as far as known
}

func (p *parser) fail(code Code, format string, args ...any) error {
	return &Error{Code: code, Offset: p.pos, Reason: fmt.Sprintf(format, args...)}
}

// clip shortens text from outside before an error echoes it.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}

func (p *parser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// next skips space and returns the byte at hand, 0 at the end. A NUL in the
// text is no JSON either, so the two need no telling apart.
func (p *parser) next() byte {
	p.space()
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *parser) value(depth int) (Value, error) {
	switch c := p.next(); {
	case c == '{':
		return p.object(depth + 1)
	case c == '[':
		return p.array(depth + 1)
	case c == '"':
		s, err := p.str()
		return Value{Kind: String, Str: s}, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	case c == 't':
		return Value{Kind: Bool, Bool: true}, p.word("true")
	case c == 'f':
		return Value{Kind: Bool}, p.word("false")
	case c == 'n':
		return Value{}, p.word("null")
	}
	if p.pos >= len(p.text) {
		return Value{}, p.fail(Syntax, "the text ends where a value is expected")
	}
	return Value{}, p.fail(Syntax, "%q starts no value", p.text[p.pos])
}

func (p *parser) word(w string) error {
	if !bytes.HasPrefix(p.text[p.pos:], []byte(w)) {
		return p.fail(Syntax, "expected %s", w)
	}
	p.pos += len(w)
	return nil
}

// enter steps into a container; size is how many elements it seems to have.
func (p *parser) enter(depth int) (size int, err error) {
	if depth > p.maxDepth {
		return 0, p.fail(TooDeep, "more than %d containers inside each other", p.maxDepth)
	}
	p.pos++
	if len(p.sizes) > 0 {
		size, p.sizes = int(p.sizes[0]), p.sizes[1:]
	}
	return size, nil
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: Array}
	size, err := p.enter(depth)
	if err != nil {
		return v, err
	}
	if p.next() == ']' {
		p.pos++
		return v, nil
	}
	v.Arr = slices.Grow(v.Arr, size)
	for {
		e, err := p.value(depth)
		if err != nil {
			return v, err
		}
		v.Arr = append(v.Arr, e)
		if more, err := p.more(']'); err != nil || !more {
			return v, err
		}
	}
}

// more consumes the comma or the closing byte after an element.
func (p *parser) more(end byte) (bool, error) {
	switch p.next() {
	case ',':
		p.pos++
		return true, nil
	case end:
		p.pos++
		return false, nil
	}
	return false, p.fail(Syntax, "expected , or %c", end)
}

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Object}
	size, err := p.enter(depth)
	if err != nil {
		return v, err
	}
	if p.next() == '}' {
		p.pos++
		return v, nil
	}
	v.Obj = slices.Grow(v.Obj, size)
	var keys keySet
	for {
		m, err := p.member(depth, v.Obj, &keys)
		if err != nil {
			return v, err
		}
		v.Obj = append(v.Obj, m)
		if more, err := p.more('}'); err != nil || !more {
			return v, err
		}
	}
}

func (p *parser) member(depth int, before []Member, keys *keySet) (Member, error) {
	if p.next() != '"' {
		return Member{}, p.fail(Syntax, "expected a key in double quotes")
	}
	at := p.pos
	key, err := p.str()
	if err != nil {
		return Member{}, err
	}
	if keys.has(before, key) {
		p.pos = at
		return Member{}, p.fail(DuplicateKey, "key %q stands twice in one object", clip(key))
	}
	if p.next() != ':' {
		return Member{}, p.fail(Syntax, "expected : after the key")
	}
	p.pos++
	val, err := p.value(depth)
	return Member{Key: key, Value: val}, err
}

// A keySet tells whether an object has a key already: by looking through the
// members while they are few, by a map from then on.
type keySet map[string]struct{}

// has reports whether members hold key, and adds it to the set.
func (s *keySet) has(members []Member, key string) bool {
	if len(members) < mapKeys {
		return slices.ContainsFunc(members, func(m Member) bool { return m.Key == key })
	}
	if *s == nil {
		*s = make(keySet, 2*mapKeys)
		for i := range members {
			(*s)[members[i].Key] = struct{}{}
		}
	}
	_, dup := (*s)[key]
	(*s)[key] = struct{}{}
	return dup
}

func (p *parser) number() (Value, error) {
	start, integer := p.pos, true
	if p.text[p.pos] == '-' {
		p.pos++
	}
	first := p.pos
	if p.digits() == 0 {
		return Value{}, p.fail(Syntax, "a number needs a digit here")
	}
	if p.text[first] == '0' && p.pos > first+1 {
		p.pos = first
		return Value{}, p.fail(Syntax, "a number may not start with 0")
	}
	if p.at('.') {
		p.pos++
		integer = false
		if p.digits() == 0 {
			return Value{}, p.fail(Syntax, "a digit must follow the point")
		}
	}
	if p.at('e') || p.at('E') {
		p.pos++
		integer = false
		if p.at('+') || p.at('-') {
			p.pos++
		}
		if p.digits() == 0 {
			return Value{}, p.fail(Syntax, "the exponent needs a digit")
		}
	}
	if p.at('.') || p.at('e') || p.at('E') {
		return Value{}, p.fail(Syntax, "%q is glued to a number", p.text[p.pos])
	}
	lit := p.text[start:p.pos]
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil { // the grammar was checked: only the range is left
		p.pos = start
		return Value{}, p.fail(NonFinite, "the number is beyond the double range")
	}
	if integer && !sameInteger(lit, f) {
		p.pos = start
		return Value{}, p.fail(UnsafeInteger, "a double cannot hold this integer exactly; pass it as a string")
	}
	return Value{Kind: Number, Num: f}, nil
}

func (p *parser) at(c byte) bool { return p.pos < len(p.text) && p.text[p.pos] == c }

func (p *parser) digits() int {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
	return p.pos - start
}

// sameInteger reports whether the integer literal is the number that ECMAScript
// prints for f: the shortest digits of f, filled up with zeros.
func sameInteger(lit []byte, f float64) bool {
	if len(lit) <= 15 {
		return true
	}
	if lit[0] == '-' {
		lit, f = lit[1:], -f
	}
	d, exp := shortest(f)
	if len(lit) != exp || len(d.b()) > exp {
		return false
	}
	return bytes.HasPrefix(lit, d.b()) && len(bytes.TrimLeft(lit[len(d.b()):], "0")) == 0
}

// str reads a string from its opening quote on.
func (p *parser) str() (string, error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '"':
			s := string(p.text[start:p.pos])
			p.pos++
			return s, nil
		case c == '\\':
			return p.escaped(start)
		case c < utf8.RuneSelf && c >= 0x20:
			p.pos++
		default:
			if err := p.raw(); err != nil {
				return "", err
			}
		}
	}
	return "", p.fail(Syntax, "the string has no end")
}

// raw steps over one code point that is not plain ASCII.
func (p *parser) raw() error {
	if p.text[p.pos] < 0x20 {
		return p.fail(Syntax, "a control character in a string must be escaped")
	}
	r, n := utf8.DecodeRune(p.text[p.pos:])
	if r == utf8.RuneError && n == 1 {
		return p.fail(InvalidUTF8, "byte 0x%02x is not UTF-8", p.text[p.pos])
	}
	p.pos += n
	return nil
}

// escaped goes on with a string at its first backslash.
func (p *parser) escaped(start int) (string, error) {
	out := append(make([]byte, 0, 2*(p.pos-start)+32), p.text[start:p.pos]...)
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '"':
			p.pos++
			return string(out), nil
		case c == '\\':
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		default:
			from := p.pos
			if c < utf8.RuneSelf && c >= 0x20 {
				p.pos++
			} else if err := p.raw(); err != nil {
				return "", err
			}
			out = append(out, p.text[from:p.pos]...)
		}
	}
	return "", p.fail(Syntax, "the string has no end")
}

func (p *parser) escape(out []byte) ([]byte, error) {
	if p.pos+1 >= len(p.text) {
		return nil, p.fail(Syntax, "the string has no end")
	}
	c := p.text[p.pos+1]
	if c == 'u' {
		return p.unicode(out)
	}
	at := bytes.IndexByte([]byte(`"\/bfnrt`), c)
	if at < 0 {
		return nil, p.fail(Syntax, "%q is no escape of JSON", []byte{'\\', c})
	}
	p.pos += 2
	return append(out, "\"\\/\b\f\n\r\t"[at]), nil
}

// unicode reads \uXXXX and joins it with a second one where the two are a
// surrogate pair; a surrogate alone is kept as WTF-8.
func (p *parser) unicode(out []byte) ([]byte, error) {
	r, ok := p.hex4(p.pos)
	if !ok {
		return nil, p.fail(Syntax, "\\u needs four hex digits")
	}
	p.pos += 6
	if r >= 0xd800 && r < 0xdc00 {
		if low, ok := p.hex4(p.pos); ok && low >= 0xdc00 && low < 0xe000 {
			p.pos += 6
			return utf8.AppendRune(out, utf16.DecodeRune(r, low)), nil
		}
	}
	if r >= 0xd800 && r < 0xe000 {
		return append(out, 0xed, 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f), nil
	}
	return utf8.AppendRune(out, r), nil
}

// hex4 reads the escape \uXXXX that starts at byte i.
func (p *parser) hex4(i int) (r rune, ok bool) {
	if i+6 > len(p.text) || p.text[i] != '\\' || p.text[i+1] != 'u' {
		return 0, false
	}
	for _, c := range p.text[i+2 : i+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
