package app

import (
	"math/big"
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
