package app

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/flight"
)

func TestStatusRates(t *testing.T) {
	at := time.Date(2026, 3, 1, 23, 58, 0, 0, time.UTC)
	r := newRig(t, nil)
	r.stands.Store(at.UnixNano())
	want := func(when string, perMinute uint64, today VerdictsView) {
		t.Helper()
		v, err := r.app.Status(t.Context())
		if err != nil || v.PerMinute != perMinute || v.Today != today {
			t.Errorf("%s: %d a minute, %+v today, %v; want %d, %+v", when, v.PerMinute, v.Today, err, perMinute, today)
		}
	}
	pass := func(d time.Duration) { r.shift.Add(int64(d)) }
	want("at first", 0, VerdictsView{})
	a, payee := newAuthor(t, "main"), flight.Address{9}
	sent := r.transact(a, common.Address(payee), big.NewInt(5), nil)
	for i := range 4 {
		if i == 3 {
			a.fill(t, 1) // no claim, no verdict
		} else {
			a.step(t, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(5 + int64(i/2))}, 31337, &sent)
		}
		b := a.batch(t, flight.EIP712)
		b.Header.CreatedAt = uint64(r.now().Unix())
		b = b.Header.Sign(a.key, flight.EIP712)
		r.mustIngest(b)
		if i == 3 {
			r.mustDisclose(a.disclose(t, b, b.Header.ToSeq, "args"), false)
		} else {
			r.mustDisclose(a.disclose(t, b, b.Header.ToSeq, "claim"), false)
		}
		pass(2 * time.Second)
	}
	want("after four", 4, VerdictsView{Confirmed: 2, Contradicted: 1})
	pass(55 * time.Second)
	want("a minute later", 2, VerdictsView{Confirmed: 2, Contradicted: 1})
	pass(5 * time.Minute)
	want("on the next day", 0, VerdictsView{})
}

// TestStatusHour compares the counts of the last minutes with a count by hand, from a
// node that looks all the time and from one that starts to look late.
func TestStatusHour(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	r := newRig(t, nil)
	r.stands.Store(at.UnixNano())
	a := newAuthor(t, "main")
	var stored []uint64 // the minutes in which batches came
	minute := func() uint64 { return uint64(r.now().Unix()) / 60 }
	check := func(app *App) {
		t.Helper()
		want := make([]uint64, hourMinutes)
		for _, m := range stored {
			if ago := minute() - m; ago < hourMinutes {
				want[hourMinutes-1-ago]++
			}
		}
		v, err := app.Status(t.Context())
		if err != nil || !slices.Equal(v.LastHour, want) {
			t.Errorf("at %s: %v, %v; want %v", r.now(), v.LastHour, err, want)
		}
	}
	check(r.app)
	for _, step := range []struct {
		pass    time.Duration
		batches int
	}{{0, 3}, {29 * time.Second, 1}, {time.Second, 2}, {10 * time.Minute, 0}, {0, 5}, {49 * time.Minute, 1}, {time.Minute, 0}, {3 * time.Hour, 0}, {time.Minute, 2}, {-5 * time.Minute, 0}} {
		r.shift.Add(int64(step.pass))
		for range step.batches {
			a.fill(t, 1)
			b := a.batch(t, flight.EIP712)
			b.Header.CreatedAt = uint64(r.now().Unix())
			r.mustIngest(b.Header.Sign(a.key, flight.EIP712))
			stored = append(stored, minute())
		}
		if step.pass >= 0 { // a clock set back makes the count wrong, and only the count
			check(r.app)
			check(&App{store: r.store, keys: r.keys, now: r.now, crons: r.app.crons})
		} else if _, err := r.app.Status(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
