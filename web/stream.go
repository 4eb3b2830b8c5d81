package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/web/pages"
)

// Times of an event stream.
const (
	heartbeat  = 15 * time.Second
	streamRest = 200 * time.Millisecond // between two deliveries to one reader
	retryMs    = 2000
)

// errGone reports that the reader of a stream has closed its connection.
var errGone = errors.New("web: the reader has gone")

// streams bounds the readers of events and ends them when the server stops.
type streams struct {
	ctx  context.Context
	stop context.CancelFunc
	most int64
	open atomic.Int64
}

func newStreams(most int) *streams {
	ctx, stop := context.WithCancel(context.Background())
	return &streams{ctx: ctx, stop: stop, most: int64(max(most, 1))}
}

func (s *streams) enter() bool {
	if s.open.Add(1) > s.most {
		s.open.Add(-1)
		return false
	}
	return true
}

func (s *streams) leave() { s.open.Add(-1) }

// errStreams is the refusal past the bound: pages keep half of the connections.
var errStreams = &app.Error{Code: "BUSY", Status: http.StatusServiceUnavailable, RetryAfter: 10 * time.Second, Message: "too many readers follow the events; the pages work without"}

// getEvents streams events as server-sent events: an id is the event's number,
// Last-Event-ID or ?since= resumes after one. A reader that fell behind is told
// with the event "missed" how many events it did not get; one that has the number of
// an earlier start of the node is told with the event "reload" to read the lists again,
// and goes on with what happens next.
func getEvents(s *Server, c *fiber.Ctx) error {
	topics, err := queryTopics(c)
	if err != nil {
		return err
	}
	from, known, err := s.resumeAt(c)
	if err != nil {
		return err
	}
	h := &c.Context().Response.Header
	h.SetContentType("text/event-stream; charset=utf-8")
	h.Set(fiber.HeaderCacheControl, "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	if c.Method() == http.MethodHead {
		return nil
	}
	if !s.streams.enter() {
		return errStreams
	}
	// The connection serves nothing else afterwards, so that reading from it tells
	// when the reader goes.
	c.Context().SetConnectionClose()
	r := &reader{s: s, conn: c.Context().Conn(), topics: topics, at: from, lost: !known}
	c.Context().Response.ImmediateHeaderFlush = true
	c.Context().SetBodyStreamWriter(r.run)
	return nil
}

// queryTopics returns the topics that are asked for; all without any.
func queryTopics(c *fiber.Ctx) ([]string, error) {
	v, err := queryValue(c, "topics")
	if err != nil || v == "" {
		return []string{app.TopicRecords, app.TopicChain}, err
	}
	topics := strings.Split(v, ",")
	for _, t := range topics {
		if t != app.TopicRecords && t != app.TopicChain {
			return nil, badField("topics", "topics are records and chain, separated by a comma")
		}
	}
	return topics, nil
}

// resumeAt is the number of the last event that the reader has, and whether this start
// of the node gave it out. Without one the stream begins with what happens next.
func (s *Server) resumeAt(c *fiber.Ctx) (at uint64, known bool, err error) {
	v := c.Get("Last-Event-ID")
	if v == "" {
		if v, err = queryValue(c, "since"); err != nil {
			return 0, false, err
		}
	}
	events := s.node.Events()
	if v == "" {
		return events.Last(), true, nil
	}
	n, ok := decimal(v, maxSeq)
	if !ok {
		return 0, false, badField("since", "since must be the id of an event")
	}
	if !events.Known(n) {
		return events.Last(), false, nil
	}
	return n, true, nil
}

// A reader follows the events on one connection.
type reader struct {
	s      *Server
	conn   net.Conn
	topics []string
	at     uint64    // number of the last event seen
	lost   bool      // it asked for what follows on a number that says nothing here
	spoke  time.Time // when something was last written
}

// run writes until the reader goes or the server stops. fasthttp runs it in a
// goroutine of its own.
func (r *reader) run(w *bufio.Writer) {
	defer r.s.streams.leave()
	ctx, cancel := context.WithCancelCause(r.s.streams.ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(cancel)
	}()
	fmt.Fprintf(w, "retry: %d\n\n: connected\n\n", retryMs)
	if r.lost {
		fmt.Fprintf(w, "event: reload\nid: %d\ndata: {\"last\":%d}\n\n", r.at, r.at)
	}
	r.spoke = time.Now()
	for r.flush(w) == nil && ctx.Err() == nil {
		if r.deliver(w) != nil {
			break
		}
		r.wait(ctx, w)
	}
	cancel(errGone)
	_ = r.conn.SetReadDeadline(time.Unix(1, 0)) // wakes watch; an error means that it is awake
	<-watched
}

// watch returns when the connection ends. What the reader sends is of no use.
func (r *reader) watch(gone context.CancelCauseFunc) {
	_ = r.conn.SetReadDeadline(time.Time{}) // of reading the request; an error shows in the read
	_, _ = io.Copy(io.Discard, r.conn)
	gone(errGone)
}

// flush gives each part of the stream the time of a whole answer.
func (r *reader) flush(w *bufio.Writer) error {
	if err := r.conn.SetWriteDeadline(time.Now().Add(r.s.cfg.WriteTimeout)); err != nil {
		return err
	}
	return w.Flush()
}

// deliver writes the events of the reader's topics that it has not seen.
func (r *reader) deliver(w *bufio.Writer) error {
	events, missed := r.s.node.Events().Since(r.at, pages.FeedRows)
	if missed > 0 {
		fmt.Fprintf(w, "event: missed\ndata: {\"missed\":%d}\n\n", missed)
	}
	for i := range events {
		e := &events[i]
		if r.at = e.Seq; !slices.Contains(r.topics, e.Topic()) {
			continue
		}
		data, err := json.Marshal(r.s.site.Row(e))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Seq, data)
		r.spoke = time.Now()
	}
	if len(events) == 0 {
		return nil
	}
	return r.flush(w)
}

// wait returns when there may be news, or with a heartbeat where nothing was written
// for a time, be it that all news are of other topics. It rests a little before, so
// that a busy node sends many events in one part.
func (r *reader) wait(ctx context.Context, w *bufio.Writer) {
	rest := time.NewTimer(streamRest)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithDeadline(ctx, r.spoke.Add(heartbeat))
	defer cancel()
	if time.Since(r.spoke) >= heartbeat || r.s.node.Events().Wait(ctx, r.at) != nil {
		r.spoke = time.Now()
		fmt.Fprint(w, ": still here\n\nevent: beat\ndata: 1\n\n") // a script cannot see comments
	}
}
