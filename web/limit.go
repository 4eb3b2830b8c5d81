package web

import (
	"math"
	"net/netip"
	"sync"
	"time"
)

// A limiter is a token bucket for each client address (spec section 4), in the
// form of GCRA: all that is kept of a bucket is the time at which it will be full
// again. It remembers at most 2*maxKeys buckets a shard; one that is forgotten is
// a full one, or the attacker holds that many addresses anyway.
type limiter struct {
	per   time.Duration // a token's worth of time; 0 means no limit
	burst int

	shards [limitShards]limitShard
}

const (
	limitShards = 16
	maxKeys     = 4096
)

// A limitShard holds two generations: when young is full it becomes old, and old
// is dropped. A bucket in use moves back to young, so what is lost was idle.
type limitShard struct {
	mu         sync.Mutex // covers both maps
	young, old map[netip.Addr]int64
}

// newLimiter returns a limiter of rate tokens a minute; 0 switches it off.
func newLimiter(rate, burst int) *limiter {
	l := &limiter{burst: max(burst, 1)}
	if rate > 0 {
		l.per = time.Minute / time.Duration(rate)
		l.burst = min(l.burst, int(math.MaxInt64/4/max(int64(l.per), 1))) // more would not fit into the time
	}
	return l
}

// take takes up to want tokens of the client and returns how many it got. With
// none, wait says when there will be one.
func (l *limiter) take(client netip.Addr, want int, now time.Time) (got int, wait time.Duration) {
	if l.per == 0 || want == 0 {
		return want, 0
	}
	key := limitKey(client)
	s := &l.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	have, full := l.have(s, key, now)
	if have <= 0 {
		return 0, l.until(1, full, now)
	}
	got = min(want, have)
	s.put(key, full+int64(got)*int64(l.per))
	return got, 0
}

// spend takes want more tokens of a client that has paid one, all of them or none.
// Without, wait says when there will be as many and the one. What a full bucket cannot
// hold is not asked for.
func (l *limiter) spend(client netip.Addr, want int, now time.Time) (wait time.Duration) {
	if want = min(want, l.burst-1); l.per == 0 || want <= 0 {
		return 0
	}
	key := limitKey(client)
	s := &l.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	have, full := l.have(s, key, now)
	if have < want {
		return l.until(want+1, full, now)
	}
	s.put(key, full+int64(want)*int64(l.per))
	return 0
}

// owe takes tokens for what an answer turned out to cost, which the client pays before
// it gets another.
func (l *limiter) owe(client netip.Addr, tokens int, now time.Time) {
	if l.per == 0 || tokens <= 0 {
		return
	}
	key := limitKey(client)
	s := &l.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, full := l.have(s, key, now)
	s.put(key, full+int64(tokens)*int64(l.per))
}

// wait returns when there will be a token, without taking one.
func (l *limiter) wait(client netip.Addr, now time.Time) time.Duration {
	key := limitKey(client)
	s := &l.shards[shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	_, full := l.have(s, key, now)
	return l.until(1, full, now)
}

// have returns the tokens of a bucket and the time, in unix nanoseconds, at which it
// will be full again.
func (l *limiter) have(s *limitShard, key netip.Addr, now time.Time) (tokens int, full int64) {
	t, per := now.UnixNano(), int64(l.per)
	full = max(s.get(key), t)
	// The bucket lacks (full-t)/per tokens of burst.
	return int((int64(l.burst)*per - (full - t)) / per), full
}

// until returns how long a bucket takes to have as many tokens.
func (l *limiter) until(tokens int, full int64, now time.Time) time.Duration {
	return max(time.Duration(full-now.UnixNano()-int64(l.burst-tokens)*int64(l.per)), 0)
}

func (s *limitShard) get(key netip.Addr) int64 {
	if at, ok := s.young[key]; ok {
		return at
	}
	return s.old[key]
}

func (s *limitShard) put(key netip.Addr, at int64) {
	if s.young == nil || (len(s.young) >= maxKeys && !has(s.young, key)) {
		s.young, s.old = make(map[netip.Addr]int64), s.young
	}
	s.young[key] = at
}

func has(m map[netip.Addr]int64, key netip.Addr) bool { _, ok := m[key]; return ok }

// limitKey is the address itself for IPv4 and the /64 for IPv6, which is what one
// subscriber gets.
func limitKey(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// shardOf mixes the bytes that differ between subscribers.
func shardOf(a netip.Addr) int {
	b := a.As16()
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return int(h % limitShards)
}
