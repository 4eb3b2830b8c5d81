package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"karatum/web/sdk"
)

// The worker for any document is parts of the SDK's verifier and one of its own,
// without comments and indentation, and runs under a policy without connections.
func TestWorkerFile(t *testing.T) {
	w := newWorld(t, "/base")
	_, page := w.do("GET", "/verify", nil, "Accept", "text/html")
	m := regexp.MustCompile(`href="/base(/static/worker\.([0-9a-f]{16})\.js)" data-checks="any"`).FindSubmatch(page)
	if m == nil {
		t.Fatalf("no worker in %.2000s", page)
	}
	r, body := w.do("GET", string(m[1]), nil)
	code := func(text string) (lines []string) {
		for line := range strings.Lines(regexp.MustCompile(`(?s)/\*\*.*?\*/`).ReplaceAllString(text, "")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	if want := code(sdk.Verifier(sdk.Text, sdk.Trees, sdk.Steps, sdk.Epochs, sdk.Disclosures, sdk.Bytes, sdk.Equivocation, sdk.Batches)); len(want) < 300 || !slices.Equal(code(string(body))[:len(want)], want) {
		t.Errorf("the worker does not begin with the %d lines of the SDK", len(want))
	}
	sum := sha256.Sum256(body)
	if hash := hex.EncodeToString(sum[:]); !strings.HasPrefix(hash, string(m[2])) || !bytes.Contains(page, []byte(hash)) {
		t.Errorf("the page does not show the worker's hash %s", hash)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Content-Type": "text/javascript; charset=utf-8",
		"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	small, packed := w.do("GET", string(m[1]), nil, "Accept-Encoding", "gzip, br")
	plain, err := io.ReadAll(brotli.NewReader(bytes.NewReader(packed)))
	if err != nil || !bytes.Equal(plain, body) || small.Header.Get("Content-Encoding") != "br" || len(packed) > len(body)/2 {
		t.Errorf("in brotli %d of %d bytes, %v", len(packed), len(body), err)
	}
	if tag := small.Header.Get("Etag"); tag == r.Header.Get("Etag") {
		t.Errorf("both forms have the tag %s", tag)
	} else if again, _ := w.do("GET", string(m[1]), nil, "Accept-Encoding", "br", "If-None-Match", tag); again.StatusCode != 304 {
		t.Errorf("asked again: status %d", again.StatusCode)
	}
}

// Connections leave the origin only where a reader may ask an RPC; scripts never.
func TestPolicies(t *testing.T) {
	w := newWorld(t, "")
	for path, asks := range map[string]bool{"/": false, "/verify": true, w.expand("/agents/{agent}/{stream}/0"): true, "/conflicts/1": false, "/nowhere": false} {
		r, _ := w.do("GET", path, nil, "Accept", "text/html")
		p := r.Header.Get("Content-Security-Policy")
		if strings.Contains(p, "connect-src 'self' https: http://localhost:* http://127.0.0.1:*;") != asks || !strings.Contains(p, "script-src 'self';") || !strings.Contains(p, "worker-src 'self';") {
			t.Errorf("%s has the policy %s", path, p)
		}
	}
}

// The offline page's policy names exactly the script and the style in it, and the
// same policy comes with it as a header.
func TestOfflinePolicy(t *testing.T) {
	w := newWorld(t, "")
	r, body := w.do("GET", "/verify.html", nil)
	part := func(pattern string) string {
		m := regexp.MustCompile(`(?s)`+pattern).FindAllSubmatch(body, -1)
		if len(m) != 1 {
			t.Fatalf("%d parts are like %s", len(m), pattern)
		}
		return string(m[0][1])
	}
	pin := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	policy := html.UnescapeString(part(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`))
	for _, want := range []string{"default-src 'none'", "script-src " + pin(part(`<script type="module">(.*)</script>`)), "style-src " + pin(part(`<style>(.*)</style>`)), "trusted-types 'none'"} {
		if !strings.Contains(policy, want+";") && !strings.HasSuffix(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "connect-src") || strings.Contains(policy, "unsafe") || r.Header.Get("Content-Security-Policy") != policy+"; frame-ancestors 'none'" {
		t.Errorf("policy %s, as a header %s", policy, r.Header.Get("Content-Security-Policy"))
	}
	if at := bytes.Index(body, []byte("Content-Security-Policy")); at > bytes.Index(body, []byte("<style>")) || at > bytes.Index(body, []byte("<title>")) {
		t.Error("the policy does not come first")
	}
	for _, bad := range []string{"@font-face", "@import", "url(", "export ", "\nimport "} {
		if bytes.Contains(body, []byte(bad)) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

// Embedded JSON is plain ASCII and says the same.
func TestEmbeddedJSON(t *testing.T) {
	text := json.RawMessage(`{"a":"\u202eb\u202e é 𝄞","b":[1,{"ключ":null}]}`)
	got := plain(text)
	for _, b := range got {
		if b >= 0x80 {
			t.Fatalf("byte %#x in %s", b, got)
		}
	}
	var a, b any
	check(t, json.Unmarshal(text, &a))
	check(t, json.Unmarshal(got, &b))
	if sprint(a) != sprint(b) {
		t.Errorf("%s says %v, want %v", got, b, a)
	}
}
