package web

import (
	"net"
	"strings"
	"testing"
)

func netAddr(s string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		panic(err)
	}
	return a
}

func TestAdminGuard(t *testing.T) {
	node := echoNode()
	addr := start(t, node, Config{Hosts: []string{"node.example"}})
	const token = "Authorization: Bearer " + operatorToken + "\r\n"
	const json = "Content-Type: application/json\r\n"
	for _, tt := range []struct {
		name, host, headers string
		status              int
	}{
		{"good", "127.0.0.1:8080", token + json, 200},
		{"localhost", "localhost", token + json, 200},
		{"localhost and a port", "LOCALHOST:1", token + json, 200},
		{"loopback of version 6", "[::1]:8080", token + json, 200},
		{"configured name", "node.example", token + json, 200},
		{"own origin", "node.example", token + json + "Origin: https://node.example\r\n", 200},
		{"no token", "localhost", json, 401},
		{"scheme in lower case", "localhost", json + "Authorization: bearer " + operatorToken + "\r\n", 200},
		{"wrong token", "localhost", json + "Authorization: Bearer wrong\r\n", 401},
		{"empty token", "localhost", json + "Authorization: Bearer \r\n", 401},
		{"another scheme", "localhost", json + "Authorization: Basic " + operatorToken + "\r\n", 401},
		{"rebound name", "evil.example:8080", token + json, 403},
		{"name that begins right", "localhost.evil.example", token + json, 403},
		{"name that ends right", "evil-localhost", token + json, 403},
		{"address of another", "192.0.2.1:8080", token + json, 403},
		{"user in host", "localhost@evil.example", token + json, 403},
		{"empty host", "", token + json, 403},
		{"other origin", "localhost", token + json + "Origin: http://evil.example\r\n", 403},
		{"null origin", "localhost", token + json + "Origin: null\r\n", 403},
		{"origin of another port", "localhost:8080", token + json + "Origin: http://localhost:9090\r\n", 403},
		{"other site", "localhost", token + json + "Sec-Fetch-Site: cross-site\r\n", 403},
		{"same site is not same origin", "localhost", token + json + "Sec-Fetch-Site: same-site\r\n", 403},
		{"form", "localhost", token + "Content-Type: application/x-www-form-urlencoded\r\n", 415},
		{"no type", "localhost", token, 415},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := node.anchors.Load()
			r := exchange(t, addr, "POST /v1/admin/anchor HTTP/1.1\r\nHost: "+tt.host+"\r\n"+tt.headers+"Content-Length: 0\r\n\r\n")
			if r.StatusCode != tt.status {
				t.Errorf("status %d, want %d", r.StatusCode, tt.status)
			}
			if ran := node.anchors.Load() > before; ran != (tt.status == 200) {
				t.Errorf("ran: %v", ran)
			}
			if r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("admin answers must not be open to other origins")
			}
		})
	}
	if r := exchange(t, addr, "POST /v1/admin/anchor HTTP/1.1\r\nHost: localhost\r\n"+token+json+"Content-Length: 7\r\n\r\n{\"a\":1}"); r.StatusCode != 400 {
		t.Errorf("a body that says something: status %d", r.StatusCode)
	}
}

func TestCORS(t *testing.T) {
	addr := start(t, echoNode(), Config{SDK: sdkFiles()})
	for _, tt := range []struct {
		raw  string
		open bool
	}{
		{"GET /v1/flight/agents", true},
		{"GET /v1/flight/agents/0x", true}, // errors too
		{"GET /v1/nope", true},
		{"POST /v1/flight/batches", true},
		{"OPTIONS /v1/flight/batches", true},
		{"GET /sdk/karatum-flight.mjs", true},
		{"POST /v1/admin/anchor", false},
		{"OPTIONS /v1/admin/anchor", false},
		{"GET /about", false},
		{"GET /metrics", false},
	} {
		r := exchange(t, addr, tt.raw+" HTTP/1.1\r\nHost: x\r\nOrigin: http://other.example\r\n\r\n")
		if got := r.Header.Get("Access-Control-Allow-Origin"); (got == "*") != tt.open {
			t.Errorf("%s: Access-Control-Allow-Origin %q", tt.raw, got)
		}
		if r.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s allows credentials", tt.raw)
		}
		if strings.HasPrefix(tt.raw, "OPTIONS") && tt.open && (r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Methods") != "POST") {
			t.Errorf("%s: status %d, methods %q", tt.raw, r.StatusCode, r.Header.Get("Access-Control-Allow-Methods"))
		}
	}
}
