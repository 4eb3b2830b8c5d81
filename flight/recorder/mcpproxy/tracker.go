package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/recorder"
)

// Why a call has no answer.
var (
	errUnanswered = errors.New("the connection ended before an answer")
	errIDReused   = errors.New("another call took its id before an answer")
)

// maxPending is how many calls may wait for their answers.
const maxPending = 16384

// A message is what the tracker reads of a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		RequestID json.RawMessage `json:"requestId"`
		Reason    string          `json:"reason"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// An event is one thing that the pumps saw, in the order in which it happened.
type event struct {
	kind    eventKind
	scope   string // the connection on which a request's answer is expected
	session string // HTTP session, empty for stdio
	body    []byte // one message or a batch of them
	at      time.Time
}

type eventKind int

const (
	fromClient eventKind = iota
	fromServer
	ended // the scope takes no more answers
	gone  // so does the session
)

// A call is a tools/call without its answer.
type call struct {
	name      string
	args      any
	at        time.Time
	session   string
	cancelled bool // recorded already
}

type callKey struct{ scope, id string }

// A tracker turns messages into steps. One goroutine owns it.
type tracker struct {
	rec     *recorder.Recorder
	rules   []TxRule
	report  func(error)
	pending map[callKey]*call
}

// run records until the channel is closed, then what is still unanswered.
func (t *tracker) run(events <-chan event) {
	for e := range events {
		switch e.kind {
		case ended:
			t.end(e)
		case gone:
			t.finish(func(k callKey, c *call) bool { return c.session == e.session }, errUnanswered)
		default:
			t.observe(e)
		}
	}
	t.finish(func(callKey, *call) bool { return true }, errUnanswered)
}

// end closes a scope. Within an HTTP session an answer may still come on another
// stream, so its calls wait there.
func (t *tracker) end(e event) {
	if e.session == "" {
		t.finish(func(k callKey, _ *call) bool { return k.scope == e.scope }, errUnanswered)
		return
	}
	for k, c := range t.pending {
		if k.scope == e.scope {
			delete(t.pending, k)
			c.session = e.session
			t.wait(callKey{sessionScope(e.session), k.id}, c)
		}
	}
}

// wait keeps a call until its answer. A call whose id is used again gets none that
// could be told apart, and where very many wait the oldest hardly gets one: both are
// recorded as unanswered.
func (t *tracker) wait(k callKey, c *call) {
	if old := t.pending[k]; old != nil {
		t.finish(func(have callKey, _ *call) bool { return have == k }, errIDReused)
	}
	t.pending[k] = c
	if len(t.pending) <= maxPending {
		return
	}
	oldest := k
	for k, c := range t.pending {
		if c.at.Before(t.pending[oldest].at) {
			oldest = k
		}
	}
	t.finish(func(k callKey, _ *call) bool { return k == oldest }, errUnanswered)
}

func sessionScope(session string) string { return "session " + session }

// finish records the calls that match as failed.
func (t *tracker) finish(match func(callKey, *call) bool, why error) {
	for k, c := range t.pending {
		if !match(k, c) {
			continue
		}
		delete(t.pending, k)
		if !c.cancelled {
			t.record(c, "error", map[string]any{"error": why.Error()}, false)
		}
	}
}

func (t *tracker) observe(e event) {
	body := bytes.TrimSpace(e.body)
	if len(body) == 0 {
		return
	}
	batch := []json.RawMessage{body}
	if body[0] == '[' {
		if err := json.Unmarshal(body, &batch); err != nil {
			return // no MCP message; the other side will say so
		}
	}
	for _, raw := range batch {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil && m.Method == "" && m.ID == nil {
			continue
		}
		if e.kind == fromClient {
			t.request(e, &m)
		} else if m.Method == "" && m.ID != nil {
			t.response(e, &m)
		}
	}
}

func (t *tracker) request(e event, m *message) {
	switch {
	case m.Method == "tools/call" && m.ID != nil:
		c := &call{name: clipName(m.Params.Name), at: e.at, session: e.session, args: raw(m.Params.Arguments)}
		t.wait(callKey{e.scope, id(m.ID)}, c)
	case m.Method == "notifications/cancelled":
		for k, c := range t.pending {
			if c.session == e.session && k.id == id(m.Params.RequestID) && !c.cancelled && (e.session != "" || k.scope == e.scope) {
				c.cancelled = true
				t.record(c, "error", map[string]any{"cancelled": true, "reason": m.Params.Reason}, false)
			}
		}
	}
}

func (t *tracker) response(e event, m *message) {
	k := callKey{e.scope, id(m.ID)}
	c := t.pending[k]
	if c == nil && e.session != "" {
		k = callKey{sessionScope(e.session), k.id}
		c = t.pending[k]
	}
	if c == nil {
		return
	}
	delete(t.pending, k)
	if m.Error != nil {
		t.record(c, "error", map[string]any{"error": m.Error}, false)
		return
	}
	var outcome struct {
		IsError bool `json:"isError"`
	}
	status := "ok"
	if err := json.Unmarshal(m.Result, &outcome); err != nil || outcome.IsError {
		status = "error"
	}
	t.record(c, status, raw(m.Result), true)
}

// record writes the step of a call. answered says that result is the tool's own,
// in which a transaction may be looked for.
func (t *tracker) record(c *call, status string, result any, answered bool) {
	s := recorder.Step{Kind: "tool", Name: c.name, Status: status, Args: committable(c.args), Result: committable(result), At: c.at}
	if answered {
		t.transaction(&s)
	}
	// Record reports its own errors.
	_, err := t.rec.Record(context.Background(), s)
	if errors.Is(err, recorder.ErrStep) && (s.Claim != nil || !s.TxHash.IsZero()) {
		s.Kind, s.Claim, s.ChainID, s.TxHash = "tool", nil, 0, flight.Hash{}
		_, _ = t.rec.Record(context.Background(), s)
	}
}

// transaction adds chain, hash and claim where a rule finds them.
func (t *tracker) transaction(s *recorder.Step) {
	for i := range t.rules {
		r := &t.rules[i]
		if r.Tool != "" && r.Tool != s.Name {
			continue
		}
		found, err := r.apply(s)
		if err != nil {
			t.report(fmt.Errorf("mcpproxy: transaction of tool %q: %w", s.Name, err))
		}
		if found {
			return
		}
	}
}

// id returns a JSON-RPC id in one form, so that 1 and 1.0 are equal and "1" is not.
func id(raw json.RawMessage) string {
	if b, err := canon.Canonical(raw); err == nil {
		return string(b)
	}
	return string(raw)
}

// raw returns the JSON as a value to commit to, nil where there is none.
func raw(b json.RawMessage) any {
	if b == nil {
		return nil
	}
	return b
}

// committable returns the value itself, or where it has no canonical form (a
// duplicate key, an integer beyond 2^53, over 1 MiB) a digest of its bytes, which
// still pins it.
func committable(x any) any {
	b, ok := x.(json.RawMessage)
	if !ok {
		return x
	}
	v, err := canon.Parse(b, canon.MaxDepth)
	if err == nil {
		_, err = v.Canonical()
	}
	if err == nil {
		return v
	}
	return map[string]any{"unrecordable": err.Error(), "keccak256": flight.Keccak256(b).String(), "bytes": len(b)}
}

// clipName shortens a tool name to the 128 code points of a step.
func clipName(s string) string {
	if utf8.RuneCountInString(s) <= 128 {
		return s
	}
	return string([]rune(s)[:128])
}
