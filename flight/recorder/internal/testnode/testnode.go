// Package testnode is a small node for the recorder's tests: it decides on
// batches exactly as spec section 4 says, in memory, over HTTP.
package testnode

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"karatum/flight"
)

// A Refusal is an answer that the node gives instead of a decision.
type Refusal struct {
	Status     int
	Code       string
	RetryAfter string // header, empty for none
}

type streamID struct {
	agent  flight.Address
	stream string
}

// A Node holds batches by stream. Set the fields before the first request.
type Node struct {
	// Before, when not nil, sees every request first and may refuse it.
	Before func(*http.Request) *Refusal
	// After, when not nil, is called once a batch is stored and may withhold the
	// answer, as a connection that breaks would.
	After func(flight.Header) *Refusal

	key      *flight.Key
	mu       sync.Mutex                  // covers the fields below
	batches  map[streamID][]flight.Batch // by index
	receipts map[flight.Hash]flight.Receipt
	evidence []*flight.Evidence
	order    []flight.Header
}

// New returns an empty node with a fresh receipt key.
func New() (*Node, error) {
	key, err := flight.NewKey()
	return &Node{key: key, batches: map[streamID][]flight.Batch{}, receipts: map[flight.Hash]flight.Receipt{}}, err
}

// Evidence returns the equivocations seen so far.
func (n *Node) Evidence() []*flight.Evidence {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.evidence)
}

// Headers returns the stored headers in storage order.
func (n *Node) Headers() []flight.Header {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.order)
}

// Forget drops all batches, as a node that lost its disk.
func (n *Node) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.batches)
	n.order = nil
}

// Address returns the address of the receipt key.
func (n *Node) Address() flight.Address {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.key.Address()
}

// Rekey draws another receipt key, as somebody in the node's place would have.
// Receipts that were given keep their signature.
func (n *Node) Rekey() error {
	key, err := flight.NewKey()
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.key = key
	return nil
}

// Clone returns a node that holds the same batches, without hooks.
func (n *Node) Clone() *Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := &Node{key: n.key, batches: map[streamID][]flight.Batch{}, receipts: maps.Clone(n.receipts), order: slices.Clone(n.order)}
	for id, b := range n.batches {
		c.batches[id] = slices.Clone(b)
	}
	return c
}

// ServeHTTP serves POST /v1/flight/batches and the stream route.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n.Before != nil {
		if x := n.Before(r); x != nil {
			refuse(w, x, nil)
			return
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/flight/batches", n.post)
	mux.HandleFunc("GET /v1/flight/agents/{agent}/streams/{stream}", n.stream)
	mux.ServeHTTP(w, r)
}

func (n *Node) stream(w http.ResponseWriter, r *http.Request) {
	agent, err := flight.ParseAddress(r.PathValue("agent"))
	if err != nil {
		refuse(w, &Refusal{Status: 400, Code: "BAD_REQUEST"}, nil)
		return
	}
	id := streamID{agent, r.PathValue("stream")}
	n.mu.Lock()
	stored := n.batches[id]
	n.mu.Unlock()
	if len(stored) == 0 {
		refuse(w, &Refusal{Status: 404, Code: "UNKNOWN_STREAM"}, nil)
		return
	}
	last := stored[len(stored)-1]
	answer(w, 200, map[string]any{
		"agent": id.agent, "stream": id.stream, "batches": len(stored), "gaps": []any{},
		"head": map[string]any{"index": last.Header.Index, "toSeq": last.Header.ToSeq, "head": last.Header.Head, "batchId": last.ID()},
	})
}

func (n *Node) post(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b, err := flight.ParseBatch(body)
	if err != nil {
		refuse(w, &Refusal{Status: 400, Code: "BAD_REQUEST"}, nil)
		return
	}
	if b.Verify() != nil {
		refuse(w, &Refusal{Status: 401, Code: "BAD_SIGNATURE"}, nil)
		return
	}
	status, doc, evidence := n.decide(b)
	if evidence != nil {
		refuse(w, &Refusal{Status: 409, Code: "EQUIVOCATION"}, evidence)
		return
	}
	if n.After != nil {
		if x := n.After(b.Header); x != nil {
			refuse(w, x, nil)
			return
		}
	}
	answer(w, status, doc)
}

// Receipt is the answer to a stored batch.
type receipt struct {
	flight.Receipt
	Continuity string `json:"continuity"`
	Duplicate  bool   `json:"duplicate,omitempty"`
}

func (n *Node) decide(b flight.Batch) (int, receipt, *flight.Evidence) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := streamID{b.Header.Agent, b.Header.Stream}
	stored := n.batches[id]
	for _, s := range stored {
		if s.Header.SameHistory(b.Header) {
			return 200, receipt{n.receipts[s.ID()], "continuous", true}, nil
		}
	}
	for _, s := range stored {
		if e := flight.NewEvidence(s, b); e != nil {
			n.evidence = append(n.evidence, e)
			return 0, receipt{}, e
		}
	}
	continuity := "continuous"
	if k := len(stored); k == 0 && b.Header.Index > 0 || k > 0 && stored[k-1].Header.Index+1 < b.Header.Index {
		continuity = "gap"
	} else if k > 0 && stored[k-1].Header.Index > b.Header.Index {
		continuity = "filled"
	}
	stored = append(stored, b)
	slices.SortFunc(stored, func(x, y flight.Batch) int { return int(x.Header.Index) - int(y.Header.Index) })
	n.batches[id], n.order = stored, append(n.order, b.Header)
	now := time.Now()
	rc := flight.Receipt{
		BatchID: b.ID(), Position: uint64(len(n.order)), ReceivedAt: uint64(now.UnixMilli()),
		AnchorBy: uint64(now.Unix()) + 1200, Node: n.key.Address(),
	}
	rc.Signature = n.key.SignText(rc.Text())
	n.receipts[rc.BatchID] = rc
	return 201, receipt{rc, continuity, false}, nil
}

func refuse(w http.ResponseWriter, x *Refusal, evidence *flight.Evidence) {
	if x.Status == 0 {
		panic(http.ErrAbortHandler) // the connection breaks
	}
	if x.RetryAfter != "" {
		w.Header().Set("Retry-After", x.RetryAfter)
	}
	details := map[string]any{}
	if evidence != nil {
		details["evidence"] = evidence
	}
	answer(w, x.Status, map[string]any{"error": map[string]any{"code": x.Code, "message": strconv.Itoa(x.Status), "details": details}})
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // a client that is gone needs no answer
}
