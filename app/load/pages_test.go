package load

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPages asks a server for its pages, and for what they load.
func TestPages(t *testing.T) {
	files := map[string]string{
		"/": `<!doctype html><link rel="icon" href="/static/i.svg"><link rel="stylesheet" href="/static/a.css"><script type="module" src="/static/a.js"></script>` +
			`<a href="/static/licence.txt">licence</a><a class="x" href="/a?b=1&amp;c=2">more</a>`,
		"/static/a.css": `@font-face{src:url("fonts/x.woff2")}@font-face{src:url(fonts/x.woff2)}`,
		"/static/a.js":  "let a", "/static/i.svg": "<svg/>", "/static/fonts/x.woff2": "font", "/metrics": "up 1",
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := files[r.URL.Path]
		if !ok {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.Contains(r.Header.Get("Accept-Encoding"), "br") {
			body = body[:len(body)/2] // as if compressed
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write([]byte(body))
	}))
	defer srv.Close()
	got, err := Pages(t.Context(), srv.URL, []Ask{{"/", 200}, {"/nowhere", 404}, {"/metrics", 200}})
	if err != nil || len(got) != 3 || got[0].Bytes != len(files["/"])/2 || got[1].Bytes != 0 || got[0].First <= 0 {
		t.Errorf("Pages = %+v, %v", got, err)
	}
	if _, err := Pages(t.Context(), srv.URL, []Ask{{"/metrics", 0}, {"/nowhere", 0}}); err == nil || !strings.Contains(err.Error(), "/nowhere: status 404") {
		t.Errorf("a refusal: %v", err)
	}
	if _, err := Pages(t.Context(), srv.URL, []Ask{{"/nowhere", 200}}); err == nil || !strings.Contains(err.Error(), "/nowhere: status 404, want 200") {
		t.Errorf("an unwanted status: %v", err)
	}
	want := View{Files: 5}
	for name, body := range files {
		if name != "/metrics" {
			want.Bytes += len(body) / 2
		}
	}
	if v, err := FirstView(t.Context(), srv.URL, "/"); err != nil || v != want {
		t.Errorf("FirstView = %+v, %v; want %+v", v, err, want)
	}
	if links, err := Links(t.Context(), srv.URL, "/"); err != nil || !slices.Equal(links, []string{"/static/licence.txt", "/a?b=1&c=2"}) {
		t.Errorf("Links = %q, %v", links, err)
	}
	if v, err := FirstView(t.Context(), srv.URL, "/metrics"); err != nil || v != (View{}) {
		t.Errorf("FirstView of no page = %+v, %v", v, err)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		status, body, err := readAnswer(bufio.NewReader(bytes.NewReader(text)), nil)
		if err == nil && (status < 100 || !bytes.Contains(text, body)) {
			t.Fatalf("%q is %d with %q", text, status, body)
		}
	})
}
