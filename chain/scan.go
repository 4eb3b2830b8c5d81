package chain

import (
	"bytes"
	"encoding/json"
)

// A scan walks over JSON text once and finds where its values end. It accepts what
// [json.Valid] accepts. encoding/json reads an answer several times over before a
// piece of it can be handed on; the answers about state are long, and nearly all of
// them is hex in strings, which this passes quickly.
type scan struct {
	text  []byte
	at    int
	depth int
}

// maxDepth is how deep encoding/json goes.
const maxDepth = 10_000

// array calls f with every element of the array that text is. false means that the
// text is not a JSON array; f may have been called for what comes before the fault.
func array(text []byte, f func(element []byte)) bool {
	s := scan{text: text}
	s.space()
	return s.take('[') && s.list(']', func() bool {
		from := s.at
		ok := s.value()
		if ok {
			f(text[from:s.at])
		}
		return ok
	}) && s.end()
}

// object calls f with every member of the object that text is, the name as it is
// written, without the quotes. It is otherwise like array.
func object(text []byte, f func(name string, value []byte)) bool {
	s := scan{text: text}
	s.space()
	return s.take('{') && s.list('}', func() bool {
		from := s.at
		if !s.str() {
			return false
		}
		name := text[from+1 : s.at-1]
		if !s.colon() {
			return false
		}
		from = s.at
		ok := s.value()
		if ok {
			f(string(name), text[from:s.at])
		}
		return ok
	}) && s.end()
}

// end reports that only space is left.
func (s *scan) end() bool {
	s.space()
	return s.at == len(s.text)
}

func (s *scan) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scan) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scan) colon() bool {
	s.space()
	ok := s.take(':')
	s.space()
	return ok
}

// list passes what follows an opening bracket, up to the closing one.
func (s *scan) list(closing byte, item func() bool) bool {
	if s.depth++; s.depth > maxDepth {
		return false
	}
	defer func() { s.depth-- }()
	s.space()
	if s.take(closing) {
		return true
	}
	for {
		if !item() {
			return false
		}
		s.space()
		if s.take(closing) {
			return true
		}
		if !s.take(',') {
			return false
		}
		s.space()
	}
}

// value passes one value, which starts right here.
func (s *scan) value() bool {
	if s.at == len(s.text) {
		return false
	}
	switch c := s.text[s.at]; c {
	case '"':
		return s.str()
	case '[':
		s.at++
		return s.list(']', s.value)
	case '{':
		s.at++
		return s.list('}', s.member)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scan) member() bool { return s.str() && s.colon() && s.value() }

func (s *scan) word(w string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// str passes a string.
func (s *scan) str() bool {
	if !s.take('"') {
		return false
	}
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		default:
			s.at++
		}
	}
	return false
}

func (s *scan) escape() bool {
	s.at++
	if s.at == len(s.text) {
		return false
	}
	c := s.text[s.at]
	s.at++
	if c != 'u' {
		return bytes.IndexByte([]byte(`"\/bfnrt`), c) >= 0
	}
	for range 4 {
		if s.at == len(s.text) || bytes.IndexByte([]byte("0123456789abcdefABCDEF"), s.text[s.at]) < 0 {
			return false
		}
		s.at++
	}
	return true
}

// number passes a number: no leading zeros, and a digit after each sign, point
// and e.
func (s *scan) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
		}
		return s.digits()
	}
	return true
}

func (s *scan) digits() bool {
	from := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > from
}

// An envelope is a JSON-RPC answer. Its parts are pieces of the text that it was
// read from.
type envelope struct {
	version, id, result []byte // as written, nil = absent
	fault               *fault // the error object, nil = none
}

type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// openEnvelope reads an answer. false means that it is no JSON object, or that
// its error is not an error object.
func openEnvelope(text []byte) (e envelope, ok bool) {
	var told []byte
	ok = object(text, func(name string, value []byte) {
		switch name {
		case "jsonrpc":
			e.version = value
		case "id":
			e.id = value
		case "result":
			e.result = value
		case "error":
			told = value
		}
	})
	if ok && told != nil && string(told) != "null" {
		e.fault = new(fault)
		ok = json.Unmarshal(told, e.fault) == nil
	}
	return e, ok
}
