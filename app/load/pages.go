package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"time"
)

// An Ask is one page to get.
type Ask struct {
	Path   string // with the query, escaped
	Status int    // that the answer must have
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
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		readers[i] = &pageReader{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}
	}
	answers := make([]Answer, len(asks))
	for i, a := range asks {
		if answers[i], err = readers[i%conns].get(a); err != nil {
			return nil, fmt.Errorf("GET %s: %w", a.Path, err)
		}
	}
	return answers, nil
}

// A pageReader is one connection of a reader.
type pageReader struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
}

func (r *pageReader) get(a Ask) (Answer, error) {
	req := "GET " + a.Path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html,*/*;q=0.8\r\nAccept-Encoding: br\r\n\r\n"
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
	if err == nil && status != a.Status {
		err = fmt.Errorf("status %d, want %d: %.200s", status, a.Status, bytes.ToValidUTF8(body, []byte("?")))
	}
	return Answer{first, len(body)}, err
}
