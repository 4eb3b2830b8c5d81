package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of connections. A browser opens 6, a recorder 1 or 2.
const (
	maxConnsPerClient = 64
	lingerTime        = 3 * time.Second
	lingerBytes       = bulkBody + 1<<20 // most clients send a body whole before they read why it is refused
)

// A boundedListener bounds open connections in all and for each client, so that
// one host with slow connections cannot keep others out. Loopback peers and
// trusted proxies speak for many and count only in all.
type boundedListener struct {
	net.Listener
	max    int
	exempt func(net.Addr) bool

	mu     sync.Mutex // covers the two below
	open   map[*boundedConn]struct{}
	byPeer map[any]int
}

func newBoundedListener(ln net.Listener, max int, exempt func(net.Addr) bool) *boundedListener {
	return &boundedListener{Listener: ln, max: max, exempt: exempt, open: map[*boundedConn]struct{}{}, byPeer: map[any]int{}}
}

// Accept returns the next connection within the bounds. Those over them are told
// so and closed here, without a goroutine each.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if bc, ok := l.admit(c); ok {
			return bc, nil
		}
		refuseConn(c)
	}
}

func (l *boundedListener) admit(c net.Conn) (*boundedConn, bool) {
	bc := &boundedConn{Conn: c, owner: l}
	if !l.exempt(c.RemoteAddr()) {
		bc.peer = limitKey(peerAddr(c.RemoteAddr()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.max || (bc.peer != nil && l.byPeer[bc.peer] >= maxConnsPerClient) {
		return nil, false
	}
	l.open[bc] = struct{}{}
	if bc.peer != nil {
		l.byPeer[bc.peer]++
	}
	return bc, true
}

func (l *boundedListener) forget(c *boundedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
	if c.peer == nil {
		return
	}
	if l.byPeer[c.peer]--; l.byPeer[c.peer] <= 0 {
		delete(l.byPeer, c.peer)
	}
}

// closeAll ends every connection that is still open, however busy.
func (l *boundedListener) closeAll() {
	l.mu.Lock()
	open := make([]*boundedConn, 0, len(l.open))
	for c := range l.open {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		c.Conn.Close()
	}
}

// A boundedConn gives back its place when it closes.
type boundedConn struct {
	net.Conn
	owner *boundedListener
	peer  any // key in byPeer, nil where exempt
	once  sync.Once

	// linger is set where a refusal was written with input unread: closing at once
	// would reset the connection, and the client would never see the refusal.
	linger atomic.Bool
	eof    atomic.Bool // the client has ended its side
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		c.eof.Store(true)
	}
	return n, err
}

// SetReadDeadline never reports an error, nor does [boundedConn.SetWriteDeadline]:
// fasthttp panics, outside of every recover, where a deadline cannot be set, and
// closeAll closes connections that are in use. The next read or write says it.
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	_ = c.Conn.SetReadDeadline(t)
	return nil
}

// SetWriteDeadline is like SetReadDeadline.
func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	_ = c.Conn.SetWriteDeadline(t)
	return nil
}

// SetDeadline is like SetReadDeadline.
func (c *boundedConn) SetDeadline(t time.Time) error {
	_ = c.Conn.SetDeadline(t)
	return nil
}

func (c *boundedConn) Close() error {
	var err error
	c.once.Do(func() {
		defer c.owner.forget(c)
		if c.linger.Load() {
			c.drain()
		}
		err = c.Conn.Close()
	})
	return err
}

// drain ends our side and reads a little of what still comes. Its errors are of
// no use: the client has gone, or had its chance.
func (c *boundedConn) drain() {
	t, ok := c.Conn.(*net.TCPConn)
	if ok && t.CloseWrite() == nil && t.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, t, lingerBytes)
	}
}

// lingerOn marks the connection of a request whose body is left unread.
func lingerOn(c net.Conn) {
	if bc, ok := c.(*boundedConn); ok {
		bc.linger.Store(true)
	}
}

// refuseConn writes one refusal without waiting for a request.
func refuseConn(c net.Conn) {
	defer c.Close()
	body, err := json.Marshal(viewOf(errConnections))
	if err != nil || c.SetWriteDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s",
		errConnections.Status, http.StatusText(errConnections.Status), len(body), body)
}
