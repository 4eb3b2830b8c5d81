package web

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"

	"karatum/app"
	"karatum/flight"
)

// TestBucketAgainstModel compares the limiter with a token bucket written the
// plain way.
func TestBucketAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.IntRange(1, 600).Draw(t, "rate"), rapid.IntRange(1, 100).Draw(t, "burst")
		l, now := newLimiter(rate, burst), time.Unix(1_760_000_000, 0)
		client := netip.MustParseAddr("192.0.2.1")
		per := time.Minute / time.Duration(rate)
		level := time.Duration(burst) * per // tokens, each worth per
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			passed := time.Duration(rapid.Int64Range(0, int64(2*per)).Draw(t, "passed"))
			now, level = now.Add(passed), min(level+passed, time.Duration(burst)*per)
			want := rapid.IntRange(1, 2*burst).Draw(t, "want")
			got, wait := l.take(client, want, now)
			if most := int(level / per); got != min(want, most) {
				t.Fatalf("took %d of %d, want %d", got, want, min(want, most))
			}
			if level -= time.Duration(got) * per; got == 0 && wait != per-level {
				t.Fatalf("wait %v, want %v", wait, per-level)
			}
		}
	})
}

func TestLimitOffGivesAll(t *testing.T) {
	l := newLimiter(0, 1)
	if got, _ := l.take(netip.MustParseAddr("192.0.2.1"), 1000, time.Unix(0, 0)); got != 1000 {
		t.Errorf("got %d", got)
	}
}

func TestLimitOfAHugeBurst(t *testing.T) {
	l, client, now := newLimiter(1, math.MaxInt), netip.MustParseAddr("192.0.2.1"), time.Unix(1_760_000_000, 0)
	for range 2 {
		if got, wait := l.take(client, 1000, now); got != 1000 {
			t.Errorf("got %d, wait %v", got, wait)
		}
	}
}

func TestLimitKeys(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::2", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"fe80::1%eth0", "fe80::1%eth1", true},
	} {
		if got := limitKey(netip.MustParseAddr(tt.a)) == limitKey(netip.MustParseAddr(tt.b)); got != tt.same {
			t.Errorf("%s and %s share a bucket: %v, want %v", tt.a, tt.b, got, tt.same)
		}
	}
}

// Any number of addresses leaves a bounded number of buckets, and an address that
// keeps spending stays limited however many others come by.
func TestLimiterMemory(t *testing.T) {
	l, now := newLimiter(60, 2), time.Unix(1_760_000_000, 0)
	busy := netip.MustParseAddr("192.0.2.1")
	for i := range 4 * limitShards * maxKeys {
		var b [16]byte
		b[0], b[4], b[5], b[6] = 0x20, byte(i>>16), byte(i>>8), byte(i)
		l.take(netip.AddrFrom16(b), 1, now)
		if i%1000 == 0 {
			if got, _ := l.take(busy, 2, now); i > 0 && got != 0 {
				t.Fatalf("after %d others the busy address got %d", i, got)
			}
			l.shards[shardOf(busy)].put(busy, now.UnixNano()+2*int64(l.per))
		}
	}
	total := 0
	for i := range l.shards {
		total += len(l.shards[i].young) + len(l.shards[i].old)
	}
	if total > 2*limitShards*maxKeys {
		t.Errorf("%d buckets are kept", total)
	}
}

