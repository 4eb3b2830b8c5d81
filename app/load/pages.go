package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"html"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// An Ask is one page to get.
type Ask struct {
	Path   string // with the query, escaped
	Status int    // that the answer must have; 0 for any that is no refusal
}

// An Answer is how one page came: the time from the request to the first byte of
// the answer, and the bytes of the body as sent, which is compressed.
type Answer struct {
	First time.Duration
	Bytes int
}

// Pages gets pages one after another, as browsers ask for them, over a few
// keep-alive connections in turns. The error names the page whose answer is not
// what was asked for.
func Pages(ctx context.Context, base string, asks []Ask) ([]Answer, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	const conns = 4
	var readers [conns]*pageReader
	for i := range readers {
		if readers[i], err = dialPages(ctx, u.Host); err != nil {
			return nil, err
		}
		defer readers[i].close()
	}
	answers := make([]Answer, len(asks))
	for i, a := range asks {
		if answers[i], err = readers[i%conns].get(a, compressed); err != nil {
			return nil, fmt.Errorf("GET %s: %w", a.Path, err)
		}
	}
	return answers, nil
}

// compressed and plain are what a reader accepts.
const (
	compressed = "br"
	plain      = "identity"
)

// A pageReader is one connection of a reader.
type pageReader struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte      // of the last answer
	stop func() bool // ends the watch over the context
}

func dialPages(ctx context.Context, host string) (*pageReader, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &pageReader{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), stop: context.AfterFunc(ctx, func() { conn.Close() })}, nil
}

func (r *pageReader) close() {
	r.stop()
	r.conn.Close()
}

func (r *pageReader) get(a Ask, encoding string) (Answer, error) {
	req := "GET " + a.Path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html,*/*;q=0.8\r\nAccept-Encoding: " + encoding + "\r\n\r\n"
	start := time.Now()
	if _, err := r.conn.Write([]byte(req)); err != nil {
		return Answer{}, err
	}
	if _, err := r.in.Peek(1); err != nil {
		return Answer{}, err
	}
	first := time.Since(start)
	status, body, err := readAnswer(r.in, r.body)
	r.body = body
	if err == nil && status != a.Status && (a.Status != 0 || status >= 400) {
		err = fmt.Errorf("status %d, want %d: %.200s", status, a.Status, bytes.ToValidUTF8(body, []byte("?")))
	}
	return Answer{first, len(body)}, err
}

// A View is what a reader with an empty cache loads to see a page.
type View struct {
	Bytes int // of all bodies, as sent
	Files int // the page included
}

var (
	documentStart = regexp.MustCompile(`(?i)^\s*<!doctype html`)
	linked        = regexp.MustCompile(`<(?:link|script|img)\s[^>]*?(?:href|src)="([^"]*/static/[^"]+)"`)
	inStyles      = regexp.MustCompile(`url\(["']?([^"')]+\.woff2)`)
)

// FirstView loads a page with its style sheets, scripts, icon and fonts. What is no
// page has no files.
func FirstView(ctx context.Context, base, page string) (v View, err error) {
	u, err := url.Parse(base)
	if err != nil {
		return v, err
	}
	r, err := dialPages(ctx, u.Host)
	if err != nil {
		return v, err
	}
	defer r.close()
	if _, err := r.get(Ask{page, 200}, plain); err != nil {
		return v, err
	}
	if !documentStart.Match(r.body) {
		return v, nil
	}
	files := append([]string{page}, references(linked, r.body, page)...)
	for i := 0; i < len(files); i++ {
		a, err := r.get(Ask{files[i], 200}, compressed)
		if err != nil {
			return v, fmt.Errorf("%s of %s: %w", files[i], page, err)
		}
		v.Bytes, v.Files = v.Bytes+a.Bytes, v.Files+1
		if !strings.HasSuffix(files[i], ".css") {
			continue
		}
		if _, err := r.get(Ask{files[i], 200}, plain); err != nil {
			return v, err
		}
		for _, f := range references(inStyles, r.body, files[i]) {
			if !slices.Contains(files, f) { // the page may have asked for it itself
				files = append(files, f)
			}
		}
	}
	return v, nil
}

var anchors = regexp.MustCompile(`<a\s[^>]*?href="([^"#]+)`)

// Links returns the addresses that a page names, as they stand in it.
func Links(ctx context.Context, base, page string) ([]string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	r, err := dialPages(ctx, u.Host)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if _, err := r.get(Ask{page, 200}, plain); err != nil || !documentStart.Match(r.body) {
		return nil, err
	}
	return references(anchors, []byte(html.UnescapeString(string(r.body))), page), nil
}

// references returns the addresses that a document at a path names, each once.
func references(in *regexp.Regexp, body []byte, from string) (out []string) {
	for _, m := range in.FindAllSubmatch(body, -1) {
		ref := string(m[1])
		if !strings.HasPrefix(ref, "/") {
			ref = path.Join(path.Dir(from), ref)
		}
		if !slices.Contains(out, ref) {
			out = append(out, ref)
		}
	}
	return out
}
