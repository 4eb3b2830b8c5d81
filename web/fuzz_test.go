package web

import (
	"bufio"
	"bytes"
	"net/http"
	"net/netip"
	"testing"
)

// FuzzFraming compares what we accept with net/http, a reader that others put in
// front of us: whatever both accept, both cut into the same body.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"Host: x\r\n\r\n", "Host: x\r\nContent-Length: 5\r\n\r\n", "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n", "host:x\nA: b\n c\n\n",
		"Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "Host: x\r\nTransfer-Encoding: \tchunked \r\nContent-Length: 1\r\n\r\n", "Host : x\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, refusal := readFraming(raw)
		if refusal != nil {
			return
		}
		if i := bytes.Index(raw, []byte("\n\r\n")); i >= 0 {
			raw = raw[:i+1]
		}
		if i := bytes.Index(raw, []byte("\n\n")); i >= 0 {
			raw = raw[:i+1]
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append(append([]byte("POST / HTTP/1.1\r\n"), raw...), "\r\n\r\n"...))))
		if err != nil {
			return
		}
		if chunked := len(r.TransferEncoding) > 0; chunked != got.chunked || (!chunked && r.ContentLength != max(got.length, 0)) {
			t.Errorf("we see %+v, net/http sees length %d, %v", got, r.ContentLength, r.TransferEncoding)
		}
	})
}

// FuzzHop checks that an entry of X-Forwarded-For is an address or nothing.
func FuzzHop(f *testing.F) {
	for _, s := range []string{"192.0.2.1", " [2001:db8::1]:80", "192.0.2.1:80", "unknown", "", "::ffff:1.2.3.4%eth0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, ok := parseHop(text)
		if !ok {
			return
		}
		if a.Zone() != "" || a.Is4In6() || !a.IsValid() {
			t.Errorf("%q = %v", text, a)
		}
		if again, err := netip.ParseAddr(a.String()); err != nil || again != a {
			t.Errorf("%q does not round-trip", text)
		}
	})
}