func TestClientAddr(t *testing.T) {
	s := &Server{cfg: Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}
	for _, tt := range []struct {
		peer string
		xff  []string
		want string
	}{
		{"192.0.2.9:1", []string{"198.51.100.1"}, "192.0.2.9"}, // not a proxy: the header is the client's word
		{"127.0.0.1:1", nil, "127.0.0.1"},
		{"127.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"203.0.113.7, 198.51.100.1"}, "198.51.100.1"}, // the left one is forged
		{"127.0.0.1:1", []string{"203.0.113.7", "198.51.100.1"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"127.0.0.1:1", []string{"198.51.100.1, nonsense"}, "127.0.0.1"},
		{"127.0.0.1:1", []string{"nonsense, 10.0.0.2"}, "10.0.0.2"},
		{"127.0.0.1:1", []string{""}, "127.0.0.1"},
		{"127.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"127.0.0.1:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"127.0.0.1:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, netAddr(tt.peer), nil)
		for _, v := range tt.xff {
			ctx.Request.Header.Add("X-Forwarded-For", v)
		}
		if got := s.clientAddr(&ctx); got != netip.MustParseAddr(tt.want) {
			t.Errorf("%s behind %q = %s, want %s", tt.peer, tt.xff, got, tt.want)
		}
	}
}

// The limit is taken before the body is waited for, a bulk line costs one token,
// and what is over is refused line by line.
func TestLimitOverHTTP(t *testing.T) {
	now := time.Unix(1_760_000_000, 0)
	addr := start(t, echoNode(), Config{IPRate: 60, IPBurst: 5, Now: func() time.Time { return now }})
	lines := strings.Repeat("{}\n", 7)
	r := exchange(t, addr, fmt.Sprintf("POST /v1/flight/batches/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(lines), lines))
	body, err := io.ReadAll(r.Body)
	check(t, err)
	if got := strings.Count(string(body), "RATE_LIMITED"); r.StatusCode != 200 || got != 2 || r.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, %d lines limited, want 2: %s", r.StatusCode, got, body)
	}
	for _, raw := range []string{
		postHead + "Content-Length: 100\r\n\r\n",
		"POST /v1/flight/batches/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /v1/admin/anchor HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	} {
		if strings.Contains(raw, "Content-Length: 100") {
			raw += strings.Repeat(" ", 100) // fasthttp reads up to 8 KiB before it hands over
		}
		r := exchange(t, addr, raw)
		if code := errorOf(t, r); r.StatusCode != http.StatusTooManyRequests || code != "RATE_LIMITED" || r.Header.Get("Retry-After") == "" {
			t.Errorf("%.60q: status %d, code %s", raw, r.StatusCode, code)
		}
	}
	if r := exchange(t, addr, "GET /v1/flight/agents HTTP/1.1\r\nHost: x\r\n\r\n"); r.StatusCode != 200 {
		t.Errorf("reads have a bucket of their own: status %d", r.StatusCode)
	}
}

// A disclosure costs a token for each 64 KiB, all or none of them, and the wait that a
// refusal names is enough.
func TestLargeProofsCostMore(t *testing.T) {
	var clock atomic.Int64
	addr := start(t, echoNode(), Config{IPRate: 60, IPBurst: 10, Now: func() time.Time { return time.Unix(1_760_000_000+clock.Load(), 0) }})
	post := func(size int) *http.Response {
		t.Helper()
		return exchange(t, addr, fmt.Sprintf("POST /v1/flight/proofs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat(" ", size)))
	}
	for i, c := range []struct{ size, status int }{
		{64 << 10, 200}, {64<<10 + 1, 200}, {300 << 10, 200}, // 1 + 2 + 5 of 10 tokens
		{200 << 10, 429}, // which costs the one that every request does
		{1, 200}, {1, 429},
	} {
		if r := post(c.size); r.StatusCode != c.status {
			t.Errorf("proof %d of %d bytes: status %d, want %d", i, c.size, r.StatusCode, c.status)
		}
	}
	r := post(1)
	wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if r.StatusCode != 429 || err != nil || wait != 1 {
		t.Fatalf("status %d, wait %d, %v", r.StatusCode, wait, err)
	}
	clock.Add(5)
	r = post(5 << 20) // as much as the bucket can hold
	if wait, err = strconv.Atoi(r.Header.Get("Retry-After")); r.StatusCode != 429 || err != nil {
		t.Fatalf("status %d, wait %d, %v", r.StatusCode, wait, err)
	}
	clock.Add(int64(wait))
	if r := post(5 << 20); r.StatusCode != 200 {
		t.Errorf("after %d s: status %d", wait, r.StatusCode)
	}
}

// A large answer costs more than its token, once it was given; a stream and a refusal do
// not.
func TestLargeAnswersCostMore(t *testing.T) {
	node := echoNode()
	var size int
	node.stream = func(a flight.Address, _ string) (app.StreamView, error) {
		return app.StreamView{Agent: a, Stream: strings.Repeat("a", size)}, nil
	}
	now := time.Unix(1_760_000_000, 0)
	addr := start(t, node, Config{IPRate: 6, IPBurst: 1, Now: func() time.Time { return now }}) // 10 reads
	get := func(n int) *http.Response {
		t.Helper()
		size = n
		return exchange(t, addr, "GET /v1/flight/agents/"+flight.Address{}.String()+"/streams/a HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	for i, c := range []struct{ size, status int }{{0, 200}, {3 * readToken, 200}, {0, 200}, {9 * readToken, 200}, {0, 429}} { // 1, 1 and 3, 1, then 1 and 9 where 3 are left after the 1
		if r := get(c.size); r.StatusCode != c.status {
			t.Fatalf("answer %d of %d bytes: status %d, want %d", i, c.size, r.StatusCode, c.status)
		}
	}
	r := get(0)
	if wait := r.Header.Get("Retry-After"); r.StatusCode != 429 || wait != "7" { // 6 that it owes and one, at one a second
		t.Errorf("status %d, Retry-After %s", r.StatusCode, wait)
	}
}
