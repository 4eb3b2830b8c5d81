package app

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEventsSince(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := NewEvents(time.UnixMicro(5000))
		var all []Event
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 600), 0, 6).Draw(rt, "appends") {
			batch := make([]Event, n)
			for i := range batch {
				batch[i].Index = uint64(len(all) + i)
			}
			h.Publish(batch...)
			all = append(all, batch...)
		}
		if got, want := h.Last(), uint64(4999+len(all)); got != want {
			rt.Fatalf("Last = %d, want %d", got, want)
		}
		after := rapid.IntRange(0, len(all)).Draw(rt, "after")
		limit := rapid.IntRange(1, 2*keptEvents).Draw(rt, "limit")
		got, missed := h.Since(uint64(4999+after), limit)
		behind := len(all) - after
		if want := min(behind, limit, keptEvents); len(got) != want || int(missed) != behind-want {
			rt.Fatalf("%d events and %d missed, want %d of %d", len(got), missed, want, behind)
		}
		for i, e := range got {
			if n := len(all) - len(got) + i; e.Index != uint64(n) || e.Seq != uint64(5000+n) {
				rt.Fatalf("event %d is number %d of batch %d", n, e.Seq, e.Index)
			}
		}
	})
}

// TestEventsOfAnEarlierStart: what a reader saw before a restart hides nothing.
func TestEventsOfAnEarlierStart(t *testing.T) {
	before, after := NewEvents(time.UnixMicro(1000)), NewEvents(time.UnixMicro(9000))
	before.Publish(make([]Event, 40)...)
	after.Publish(make([]Event, 3)...)
	if got, missed := after.Since(before.Last(), 100); len(got) != 3 || missed != 0 {
		t.Errorf("%d events, %d missed", len(got), missed)
	}
}

func TestEventsWait(t *testing.T) {
	h := NewEvents(time.UnixMicro(10))
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := h.Wait(ctx, h.Last()); !errors.Is(err, stopped) {
		t.Fatalf("Wait of an ended context = %v", err)
	}
	last, woken := h.Last(), make(chan error)
	for range 2 {
		go func() { woken <- h.Wait(t.Context(), last) }()
	}
	h.Publish(Event{})
	for range 2 {
		if err := <-woken; err != nil {
			t.Errorf("Wait = %v", err)
		}
	}
	if err := h.Wait(t.Context(), 9); err != nil {
		t.Errorf("Wait for a past event = %v", err)
	}
}

func TestPublishAllocatesNothing(t *testing.T) {
	h := NewEvents(time.UnixMicro(10))
	if n := testing.AllocsPerRun(100, func() { h.Publish(Event{Kind: EventBatch}) }); n > 0 {
		t.Errorf("an event costs %.0f allocations", n)
	}
}
