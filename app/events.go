package app

import (
	"context"
	"sync"
	"time"

	"karatum/flight"
)

// Topics of events.
const (
	TopicRecords = "records" // batches, verdicts and conflicts
	TopicChain   = "chain"   // epochs
)

// Kinds of events.
const (
	EventBatch    = "batch"
	EventOpened   = "opened"  // a step, for the first time
	EventVerdict  = "verdict" // that changed
	EventConflict = "conflict"
	EventEpoch    = "epoch"
)

// An Event is one thing that the node did, told after it was durable. Fields that
// a kind lacks are zero.
type Event struct {
	Seq   uint64 // rises by one; a start of the node begins beyond all numbers of the one before
	At    uint64 // unix ms
	Kind  string
	Agent flight.Address

	Stream   string
	Index    uint64      // of a batch or of the batch in conflict
	FromSeq  uint64      // first and last step of a batch; a verdict's step
	ToSeq    uint64      //
	BatchID  flight.Hash // of a batch
	State    string      // continuity of a batch, verdict, reason of a conflict, state of an epoch
	Reason   string      // of a verdict
	Epoch    uint64
	Batches  uint64 // in the epoch
	BlockNum uint64 // 0 where it is in none
}

// Topic returns the topic of the event.
func (e *Event) Topic() string {
	if e.Kind == EventEpoch {
		return TopicChain
	}
	return TopicRecords
}

// keptEvents is the size of the ring; a power of two.
const keptEvents = 1024

// Events remembers the last events in a ring. Publishing is an append under a
// lock and never waits for a reader; a reader that falls behind the ring learns
// how many events it has missed.
type Events struct {
	mu      sync.Mutex // guards the rest
	ring    [keptEvents]Event
	first   uint64        // number of the first event ever
	next    uint64        // number of the next event
	waiting chan struct{} // closed by the next event; nil while nobody waits
}

// NewEvents returns an empty ring. Numbers start at the time in microseconds, so
// that a reader's last number stays in the past when the node starts again.
func NewEvents(now time.Time) *Events {
	start := uint64(now.UnixMicro())
	return &Events{first: start, next: start}
}

// Begin gives an empty ring its first number and what it holds from the beginning,
// oldest first.
func (h *Events) Begin(first uint64, past []Event) {
	h.mu.Lock()
	h.first, h.next = first, first
	h.mu.Unlock()
	h.Publish(past...)
}

// Known reports whether a number is of this start of the node, or the one before its
// first. What followed on another number cannot be told.
func (h *Events) Known(seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return seq+1 >= h.first && seq < h.next
}

// Publish appends events and gives them their numbers.
func (h *Events) Publish(events ...Event) {
	if len(events) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range events {
		events[i].Seq = h.next
		h.ring[h.next%keptEvents] = events[i]
		h.next++
	}
	if h.waiting != nil {
		close(h.waiting)
		h.waiting = nil
	}
}

// Last returns the number of the newest event, or the one before the first where
// there is none yet.
func (h *Events) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next - 1
}

// Since returns the events after a number, oldest first, at most the newest limit
// of them, and how many in between are no longer known or were left out. A number
// below the first counts as the one before it; see [Events.Known].
func (h *Events) Since(seq uint64, limit int) (events []Event, missed uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := max(seq+1, h.first)
	if from >= h.next {
		return nil, 0
	}
	kept := max(from, h.next-min(h.next-h.first, uint64(min(limit, keptEvents))))
	events = make([]Event, 0, h.next-kept)
	for n := kept; n < h.next; n++ {
		events = append(events, h.ring[n%keptEvents])
	}
	return events, kept - from
}

// Wait returns once there is an event after the number, or with the context's
// error.
func (h *Events) Wait(ctx context.Context, seq uint64) error {
	h.mu.Lock()
	if h.next > seq+1 {
		h.mu.Unlock()
		return nil
	}
	if h.waiting == nil {
		h.waiting = make(chan struct{})
	}
	wake := h.waiting
	h.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Events returns the latest events of this node, some from before it started.
func (a *App) Events() *Events { return a.events }
