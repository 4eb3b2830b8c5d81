package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// node answers every call with one status, header and body; ID in the body
// stands for the call's id.
func node(t *testing.T, status int, header http.Header, body string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ ID json.RawMessage }
		raw, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(raw, &call); err != nil || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("not a JSON-RPC call: %s", raw)
		}
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		io.WriteString(w, strings.ReplaceAll(body, "ID", string(call.ID)))
	}))
	t.Cleanup(s.Close)
	c, err := Dial(t.Context(), s.URL, Options{MaxResponseBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rpcError(code int, message string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":ID,"error":{"code":%d,"message":%q}}`, code, message)
}

func result(v string) string { return `{"jsonrpc":"2.0","id":ID,"result":` + v + `}` }

func TestErrorClasses(t *testing.T) {
	classes := []error{ErrUnavailable, ErrTimeout, ErrRateLimited, ErrMalformed, ErrNotFound, ErrIndexing, ErrPruned, ErrRPC}
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   error
		reason error
	}{
		{"null", 200, result("null"), ErrNotFound, nil},
		{"HTML", 200, "<html><body>Bad gateway</body></html>", ErrMalformed, nil},
		{"HTML with 502", 502, "<html></html>", ErrUnavailable, nil},
		{"empty", 200, "", ErrMalformed, nil},
		{"JSON but no answer", 200, `{}`, ErrMalformed, nil},
		{"array", 200, `[]`, ErrMalformed, nil},
		{"cut off", 200, `{"jsonrpc":"2.0","id":ID,"result":"0x`, ErrMalformed, nil},
		{"two values", 200, result(`"0x1"`) + result(`"0x1"`), ErrMalformed, nil},
		{"another id", 200, `{"jsonrpc":"2.0","id":ID0,"result":"0x1"}`, ErrMalformed, nil},
		{"id as text", 200, `{"jsonrpc":"2.0","id":"ID","result":"0x1"}`, ErrMalformed, nil},
		{"version 1", 200, `{"id":ID,"result":"0x1"}`, ErrMalformed, nil},
		{"too long", 200, result(`"0x` + strings.Repeat("0", 5000) + `"`), ErrMalformed, nil},
		{"number", 200, result(`1`), ErrMalformed, nil},
		{"no digits", 200, result(`"0x"`), ErrMalformed, nil},
		{"65 bits", 200, result(`"0x10000000000000000"`), ErrMalformed, nil},
		{"redirect", 302, "", ErrUnavailable, nil},
		{"unauthorized", 401, `{"error":"no key"}`, ErrUnavailable, nil},
		{"429", 429, "slow down", ErrRateLimited, nil},
		{"limit by code", 200, rpcError(-32005, "daily quota"), ErrRateLimited, nil},
		{"limit by words", 200, rpcError(-32000, "Too Many Requests"), ErrRateLimited, nil},
		{"limit without id", 200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"x"}}`, ErrRateLimited, nil},
		{"indexing", 200, rpcError(-32000, "transaction indexing is in progress"), ErrIndexing, nil},
		{"pruned state", 200, rpcError(-32000, "missing trie node 12ab (path )"), ErrPruned, nil},
		{"pruned block", 200, rpcError(4444, "pruned history unavailable"), ErrPruned, nil},
		{"refused with 400", 400, rpcError(-32602, "invalid argument"), ErrRPC, nil},
		{"reverted", 200, rpcError(3, "execution reverted"), ErrRPC, ErrReverted},
		{"nonce", 200, rpcError(-32000, "nonce too low: next nonce 5, tx nonce 4"), ErrRPC, ErrNonceTooLow},
		{"replacement", 200, rpcError(-32000, "replacement transaction underpriced"), ErrRPC, ErrUnderpriced},
		{"base fee", 200, rpcError(-32000, "max fee per gas less than block base fee"), ErrRPC, ErrUnderpriced},
		{"funds", 200, rpcError(-32000, "insufficient funds for gas * price + value"), ErrRPC, ErrInsufficientFunds},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := node(t, tt.status, http.Header{"Location": {"http://192.0.2.1/"}}, tt.body).ChainID(t.Context())
			for _, class := range classes {
				if errors.Is(err, class) != (class == tt.want) {
					t.Errorf("error %v, want class %v", err, tt.want)
				}
			}
			if tt.reason != nil && !errors.Is(err, tt.reason) {
				t.Errorf("error %v, want reason %v", err, tt.reason)
			}
			if len(err.Error()) > 400 {
				t.Errorf("error text has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "99999999": time.Hour, "-1": 0, "soon": 0, "99999999999999999999": 0,
	} {
		_, err := node(t, 429, http.Header{"Retry-After": {header}}, "").ChainID(t.Context())
		var call *CallError
		if !errors.As(err, &call) || call.RetryAfter != want {
			t.Errorf("Retry-After %q: %v, want %v", header, call, want)
		}
	}
}

func TestRevertData(t *testing.T) {
	for name, data := range map[string]string{"hex": `"0xbf37b20e"`, "nested": `{"data":"0xbf37b20e"}`} {
		body := `{"jsonrpc":"2.0","id":ID,"error":{"code":3,"message":"execution reverted","data":` + data + `}}`
		_, err := node(t, 200, nil, body).CallContract(t.Context(), Call{}, Latest)
		var call *CallError
		if !errors.As(err, &call) || !errors.Is(err, ErrReverted) || common.Bytes2Hex(call.Data) != "bf37b20e" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server notices a closed connection only after the body
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	hurried, err1 := Dial(t.Context(), s.URL, Options{Timeout: time.Millisecond})
	c, err2 := Dial(t.Context(), s.URL, Options{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := hurried.ChainID(t.Context()); !errors.Is(err, ErrTimeout) {
		t.Errorf("silent node: %v, want ErrTimeout", err)
	}
	cause := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := c.ChainID(ctx); !errors.Is(err, cause) || errors.Is(err, ErrUnavailable) {
		t.Errorf("cancelled: %v, want the cause alone", err)
	}
	s.Close()
	if _, err := c.ChainID(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("stopped node: %v, want ErrUnavailable", err)
	}
}

func TestURLsStaySecret(t *testing.T) {
	const secret = "s3cr3t"
	for _, tt := range []struct{ url, want string }{
		{"https://user:" + secret + "@node.example/v2/" + secret + "?key=" + secret, "https://node.example/…"},
		{"http://127.0.0.1:8545", "http://127.0.0.1:8545"},
		{"http://127.0.0.1:8545/", "http://127.0.0.1:8545"},
		{"://" + secret, "(unreadable URL)"},
		{secret, "(unreadable URL)"},
	} {
		if got := RedactURL(tt.url); got != tt.want {
			t.Errorf("RedactURL(%s) = %s, want %s", tt.url, got, tt.want)
		}
	}
	for _, url := range []string{
		"ftp://" + secret + "@127.0.0.1/" + secret, "http://[" + secret, secret, "http://:80\x00" + secret,
	} {
		if _, err := Dial(t.Context(), url, Options{}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("Dial(%q) = %v", url, err)
		}
	}
	// Nothing listens on port 1.
	c, err := Dial(t.Context(), "http://user:"+secret+"@127.0.0.1:1/"+secret, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ChainID(t.Context()); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), secret) {
		t.Errorf("refused connection: %v", err)
	}
}

func TestDialChecksChain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"0x1"}`)
	}))
	t.Cleanup(s.Close)
	if _, err := Dial(t.Context(), s.URL, Options{ChainID: 1}); err != nil {
		t.Error(err)
	}
	if _, err := Dial(t.Context(), s.URL, Options{ChainID: 84532}); !errors.Is(err, ErrWrongChain) {
		t.Errorf("Dial = %v, want ErrWrongChain", err)
	}
}

