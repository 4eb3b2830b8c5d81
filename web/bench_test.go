package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"karatum/app"
	"karatum/flight"
)

// A loopConn sends one request n times over and takes no notice of the answers.
type loopConn struct {
	net.Conn
	request []byte
	left    int
	rest    []byte
}

func (c *loopConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.left == 0 {
			return 0, io.EOF
		}
		c.left--
		c.rest = c.request
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *loopConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *loopConn) Close() error                     { return nil }
func (c *loopConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (c *loopConn) LocalAddr() net.Addr              { return c.RemoteAddr() }
func (c *loopConn) SetReadDeadline(time.Time) error  { return nil }
func (c *loopConn) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkPostBatch is what HTTP adds to one batch: parsing, checks, limits and
// the answer, without a socket and without the node.
func BenchmarkPostBatch(b *testing.B) {
	node := echoNode()
	answer := app.IngestAnswer{Receipt: flight.Receipt{BatchID: flight.Keccak256([]byte("b")), Position: 12345, ReceivedAt: 1_760_000_000_000, AnchorBy: 1_760_000_900}, Continuity: app.Continuous}
	node.ingest = func(context.Context, []byte) (app.IngestAnswer, error) { return answer, nil }
	// A rate that the loop cannot reach, so that the bucket is paid for each time.
	s, err := New(node, Config{Log: slog.New(slog.DiscardHandler), IPRate: 1_000_000_000, IPBurst: 1_000_000})
	check(b, err)
	body, err := examples.ReadFile("examples/batch.json")
	check(b, err)
	raw := fmt.Sprintf("POST /v1/flight/batches HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: karatum-recorder/1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	if err := s.fiber.Server().ServeConn(&loopConn{request: []byte(raw), left: b.N}); err != nil {
		b.Fatal(err)
	}
	if got := s.requests.Load(); got != uint64(b.N) {
		b.Fatalf("%d requests, want %d", got, b.N)
	}
}
