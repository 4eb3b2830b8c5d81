// Package load puts a node under load from outside: a node in a process of its
// own, batches signed beforehand, and plain sockets that send them. Benchmarks
// and the tests that kill nodes use it.
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A Result counts the answers of a load. One batch is one answer, in a bulk
// too.
type Result struct {
	OK        int    // 2xx
	Server    int    // 5xx
	Other     int    // 4xx and everything else
	Sample    string // one of the others
	Wall      time.Duration
	latencies []time.Duration
}

func (r *Result) add(o *Result) {
	r.OK, r.Server, r.Other = r.OK+o.OK, r.Server+o.Server, r.Other+o.Other
	r.latencies = append(r.latencies, o.latencies...)
	if r.Sample == "" {
		r.Sample = o.Sample
	}
}

func (r *Result) count(status int, body []byte) {
	switch {
	case status >= 200 && status < 300:
		r.OK++
	case status >= 500:
		r.Server++
	default:
		r.Other++
		r.Sample = strconv.Itoa(status) + " " + string(body[:min(len(body), 300)])
	}
}

// Percentile returns a latency of the requests in milliseconds.
func (r *Result) Percentile(p float64) float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	slices.Sort(r.latencies)
	return float64(r.latencies[min(int(p*float64(len(r.latencies))), len(r.latencies)-1)].Microseconds()) / 1e3
}

// Singles posts each client's batches one after another, all clients at once.
func Singles(ctx context.Context, base string, bodies [][][]byte) (*Result, error) {
	requests := make([][][]byte, len(bodies))
	for c := range bodies {
		for _, b := range bodies[c] {
			requests[c] = append(requests[c], httpPost("/v1/flight/batches", "application/json", b))
		}
	}
	return senders(ctx, base, requests, func(res *Result, status int, body []byte) { res.count(status, body) })
}

// Bulk posts the same batches as lines of bulks of chunk each, from a
// few connections, so that each stream's batches stay in order.
func Bulk(ctx context.Context, base string, bodies [][][]byte, chunk int) (*Result, error) {
	requests := make([][][]byte, min(bulkSenders, len(bodies)))
	for c := range requests {
		var lines [][]byte
		for i := c; i < len(bodies); i += len(requests) {
			lines = append(lines, bodies[i]...)
		}
		for part := range slices.Chunk(lines, chunk) {
			requests[c] = append(requests[c], httpPost("/v1/flight/batches/bulk", "application/x-ndjson", bytes.Join(part, []byte("\n"))))
		}
	}
	return senders(ctx, base, requests, func(res *Result, status int, body []byte) {
		if status != 200 {
			res.count(status, body)
			return
		}
		for _, l := range bytes.Split(bytes.TrimSpace(body), []byte("\n")) {
			if bytes.Contains(l, []byte(`"receivedAt"`)) {
				res.OK++
				continue
			}
			res.Other++
			res.Sample = string(l[:min(len(l), 300)])
		}
	})
}

const bulkSenders = 8

// httpPost renders a whole request, so that sending is one write.
func httpPost(path, media string, body []byte) []byte {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, media, len(body))
	return append([]byte(head), body...)
}

// senders runs one keep-alive connection for each list of requests. It is written
// on plain sockets: net/http's client would cost more than the node.
func senders(ctx context.Context, base string, requests [][][]byte, count func(res *Result, status int, body []byte)) (*Result, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	total := &Result{}
	errs := make([]error, len(requests))
	results := make([]Result, len(requests))
	start := time.Now()
	var wg sync.WaitGroup
	for c := range requests {
		wg.Go(func() {
			errs[c] = sender(ctx, u.Host, requests[c], func(status int, body []byte, took time.Duration) {
				results[c].latencies = append(results[c].latencies, took)
				count(&results[c], status, body)
			})
		})
	}
	wg.Wait()
	total.Wall = time.Since(start)
	for c := range results {
		total.add(&results[c])
	}
	return total, errors.Join(errs...)
}

func sender(ctx context.Context, host string, requests [][]byte, answer func(status int, body []byte, took time.Duration)) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := bufio.NewReaderSize(conn, 4<<10)
	var body []byte
	for _, req := range requests {
		start := time.Now()
		if _, err := conn.Write(req); err != nil {
			return err
		}
		var status int
		if status, body, err = readAnswer(in, body); err != nil {
			return err
		}
		answer(status, body, time.Since(start))
	}
	return nil
}

const maxAnswer = 64 << 20 // bytes

// readAnswer reads one response with a Content-Length into buf.
func readAnswer(in *bufio.Reader, buf []byte) (status int, body []byte, err error) {
	first, err := in.ReadSlice('\n')
	if err != nil {
		return 0, buf, err
	}
	if len(first) < 12 {
		return 0, buf, fmt.Errorf("not HTTP: %q", first)
	}
	if status, err = strconv.Atoi(string(first[9:12])); err != nil || status < 100 {
		return 0, buf, fmt.Errorf("not HTTP: %q", first)
	}
	length := -1
	for {
		head, err := in.ReadSlice('\n')
		if err != nil {
			return status, buf, err
		}
		head = bytes.TrimRight(head, "\r\n")
		if len(head) == 0 {
			break
		}
		key, value, _ := bytes.Cut(head, []byte(":"))
		if bytes.EqualFold(key, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return status, buf, err
			}
		}
	}
	if length < 0 || length > maxAnswer {
		return status, buf, fmt.Errorf("the answer has no Content-Length of 0 to %d", maxAnswer)
	}
	body = slices.Grow(buf[:0], length)[:length]
	_, err = io.ReadFull(in, body)
	return status, body, err
}