const (
	someHash  = "0x1111111111111111111111111111111111111111111111111111111111111111"
	otherHash = "0x2222222222222222222222222222222222222222222222222222222222222222"
	someAddr  = "0x4200000000000000000000000000000000000021"
)

// depositTx is what an OP-stack node sends: a type of its own, members that no
// Ethereum transaction has, and no signature to speak of.
const depositTx = `{"blockHash":"` + otherHash + `","blockNumber":"0x10","from":"` + someAddr + `","gas":"0xf4240","gasPrice":"0x0",
"hash":"` + someHash + `","input":"0x098999be","nonce":"0x0f","to":"` + someAddr + `","transactionIndex":"0x0","value":"0x0","type":"0x7e",
"v":"0x0","r":"0x0","s":"0x0","sourceHash":"` + otherHash + `","mint":"0x0","depositReceiptVersion":"0x1"}`

const goodReceipt = `{"blockHash":"` + otherHash + `","blockNumber":"0x10","contractAddress":null,"effectiveGasPrice":"0x1","from":"` + someAddr + `",
"gasUsed":"0x5208","l1Fee":"0x7","logs":[{"address":"` + someAddr + `","topics":["` + someHash + `"],"data":"0x01","logIndex":"0x3",
"transactionHash":"` + someHash + `","blockHash":"` + otherHash + `","blockNumber":"0x10","removed":false}],"status":"0x1","to":"` + someAddr + `",
"transactionHash":"` + someHash + `","transactionIndex":"0x2","type":"0x7e"}`

