package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
)

// A Transport carries one JSON-RPC call and returns the result, "null" included,
// or an error of this package's classes.
type Transport interface {
	Call(ctx context.Context, method string, params ...any) (json.RawMessage, error)
	Close()
}

// RedactURL is a URL fit for logs: scheme and host only, because user, path and
// query may all hold credentials.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(unreadable URL)"
	}
	redacted := u.Scheme + "://" + u.Host
	if u.User != nil || len(u.Path) > 1 || u.RawQuery != "" || u.Fragment != "" {
		redacted += "/…"
	}
	return redacted
}

type httpTransport struct {
	url       string
	client    *http.Client
	limits    *limits
	limit     int64         // bytes of one answer
	timeout   time.Duration // of one exchange of a batch
	lastID    atomic.Uint64
	batchSize atomic.Int32 // calls that the node takes in one exchange, as far as known
}

// newHTTP prepares calls to an http or https URL. It connects to nothing yet.
func newHTTP(raw string, o Options) (*httpTransport, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("chain: node URL is unreadable") // err would quote it
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("chain: node URL %s must be http:// or https://", RedactURL(raw))
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = 64 << 10
	t.MaxIdleConnsPerHost = o.InFlight // the default of 2 has the others dial anew for each exchange
	h := &httpTransport{
		url:     u.String(),
		limits:  newLimits(o),
		limit:   o.MaxResponseBytes,
		timeout: o.Timeout,
		client: &http.Client{
			Transport: t,
			// A redirect could carry the call, and credentials, anywhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	h.batchSize.Store(int32(o.BatchSize))
	return h, nil
}

func (t *httpTransport) Close() { t.client.CloseIdleConnections() }

type request struct {
	Version string `json:"jsonrpc"`
	ID      uint64 `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

func (t *httpTransport) Call(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	if params == nil {
		params = []any{}
	}
	id := t.lastID.Add(1)
	body, err := json.Marshal(request{"2.0", id, method, params})
	if err != nil {
		return nil, fmt.Errorf("chain: %s: %w", method, err)
	}
	status, header, answer, err := t.post(ctx, method, body)
	if err != nil {
		return nil, err
	}
	return parseAnswer(method, id, status, header.Get("Retry-After"), answer)
}

// errAnswerTooLong marks an answer beyond the limit, so that a batch can be cut.
var errAnswerTooLong = errors.New("answer is too long")

// post sends one body within the host's limits; its error is a CallError.
func (t *httpTransport) post(ctx context.Context, method string, body []byte) (status int, header http.Header, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, &CallError{Method: method, Kind: ErrUnavailable, Message: "request could not be made"}
	}
	if err := t.limits.enter(ctx); err != nil {
		return 0, nil, nil, unreached(method, err)
	}
	defer t.limits.leave()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := t.client.Do(req)
	if err != nil {
		return 0, nil, nil, unreached(method, err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, t.limit+1))
	if err != nil {
		return 0, nil, nil, unreached(method, err)
	}
	if int64(len(answer)) > t.limit {
		return 0, nil, nil, &CallError{Method: method, Kind: ErrMalformed, Reason: errAnswerTooLong, Message: fmt.Sprintf("more than %d bytes", t.limit)}
	}
	return res.StatusCode, res.Header, answer, nil
}

// parseAnswer reads an HTTP answer. A valid JSON-RPC error counts more than the
// status: some nodes send one with 400 or 500.
func parseAnswer(method string, id uint64, status int, retryAfter string, body []byte) (json.RawMessage, error) {
	result, err := parseEnvelope(method, id, body)
	return judge(method, status, retryAfter, result, err)
}

// judge weighs what an envelope says against the HTTP status that it came with.
func judge(method string, status int, retryAfter string, result json.RawMessage, err error) (json.RawMessage, error) {
	var call *CallError
	switch {
	case status == http.StatusTooManyRequests:
		return nil, &CallError{Method: method, Kind: ErrRateLimited, RetryAfter: parseRetryAfter(retryAfter), Message: "status 429"}
	case errors.As(err, &call) && call.Kind == ErrRateLimited:
		call.RetryAfter = parseRetryAfter(retryAfter)
		return nil, err
	case status == http.StatusOK, errors.As(err, &call) && call.Kind != ErrMalformed:
		return result, err
	}
	return nil, &CallError{Method: method, Kind: ErrUnavailable, Message: fmt.Sprintf("status %d", status), RetryAfter: parseRetryAfter(retryAfter)}
}

// parseEnvelope reads a JSON-RPC answer to the call with the given id.
func parseEnvelope(method string, id uint64, body []byte) (json.RawMessage, error) {
	answer, ok := openEnvelope(body)
	if !ok {
		return nil, malformed(method, "not JSON-RPC: %s", quote(string(body)))
	}
	return answer.open(method, id)
}

// open is the result for the call with the given id, or the error.
func (e envelope) open(method string, id uint64) (json.RawMessage, error) {
	switch sameID := string(e.id) == strconv.FormatUint(id, 10); {
	case string(e.version) != `"2.0"`:
		return nil, malformed(method, "JSON-RPC version is %s", quote(string(e.version)))
	case e.fault != nil && (sameID || string(e.id) == "null" || e.id == nil): // limits are often told without the id
		return nil, refusal(method, e.fault.Code, e.fault.Message, revertData(e.fault.Data))
	case !sameID:
		return nil, malformed(method, "answer to call %s, want %d", quote(string(e.id)), id)
	case e.fault != nil || e.result == nil:
		return nil, malformed(method, "neither result nor error")
	}
	return e.result, nil
}

// maxRetryAfter bounds what a node can make us wait.
const maxRetryAfter = time.Hour

// parseRetryAfter reads a number of seconds, the form that nodes use; anything
// else counts as not said.
func parseRetryAfter(v string) time.Duration {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter)
}

// connectionFault describes a failed connection without the URL.
func connectionFault(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "host name not found"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "connection broke"
	}
	return "connection failed"
}

// inProc is the transport to a node in this process, such as the dev chain. The
// client belongs to the node, which closes it.
type inProc struct{ client *rpc.Client }

func (inProc) Close() {}

func (t inProc) Call(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	var result json.RawMessage
	err := t.client.CallContext(ctx, &result, method, params...)
	var refused rpc.Error
	switch {
	case err == nil && result == nil:
		return json.RawMessage("null"), nil
	case err == nil:
		return result, nil
	case errors.As(err, &refused):
		var data []byte
		var withData rpc.DataError
		if errors.As(err, &withData) {
			data = revertData(withData.ErrorData())
		}
		return nil, refusal(method, refused.ErrorCode(), refused.Error(), data)
	}
	return nil, unreached(method, err)
}
