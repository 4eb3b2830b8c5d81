package web

import (
	"bytes"
	"math"
	"strconv"

	"github.com/valyala/fasthttp"

	"karatum/app"
)

// A framing is what the headers say about the body, read from the raw bytes:
// fasthttp keeps the last of two lengths and takes any Transfer-Encoding for
// chunked, which is how two parties come to see two different requests.
type framing struct {
	length  int64 // declared, -1 without
	chunked bool
}

func (f framing) hasBody() bool { return f.chunked || f.length > 0 }

// single are the headers that a request has at most once. Their order is that of
// the flags in readFraming.
var single = [...]string{"host", "content-length", "transfer-encoding", "content-type", "content-encoding", "authorization", "origin", "expect"}

const (
	hdrHost = iota
	hdrLength
	hdrTransfer
)

// readFraming judges the raw header block strictly. The error names what another
// reader of the same bytes could understand otherwise.
func readFraming(raw []byte) (framing, *app.Error) {
	f := framing{length: -1}
	var seen [len(single)]bool
	for len(raw) > 0 {
		line := raw
		if n := bytes.IndexByte(raw, '\n'); n >= 0 {
			line, raw = raw[:n], raw[n+1:]
		} else {
			raw = nil
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(line) == 0 {
			break
		}
		name, value, err := splitHeader(line)
		if err != nil {
			return f, err
		}
		k := singleIndex(name)
		if k < 0 {
			continue
		}
		if seen[k] {
			return f, badHTTP("the header " + single[k] + " is given twice")
		}
		seen[k] = true
		if err := f.read(k, value); err != nil {
			return f, err
		}
	}
	if f.chunked && f.length >= 0 {
		return f, badHTTP("a request has a Content-Length or a Transfer-Encoding, not both")
	}
	if !seen[hdrHost] {
		return f, badHTTP("the header host is missing")
	}
	return f, nil
}

func (f *framing) read(k int, value []byte) *app.Error {
	switch k {
	case hdrLength:
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || n > math.MaxInt64 {
			return badHTTP("Content-Length is not a number")
		}
		f.length = int64(n)
	case hdrTransfer:
		if !bytes.EqualFold(value, []byte("chunked")) {
			return badHTTP("the only Transfer-Encoding taken is chunked")
		}
		f.chunked = true
	}
	return nil
}

// splitHeader refuses folded lines, names that are no tokens, and control bytes.
func splitHeader(line []byte) (name, value []byte, refusal *app.Error) {
	n := bytes.IndexByte(line, ':')
	if n <= 0 {
		return nil, nil, badHTTP("a header line has no name")
	}
	name, value = line[:n], bytes.Trim(line[n+1:], " \t")
	for _, c := range name {
		if !tokenByte[c] {
			return nil, nil, badHTTP("a header name has a character that names cannot have")
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, nil, badHTTP("a header value has a control character")
		}
	}
	return name, value, nil
}

// tokenByte holds the characters of a token (RFC 9110, section 5.6.2).
var tokenByte = func() (t [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
		t[c] = true
	}
	return t
}()

func singleIndex(name []byte) int {
	for i, s := range single {
		if len(s) == len(name) && bytes.EqualFold(name, []byte(s)) {
			return i
		}
	}
	return -1
}

// checkLine judges the request line: origin form only, so that the path is what
// routing sees and Host is the only host.
func checkLine(h *fasthttp.RequestHeader) *app.Error {
	if p := h.Protocol(); !bytes.Equal(p, []byte("HTTP/1.1")) && !bytes.Equal(p, []byte("HTTP/1.0")) {
		return badHTTP("the protocol must be HTTP/1.1 or HTTP/1.0")
	}
	uri := h.RequestURI()
	if len(uri) == 0 || uri[0] != '/' || bytes.HasPrefix(uri, []byte("//")) {
		return badHTTP("the request target must be a path")
	}
	for _, c := range uri {
		if c <= ' ' || c == 0x7f || c == '#' {
			return badHTTP("the request target has a character that must be percent-encoded")
		}
	}
	return nil
}

// pathOf returns the request target without its query.
func pathOf(h *fasthttp.RequestHeader) []byte {
	uri := h.RequestURI()
	if n := bytes.IndexByte(uri, '?'); n >= 0 {
		return uri[:n]
	}
	return uri
}