func TestTransactionByHash(t *testing.T) {
	hash := common.HexToHash(someHash)
	tx, err := node(t, 200, nil, result(depositTx)).TransactionByHash(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if tx.Type != 0x7e || !tx.Mined || tx.BlockNumber != 16 || tx.Nonce != 15 || tx.To.Hex() != someAddr || len(tx.Input) != 4 || tx.Value.Sign() != 0 {
		t.Errorf("deposit = %+v", tx)
	}
	for _, tt := range []struct{ name, old, new string }{
		{"another hash", `"hash":"` + someHash, `"hash":"` + otherHash},
		{"no sender", `"from":"` + someAddr + `",`, ``},
		{"short address", `"to":"` + someAddr, `"to":"0x42`},
		{"odd input", `"input":"0x098999be"`, `"input":"0x098"`},
		{"no input", `"input":"0x098999be",`, ``},
		{"value of 257 bits", `"value":"0x0"`, `"value":"0x1` + strings.Repeat("0", 64) + `"`},
		{"negative value", `"value":"0x0"`, `"value":"0x-1"`},
		{"no value", `"value":"0x0",`, ``},
		{"block without number", `"blockNumber":"0x10",`, ``},
	} {
		body := strings.Replace(depositTx, tt.old, tt.new, 1)
		if tx, err := node(t, 200, nil, result(body)).TransactionByHash(t.Context(), hash); body == depositTx || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", tt.name, tx, err)
		}
	}
	pending := strings.NewReplacer(`"blockHash":"`+otherHash+`","blockNumber":"0x10"`, `"blockHash":null,"blockNumber":null`,
		`"transactionIndex":"0x0"`, `"transactionIndex":null`, `"type":"0x7e"`, `"type":"0x2"`).Replace(depositTx)
	if tx, err := node(t, 200, nil, result(pending)).TransactionByHash(t.Context(), hash); err != nil || tx.Mined {
		t.Errorf("pending: %+v, %v", tx, err)
	}
}

func TestTransactionReceipt(t *testing.T) {
	hash := common.HexToHash(someHash)
	r, err := node(t, 200, nil, result(goodReceipt)).TransactionReceipt(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != 1 || r.GasUsed != 21000 || r.L1Fee.Int64() != 7 || len(r.Logs) != 1 || r.Logs[0].Index != 3 || r.ContractAddress != nil {
		t.Errorf("receipt = %+v", r)
	}
	for _, tt := range []struct{ name, old, new string }{
		{"status 2", `"status":"0x1"`, `"status":"0x2"`},
		{"no status", `"status":"0x1",`, ``},
		{"null logs", `"logs":[`, `"logs":null,"x":[`},
		{"log of another transaction", `"data":"0x01","logIndex":"0x3",` + "\n" + `"transactionHash":"` + someHash, `"data":"0x01","logIndex":"0x3","transactionHash":"` + otherHash},
		{"log of another block", `"` + someHash + `","blockHash":"` + otherHash, `"` + someHash + `","blockHash":"` + someHash},
		{"log with another number", `"blockNumber":"0x10","removed"`, `"blockNumber":"0x11","removed"`},
		{"five topics", `"topics":["` + someHash + `"]`, `"topics":["` + strings.Repeat(someHash+`","`, 4) + someHash + `"]`},
		{"log without address", `[{"address":"` + someAddr + `",`, `[{`},
		{"another transaction", `"transactionHash":"` + someHash + `","transactionIndex"`, `"transactionHash":"` + otherHash + `","transactionIndex"`},
	} {
		body := strings.Replace(goodReceipt, tt.old, tt.new, 1)
		if r, err := node(t, 200, nil, result(body)).TransactionReceipt(t.Context(), hash); body == goodReceipt || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", tt.name, r, err)
		}
	}
}

