package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"karatum/flight"
)

// A fakeNode answers the routes that a recorder uses, by the rules of spec
// section 4 as far as they matter to it. on, where set, may answer a request
// itself: it returns true when it has.
type fakeNode struct {
	*httptest.Server
	key *flight.Key

	mu        sync.Mutex // guards all below
	on        func(w http.ResponseWriter, r *http.Request, body []byte) bool
	stored    []flight.Batch
	bodies    []string // of every POST, in order
	conflicts []flight.Reason
	arrived   chan struct{} // one for each stored batch, never blocking
}

func newFakeNode(t *testing.T) *fakeNode {
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	n := &fakeNode{key: key, arrived: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/flight/batches", n.ingest)
	mux.HandleFunc("GET /v1/flight/agents/{agent}/streams/{stream}", n.head)
	n.Server = httptest.NewServer(mux)
	t.Cleanup(n.Close)
	return n
}

// during sets what answers requests from now on.
func (n *fakeNode) during(on func(w http.ResponseWriter, r *http.Request, body []byte) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = on
}

func (n *fakeNode) posts() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.bodies...)
}

func (n *fakeNode) batches() []flight.Batch {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]flight.Batch(nil), n.stored...)
}

// restore takes the node back to an earlier list of batches.
func (n *fakeNode) restore(batches []flight.Batch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stored = append([]flight.Batch(nil), batches...)
}

func (n *fakeNode) ingest(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bodies = append(n.bodies, string(body))
	if n.on != nil && n.on(w, r, body) {
		return
	}
	n.store(w, body)
}

// store decides on a batch; the caller holds mu.
func (n *fakeNode) store(w http.ResponseWriter, body []byte) {
	b, err := flight.ParseBatch(body)
	if err != nil {
		refuse(w, 400, "BAD_REQUEST", err.Error(), nil)
		return
	}
	if err := b.Verify(); err != nil {
		refuse(w, 401, "BAD_SIGNATURE", err.Error(), nil)
		return
	}
	for i := range n.stored {
		s := &n.stored[i]
		if s.Header.Agent == b.Header.Agent && s.Header.SameHistory(b.Header) {
			n.receipt(w, 200, s.ID(), i, true)
			return
		}
		if reason := flight.Conflict(&s.Header, &b.Header); reason != "" {
			n.conflicts = append(n.conflicts, reason)
			refuse(w, 409, "EQUIVOCATION", "two histories", map[string]any{"evidence": flight.NewEvidence(*s, b)})
			return
		}
	}
	n.stored = append(n.stored, b)
	n.receipt(w, 201, b.ID(), len(n.stored)-1, false)
	select {
	case n.arrived <- struct{}{}:
	default:
	}
}

// receipt answers with a receipt of its own signature, or at every odd position
// with one of a commit group of three.
func (n *fakeNode) receipt(w http.ResponseWriter, status int, id flight.Hash, position int, duplicate bool) {
	r := flight.Receipt{BatchID: id, Position: uint64(position), ReceivedAt: 1760000123456, AnchorBy: 1760001323, Node: n.key.Address()}
	r.Signature = n.key.SignText(r.Text())
	if position%2 == 1 {
		items := []flight.Hash{{1}, r.Item(), {2}}
		root, err := flight.EpochRoot(items)
		proof, err2 := flight.EpochProof(items, 1)
		if err != nil || err2 != nil {
			refuse(w, 500, "INTERNAL", "no group", nil)
			return
		}
		r.Group = &flight.ReceiptGroup{Root: root, Size: 3, Proof: proof}
		r.Signature = n.key.SignText(flight.GroupText(root, 3))
	}
	answer(w, status, struct {
		flight.Receipt
		Continuity string `json:"continuity"`
		Duplicate  bool   `json:"duplicate"`
	}{r, "continuous", duplicate})
}

func (n *fakeNode) head(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on != nil && n.on(w, r, nil) {
		return
	}
	var last *flight.Header
	for i := range n.stored {
		h := &n.stored[i].Header
		if h.Agent.String() == r.PathValue("agent") && h.Stream == r.PathValue("stream") && (last == nil || h.Index > last.Index) {
			last = h
		}
	}
	if last == nil {
		refuse(w, 404, "UNKNOWN_STREAM", "no such stream", nil)
		return
	}
	answer(w, 200, map[string]any{"agent": last.Agent, "stream": last.Stream, "batches": last.Index + 1, "gaps": []any{},
		"head": map[string]any{"index": last.Index, "toSeq": last.ToSeq, "head": last.Head}})
}

func refuse(w http.ResponseWriter, status int, code, message string, details any) {
	answer(w, status, map[string]any{"error": map[string]any{"code": code, "message": message, "details": details}})
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = 500, fmt.Appendf(nil, "%q", err)
	}
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		conn.Close()
	}
}
