package web

import (
	"net/netip"
	"sync"
)

// places bounds how many costly things go on at once, in all and for each client.
type places struct {
	most, each int
	local      bool // loopback clients, who may speak for many, count only in all

	mu   sync.Mutex // guards the map
	open map[netip.Addr]int
}

// enter reports whether the client got a place, which it must leave.
func (p *places) enter(client netip.Addr) bool {
	each := p.each
	if p.local && client.IsLoopback() {
		each = p.most
	}
	client = limitKey(client)
	p.mu.Lock()
	defer p.mu.Unlock()
	all := 0
	for _, n := range p.open {
		all += n
	}
	if all >= p.most || p.open[client] >= each {
		return false
	}
	if p.open == nil {
		p.open = map[netip.Addr]int{}
	}
	p.open[client]++
	return true
}

func (p *places) leave(client netip.Addr) {
	client = limitKey(client)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[client]--; p.open[client] == 0 {
		delete(p.open, client)
	}
}
