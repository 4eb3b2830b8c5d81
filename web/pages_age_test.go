package web

import (
	"sync/atomic"
	"testing"
	"time"

	"karatum/flight"
)

// A page keeps its tag while nothing happens: ages on it count minutes.
func TestTagsLast(t *testing.T) {
	a, _ := newNode(t)
	var clock atomic.Int64 // Unix nanoseconds; it stands still
	clock.Store(time.Now().UnixNano())
	now := func() time.Time { return time.Unix(0, clock.Load()) }
	w := &world{t: t, app: a, url: "http://" + start(t, a, Config{Now: now}), stream: "main"}
	var err error
	w.key, err = flight.NewKey()
	check(t, err)
	for i := range 6 {
		w.record(i)
	}
	w.post("/v1/flight/batches", w.sign(0, 0, 1, 0), 201)
	w.post("/v1/flight/proofs", w.disclose(0), 200)
	made := time.Now()
	for _, path := range []string{"/agents", "/agents/{agent}", "/agents/{agent}/main", "/agents/{agent}/main/0"} {
		tag := func(age time.Duration) string {
			clock.Store(made.Add(age).UnixNano())
			r, _ := w.do("GET", w.expand(path), nil, "Accept", "text/html")
			return r.Header.Get("ETag")
		}
		first := tag(10*time.Minute + time.Second) // what there is may be up to 40 s older
		if again := tag(10*time.Minute + 20*time.Second); first == "" || again != first {
			t.Errorf("%s: tag %s, 19 seconds later %s", path, first, again)
		}
		if last := tag(12 * time.Minute); last == first {
			t.Errorf("%s: the tag of another page is the same", path)
		}
	}
}
