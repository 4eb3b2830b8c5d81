package web

import (
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
	t, per := now.UnixNano(), int64(l.per)
	full := max(s.get(key), t)
	// The bucket lacks (full-t)/per tokens of burst.
	have := (int64(l.burst)*per - (full - t)) / per
	if have <= 0 {
		return 0, time.Duration(full - t - int64(l.burst-1)*per)
	}
	got = min(want, int(have))
	s.put(key, full+int64(got)*per)
	return got, 0
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
