package app

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/flight"
)

// restart closes the store and opens it again, as a new process does.
func (r *rig) restart(adapt func(*Config, *Deps)) {
	r.t.Helper()
	if err := r.store.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open(adapt)
	if err := r.app.recall(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// told is what an event says, without its number and time.
func told(events []Event) []Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Seq, events[i].At = 0, 0
	}
	return events
}

// After a restart the ring holds what was told before it.
func TestRecall(t *testing.T) {
	r := newRig(t, nil)
	if err := r.app.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	step := func() { r.shift.Add(int64(time.Second)) } // so that times tell the order
	a, payee := newAuthor(t, "main"), flight.Address{9}
	sent := r.transact(a, common.Address(payee), big.NewInt(5), nil)
	var batches []flight.Batch
	for i := range 5 {
		if i == 0 {
			a.step(t, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(5)}, 31337, &sent)
		} else {
			a.fill(t, 2)
		}
		batches = append(batches, a.batch(t, flight.EIP712))
	}
	for _, i := range []int{0, 1, 4, 2} {
		r.mustIngest(batches[i])
		step()
	}
	r.mustDisclose(a.disclose(t, batches[0], 0, "claim"), false)
	step()
	r.mustDisclose(a.disclose(t, batches[1], 1, "args"), false)
	step()
	_, err := r.ingest(a.header(t, 1, 1, 1).Sign(a.key, flight.EIP712))
	wantCode(t, err, "EQUIVOCATION")
	step()
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, _ := r.app.Events().Since(0, keptEvents)
	last := before[len(before)-1].Seq
	r.restart(nil)
	after, missed := r.app.Events().Since(0, keptEvents)
	want := told(before)
	for i := range want {
		if want[i].Kind == EventConflict { // the evidence says the rest
			want[i].BatchID, want[i].FromSeq, want[i].ToSeq = flight.Hash{}, 0, 0
		}
	}
	// An epoch is told in its present state.
	want = slices.DeleteFunc(want, func(e Event) bool { return e.Kind == EventEpoch && e.State != "final" })
	got := told(after)
	if missed != 0 || !slices.Equal(got, want) {
		t.Errorf("after the restart:\n%+v\nwant\n%+v", got, want)
	}
	if h := r.app.Events(); h.Known(last) || after[0].Seq <= last || !h.Known(h.Last()) || h.Known(h.Last()+1) || !h.Known(after[0].Seq-1) {
		t.Errorf("numbers from %d after %d", after[0].Seq, last)
	}
	for i := range after[1:] {
		if after[i].At > after[i+1].At || after[i].Seq+1 != after[i+1].Seq {
			t.Errorf("event %d at %d is before %d", after[i].Seq, after[i].At, after[i+1].At)
		}
	}
}

// Numbers rise over restarts even where the clock goes back.
func TestEventNumbersAcrossRestarts(t *testing.T) {
	at := time.Now()
	clock := func(_ *Config, d *Deps) { d.Now = func() time.Time { return at } }
	r := newRig(t, clock)
	if err := r.app.recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := r.app.Events().Last()
	for _, jump := range []time.Duration{0, -time.Hour, -24 * time.Hour, time.Minute, 48 * time.Hour} {
		r.app.Events().Publish(make([]Event, 5000)...)
		last = r.app.Events().Last()
		at = at.Add(jump)
		r.restart(clock)
		if first := r.app.Events().Last() + 1; first <= last || r.app.Events().Known(last) {
			t.Errorf("clock %v: numbers begin at %d after %d", jump, first, last)
		}
	}
	if last > 1<<53 {
		t.Errorf("number %d is not exact in JavaScript", last)
	}
}

func TestRecallIsBounded(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	var lines [][]byte
	for range 3 * recalledEvents {
		a.fill(t, 1)
		lines = append(lines, encode(t, a.batch(t, flight.EIP712)))
	}
	for _, o := range r.app.IngestBulk(t.Context(), lines) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
	r.restart(nil)
	got, _ := r.app.Events().Since(0, keptEvents)
	if len(got) != recalledEvents || got[0].Index != 2*recalledEvents || got[len(got)-1].Index != 3*recalledEvents-1 || got[0].State != Continuous {
		t.Errorf("%d events from batch %d (%s) to %d", len(got), got[0].Index, got[0].State, got[len(got)-1].Index)
	}
}
