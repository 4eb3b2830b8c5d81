package web

import (
	"net"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// clientAddr returns the address of who sent the request. Behind a trusted proxy
// it is the rightmost address of X-Forwarded-For that is not a trusted proxy
// itself: everything left of it is what the client wrote. A malformed entry ends
// the walk at the last address known to be true.
func (s *Server) clientAddr(ctx *fasthttp.RequestCtx) netip.Addr {
	peer := peerAddr(ctx.RemoteAddr())
	if !s.trusts(peer) {
		return peer
	}
	lines := ctx.Request.Header.PeekAll("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0; i-- {
		hops := strings.Split(string(lines[i]), ",")
		for j := len(hops) - 1; j >= 0; j-- {
			hop, ok := parseHop(hops[j])
			if !ok {
				return peer
			}
			if peer = hop; !s.trusts(hop) {
				return hop
			}
		}
	}
	return peer
}

func (s *Server) trusts(a netip.Addr) bool {
	for _, p := range s.cfg.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// parseHop reads one entry of X-Forwarded-For: an address, perhaps with a port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if p, err := netip.ParseAddrPort(text); err == nil {
		return p.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

func peerAddr(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.IPv4Unspecified()
}
