package recorder

import (
	"errors"
	"strings"
	"testing"

	"karatum/flight"
)

// openAt opens the setup's journal with the node's receipt key pinned.
func (s *setup) openAt(node flight.Address) *Recorder {
	s.t.Helper()
	o := s.options()
	o.NodeAddress, o.SegmentBytes = node, 600 // a step or two in a file
	r, err := Open(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { closeNow(r) })
	return r
}

// refusesKey flushes and expects the node's receipt not to count.
func refusesKey(t *testing.T, r *Recorder, got, want flight.Address) *ReceiptKeyError {
	t.Helper()
	var e *ReceiptKeyError
	if err := r.Flush(t.Context()); !errors.As(err, &e) || e.Got != got || e.Want != want {
		t.Fatalf("flush: %v, want a receipt of %s refused for %s", err, got, want)
	}
	if st := r.Status(); !st.Inflight || st.Node != want {
		t.Errorf("status %+v, want the batch still in flight and %s pinned", st, want)
	}
	return e
}

// TestReceiptKeyIsPinned changes the node's receipt key under a recorder that
// trusted the first one: through restarts and full files its receipts must not
// count until the owner names the new key. Then the very same batch is settled and
// the steps that waited follow.
func TestReceiptKeyIsPinned(t *testing.T) {
	s := newSetup(t)
	r := s.openAt(flight.Address{})
	if got := r.Status().Node; got != (flight.Address{}) {
		t.Errorf("%s is pinned before the first receipt", got)
	}
	deliver(t, r, 3)
	first := s.node.Address()
	closeNow(r)
	if err := s.node.Rekey(); err != nil {
		t.Fatal(err)
	}
	second := s.node.Address()

	r = s.openAt(flight.Address{})
	recordN(t, r, 2)
	e := refusesKey(t, r, second, first)
	for _, part := range []string{s.url, second.String(), first.String(), s.dir, "--node-address"} {
		if !strings.Contains(e.Error(), part) {
			t.Errorf("the message does not name %s: %s", part, e)
		}
	}
	if !s.errs.has(e) {
		t.Error("OnError has not heard of it")
	}
	recordN(t, r, 2) // goes on
	refusesKey(t, r, second, first)
	closeNow(r)

	r = s.openAt(second)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeNow(r)
	r = s.openAt(flight.Address{}) // the journal knows the new key now
	deliver(t, r, 1)
	checkNode(t, s.node)
	if h := s.node.Headers(); h[len(h)-1].ToSeq != 7 || r.Status().Node != second {
		t.Errorf("the last batch is %+v, status %+v", h[len(h)-1], r.Status())
	}
	if rep, err := Check(s.dir); err != nil || len(rep.Problems) > 0 || len(rep.Nodes) != 2 || rep.Nodes[0] != first || rep.Nodes[1] != second {
		t.Errorf("check: %+v, %v", rep, err)
	}
}

// TestReceiptKeyOption pins a key that the node does not have before any receipt.
func TestReceiptKeyOption(t *testing.T) {
	s := newSetup(t)
	other := flight.Address{1}
	r := s.openAt(other)
	recordN(t, r, 1)
	if e := refusesKey(t, r, s.node.Address(), other); e.Journal != "" || !strings.Contains(e.Error(), "but NodeAddress (--node-address) pins") {
		t.Errorf("says who pinned the key: %v", e)
	}
	closeNow(r)
	r = s.openAt(s.node.Address())
	deliver(t, r, 1)
	checkNode(t, s.node)
}

// TestReceiptKeyOutlivesStream gives a stream up: the pin goes along.
func TestReceiptKeyOutlivesStream(t *testing.T) {
	s := newSetup(t)
	r := s.openAt(flight.Address{})
	deliver(t, r, 1)
	recordN(t, r, 1)
	if err := r.leave("of a test", 1); err != nil {
		t.Fatal(err)
	}
	closeNow(r)
	if r = s.openAt(flight.Address{}); r.Status().Node != s.node.Address() {
		t.Errorf("%s is pinned, want %s", r.Status().Node, s.node.Address())
	}
	deliver(t, r, 1)
	checkNode(t, s.node)
}

// TestJournalWithoutPin opens a journal whose file heads were written before
// receipts were pinned.
func TestJournalWithoutPin(t *testing.T) {
	end := cursor{Stream: "main-1", Seq: 1, Node: flight.Address{1}}
	head := end
	if head.Node = (flight.Address{}); !head.follows(&end) {
		t.Error("a head without a node is refused")
	}
	if head.Node = (flight.Address{2}); head.follows(&end) {
		t.Error("a head with another node is taken")
	}
}
