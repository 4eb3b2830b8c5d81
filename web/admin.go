package web

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
)

// adminGuard stands before every admin route. The operator's token is always
// needed: loopback is no credential, for proxies and pages in a browser reach it
// too. Host is checked against DNS rebinding, Origin and Sec-Fetch-Site against
// pages of other sites, and the JSON type makes browsers ask before they post.
func (s *Server) adminGuard(c *fiber.Ctx) *app.Error {
	h := &c.Context().Request.Header
	host := string(h.Host())
	if !s.ownHost(host, peerAddr(c.Context().LocalAddr())) {
		return errHost
	}
	if origin := string(h.Peek(fiber.HeaderOrigin)); origin != "" && !sameOrigin(origin, host) {
		return errOrigin
	}
	switch string(h.Peek("Sec-Fetch-Site")) {
	case "", "same-origin", "none":
	default:
		return errOrigin
	}
	scheme, token, _ := strings.Cut(string(h.Peek(fiber.HeaderAuthorization)), " ")
	if !strings.EqualFold(scheme, "Bearer") || !s.node.CheckOperator(token) {
		return errToken
	}
	return nil
}

// ownHost reports whether a Host header names this node: a loopback address or
// localhost, the local address of the connection, or a configured name. A name may
// come with any port, for rebinding changes the name and cannot change it to one of
// these.
func (s *Server) ownHost(host string, local netip.Addr) bool {
	name, err := hostName(host)
	if err != nil {
		return false
	}
	if name == "localhost" {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil && (a.Unmap().IsLoopback() || a.Unmap() == local) {
		return true
	}
	for _, own := range s.cfg.Hosts {
		if strings.EqualFold(own, name) || strings.EqualFold(own, host) {
			return true
		}
	}
	return false
}

// hostName returns the name of a Host header in lower case, without port and
// brackets.
func hostName(host string) (string, error) {
	if host == "" || strings.TrimLeft(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]") != "" {
		return "", &net.AddrError{Err: "bad host", Addr: host}
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]")), nil
}

// sameOrigin reports whether an Origin header is of the host that the request was
// sent to. The scheme is the proxy's affair.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}
