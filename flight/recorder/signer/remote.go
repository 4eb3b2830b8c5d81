package signer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"karatum/flight"
	"karatum/flight/recorder"
)

const (
	approvalTimeout = 10 * time.Minute // a person may have to say yes
	maxReply        = 1 << 20
	methodNotFound  = -32601
)

// An RPCError is the wallet's refusal.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("wallet: %s (%d)", e.Message, e.Code) }

// Remote returns a signer that asks a wallet over JSON-RPC: eth_signTypedData_v4
// for eip712 and personal_sign for eip191, or Clef's account_signTypedData and
// account_signData where the wallet has no such method. client may be nil. The
// wallet sees the header and the stream's name, nothing else of the record.
func Remote(walletURL string, agent flight.Address, client *http.Client) (recorder.Signer, error) {
	u, err := url.Parse(walletURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("signer: the wallet's URL is not http(s)://host") // it may hold a secret: not echoed
	}
	r := &remote{url: walletURL, agent: agent}
	if client != nil {
		r.client = *client
	}
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return r, nil
}

type remote struct {
	url    string
	agent  flight.Address
	client http.Client
}

// Address returns the account that the wallet is asked to sign with.
func (r *remote) Address() flight.Address { return r.agent }

// Sign asks the wallet and waits for its answer. The error may be an [*RPCError].
func (r *remote) Sign(ctx context.Context, h flight.Header, s flight.Scheme) (flight.Signature, error) {
	ctx, cancel := context.WithTimeout(ctx, approvalTimeout)
	defer cancel()
	type request struct {
		method string
		params []any
	}
	text := fmt.Sprintf("0x%x", h.Text())
	requests := []request{{"personal_sign", []any{text, r.agent}}, {"account_signData", []any{"text/plain", r.agent, text}}}
	if s == flight.EIP712 {
		doc := newTypedData(&h)
		requests = []request{{"eth_signTypedData_v4", []any{r.agent, doc}}, {"account_signTypedData", []any{r.agent, doc}}}
	}
	var err error
	for _, q := range requests {
		var sig flight.Signature
		sig, err = r.call(ctx, q.method, q.params)
		var rpc *RPCError
		if !errors.As(err, &rpc) || rpc.Code != methodNotFound {
			return sig, err
		}
	}
	return flight.Signature{}, err
}

func (r *remote) call(ctx context.Context, method string, params []any) (sig flight.Signature, err error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return sig, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return sig, errors.New("signer: bad wallet URL")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL, which may hold a secret
		}
		return sig, fmt.Errorf("signer: %s: %w", method, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return sig, fmt.Errorf("signer: %s: %w", method, err)
	}
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	switch err := json.Unmarshal(raw, &reply); {
	case err != nil:
		return sig, fmt.Errorf("signer: %s: the wallet answers %d without JSON-RPC", method, res.StatusCode)
	case reply.Error != nil:
		return sig, fmt.Errorf("signer: %s: %w", method, reply.Error)
	}
	if err := json.Unmarshal(bytes.ToLower(reply.Result), &sig); err != nil {
		return sig, fmt.Errorf("signer: %s: %w", method, err)
	}
	return sig, nil
}