func TestHeadersMatchTheQuestion(t *testing.T) {
	header := result(`{"number":"0x10","hash":"` + someHash + `","parentHash":"` + otherHash + `","stateRoot":"` + otherHash + `","timestamp":"0x64"}`)
	c := node(t, 200, nil, header)
	if h, err := c.HeaderByNumber(t.Context(), 16); err != nil || h.Time != 100 || h.BaseFee != nil {
		t.Errorf("HeaderByNumber = %+v, %v", h, err)
	}
	if _, err := c.HeaderByNumber(t.Context(), 17); !errors.Is(err, ErrMalformed) {
		t.Errorf("block 16 for 17: %v", err)
	}
	if _, err := c.HeaderByHash(t.Context(), common.HexToHash(otherHash)); !errors.Is(err, ErrMalformed) {
		t.Errorf("another block's header: %v", err)
	}
	if _, err := c.SuggestFees(t.Context()); !errors.Is(err, ErrMalformed) {
		t.Errorf("fees without a base fee: %v", err)
	}
}

func TestSendRawTransaction(t *testing.T) {
	for _, message := range []string{"already known", "ALREADY KNOWN", "known transaction: 12ab", "transaction already imported"} {
		if known, err := node(t, 200, nil, rpcError(-32000, message)).SendRawTransaction(t.Context(), []byte{1}); err != nil || !known {
			t.Errorf("%s: %v, %v; want known", message, known, err)
		}
	}
	if _, err := node(t, 200, nil, result(`"`+someHash+`"`)).SendRawTransaction(t.Context(), []byte{1}); !errors.Is(err, ErrMalformed) {
		t.Errorf("another hash: %v, want ErrMalformed", err)
	}
	if known, err := node(t, 200, nil, rpcError(-32000, "nonce too low")).SendRawTransaction(t.Context(), []byte{1}); known || !errors.Is(err, ErrNonceTooLow) {
		t.Errorf("nonce too low: %v, %v", known, err)
	}
}

func TestFees(t *testing.T) {
	f := Fees{Cap: big.NewInt(100), Tip: new(big.Int)}
	if b := f.Bump(); b.Cap.Int64() != 113 || b.Tip.Int64() != 1 {
		t.Errorf("Bump = %v; want 113 and 1", b)
	}
	if m := f.Max(Fees{big.NewInt(3), big.NewInt(3)}); m.Cap.Int64() != 100 || m.Tip.Int64() != 3 {
		t.Errorf("Max = %v", m)
	}
	if err := f.Limit(big.NewInt(99)); !errors.Is(err, ErrFeeLimit) {
		t.Errorf("Limit(99) = %v", err)
	}
	if err := f.Limit(big.NewInt(100)); err != nil {
		t.Errorf("Limit(100) = %v", err)
	}
}

func FuzzAnswers(f *testing.F) {
	for _, body := range []string{depositTx, goodReceipt, `"0x1"`, `null`} {
		f.Add([]byte(strings.ReplaceAll(result(body), "ID", "1")))
	}
	f.Add([]byte(strings.ReplaceAll(rpcError(3, "x"), "ID", "1")))
	f.Fuzz(func(t *testing.T, body []byte) {
		raw, err := parseAnswer("m", 1, 200, "", body)
		if (raw == nil) == (err == nil) {
			t.Fatalf("result %s with error %v", raw, err)
		}
		if err != nil {
			var call *CallError
			if !errors.As(err, &call) {
				t.Fatalf("%v is no CallError", err)
			}
			return
		}
		if tx, err := decodeTx(raw); err == nil && (tx.Value == nil || tx.Value.BitLen() > 256) {
			t.Fatalf("accepted %+v", tx)
		}
		if r, err := decodeReceipt(raw); err == nil {
			if r.Status > 1 {
				t.Fatalf("accepted status %d", r.Status)
			}
			for _, l := range r.Logs {
				if len(l.Topics) > 4 {
					t.Fatalf("accepted %d topics", len(l.Topics))
				}
			}
		}
		if h, err := decodeHeader(raw); err == nil && h.BaseFee != nil && h.BaseFee.BitLen() > 256 {
			t.Fatalf("accepted %+v", h)
		}
	})
}
