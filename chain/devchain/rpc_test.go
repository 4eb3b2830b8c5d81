package devchain

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

func TestRPCHygiene(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	// A body is sent once the server has asked for it: a server that refuses by the
	// headers closes the connection, which a client in the middle of a body may see
	// before the answer.
	patient := http.DefaultTransport.(*http.Transport).Clone()
	patient.ExpectContinueTimeout = time.Hour
	t.Cleanup(patient.CloseIdleConnections)
	post := func(body, host, contentType string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "POST", c.URL(), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Expect", "100-continue")
		res, err := (&http.Client{Transport: patient}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	const chainID = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`
	for _, tt := range []struct {
		name, body, host, contentType string
		want                          int
	}{
		{"plain call", chainID, "127.0.0.1", "application/json", 200},
		{"localhost", chainID, "localhost", "application/json", 200},
		{"rebound name", chainID, "evil.example", "application/json", 403},
		{"form from a page", chainID, "127.0.0.1", "text/plain", 415},
		{"oversized", strings.Repeat(" ", bodyLimit+1), "127.0.0.1", "application/json", 413},
	} {
		if res := post(tt.body, tt.host, tt.contentType); res.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, res.StatusCode, tt.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	remote, err := rpc.DialContext(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	modules, err := remote.SupportedModules()
	if err != nil {
		t.Fatal(err)
	}
	for name := range modules {
		if !strings.Contains(" eth evm net rpc txpool web3 ", " "+name+" ") {
			t.Errorf("namespace %s is served", name)
		}
	}
}

// Heads are told over WebSocket, but not to a page of another site.
func TestWebSocket(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	ws, err := rpc.DialContext(t.Context(), strings.Replace(c.URL(), "http://", "ws://", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	heads := make(chan *types.Header, 1)
	sub, err := ws.EthSubscribe(t.Context(), heads, "newHeads")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := c.Mine(); err != nil {
		t.Fatal(err)
	}
	if h := <-heads; h.Number.Uint64() != 1 {
		t.Errorf("first head over WebSocket is %d", h.Number)
	}
	if _, err := rpc.DialWebsocket(t.Context(), strings.Replace(c.URL(), "http://", "ws://", 1), "http://evil.example"); err == nil {
		t.Error("a WebSocket from a foreign origin was accepted")
	}
}

// Pages of this machine may ask; those of other sites may not.
func TestOrigins(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	for origin, allowed := range map[string]string{
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "http://localhost:1": "http://localhost:1",
		"https://evil.example": "", "http://localhost.evil.example": "", "null": "",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Origin", origin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != allowed {
			t.Errorf("a page of %s is allowed %q, want %q", origin, got, allowed)
		}
	}
}

func TestUnlockedAccounts(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	if got := call[[]common.Address](t, c, "eth_accounts"); len(got) != 10 || got[3] != c.Accounts()[3].Address {
		t.Errorf("eth_accounts = %v", got)
	}
	hash := call[common.Hash](t, c, "eth_sendTransaction", map[string]any{
		"from": c.Accounts()[3].Address, "to": c.Accounts()[4].Address, "value": "0x1",
	})
	if r := receipt(t, c.Client(), hash); r.Status != 1 {
		t.Errorf("status %d", r.Status)
	}
	var ignored any
	err := c.Client().Call(&ignored, "eth_sendTransaction", map[string]any{"from": common.Address{1}, "to": common.Address{2}})
	if err == nil {
		t.Error("a transaction of a foreign account was signed")
	}
}

// Other machines get no control over the chain and its clock.
func TestRemoteHasNoEVMNamespace(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Listen, o.AllowRemote = "0.0.0.0:0", true
	c := openTest(t, o)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	remote, err := rpc.DialContext(t.Context(), "http://127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	modules, err := remote.SupportedModules()
	if err != nil || modules["eth"] == "" || modules["evm"] != "" {
		t.Errorf("modules %v, %v", modules, err)
	}
	if err := c.Mine(); err != nil {
		t.Error(err)
	}
}

func TestIPv6Loopback(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 loopback here: enable it to run this test")
	}
	l.Close()
	o := testOptions(t.TempDir())
	o.Listen = "[::1]:0"
	c := openTest(t, o)
	remote, err := rpc.DialContext(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	var id hexutil.Uint64
	if err := remote.Call(&id, "eth_chainId"); err != nil || id != ChainID {
		t.Errorf("chain id %d over %s: %v", id, c.URL(), err)
	}
}
