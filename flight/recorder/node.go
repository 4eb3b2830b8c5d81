package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"karatum/flight"
)

const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 8 << 20        // evidence of two disclosures is the largest
	maxRetryAfter  = 24 * time.Hour // the batch quota's window
)

// A node is the HTTP side of a Karatum node. Redirects are not followed: a signed
// statement goes where the operator pointed, or nowhere.
type node struct {
	base   string
	client http.Client
}

func newNode(base string, client *http.Client) (*node, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("recorder: node URL is %q; it must look like http://127.0.0.1:8080", base)
	}
	n := &node{base: strings.TrimRight(base, "/")}
	if client != nil {
		n.client = *client
	}
	n.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return n, nil
}

// A nodeHead is the last batch that the node has of a stream.
type nodeHead struct {
	Index   uint64      `json:"index"`
	ToSeq   uint64      `json:"toSeq"`
	Head    flight.Hash `json:"head"`
	BatchID flight.Hash `json:"batchId"`
}

// head asks for the stream's head; nil where the node has no batch of it.
func (n *node) head(ctx context.Context, agent flight.Address, stream string) (*nodeHead, error) {
	path := "/v1/flight/agents/" + agent.String() + "/streams/" + url.PathEscape(stream)
	raw, err := n.do(ctx, http.MethodGet, path, nil)
	var ne *NodeError
	if errors.As(err, &ne) && ne.Code == "UNKNOWN_STREAM" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Agent  flight.Address `json:"agent"`
		Stream string         `json:"stream"`
		Head   *nodeHead      `json:"head"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("recorder: %s answers like no node, is the URL right?: %w", n.base, err)
	}
	if doc.Agent != agent || doc.Stream != stream {
		return nil, fmt.Errorf("recorder: the node answers for stream %q of %s", doc.Stream, doc.Agent)
	}
	return doc.Head, nil
}

// send posts a signed batch and returns the receipt, which is checked.
func (n *node) send(ctx context.Context, body []byte, batchID flight.Hash) (*flight.Receipt, error) {
	raw, err := n.do(ctx, http.MethodPost, "/v1/flight/batches", body)
	if err != nil {
		return nil, err
	}
	r := new(flight.Receipt)
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("recorder: %s answers with no receipt, is the URL right?: %w", n.base, err)
	}
	if r.BatchID != batchID {
		return nil, fmt.Errorf("recorder: the node's receipt is for batch %s, not %s", r.BatchID, batchID)
	}
	if err := r.Verify(); err != nil {
		return nil, fmt.Errorf("recorder: the node's receipt: %w", err)
	}
	return r, nil
}

func (n *node) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := n.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("recorder: the node cannot be reached: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("recorder: %s %s: %w", method, path, err)
	}
	if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusCreated || res.StatusCode == http.StatusAccepted {
		return raw, nil
	}
	return nil, nodeError(n.base, res, raw)
}

func nodeError(base string, res *http.Response, raw []byte) error {
	var doc struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			Details struct {
				Evidence json.RawMessage `json:"evidence"`
			} `json:"details"`
		} `json:"error"`
	}
	e := &NodeError{URL: base, Status: res.StatusCode, RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	if json.Unmarshal(raw, &doc) != nil {
		return e
	}
	e.Code, e.Message = doc.Error.Code, doc.Error.Message
	if ev, err := flight.ParseEvidence(doc.Error.Details.Evidence); err == nil && ev.Verify() == nil {
		e.Evidence = ev
	}
	return e
}

// retryAfter reads a Retry-After header, in seconds or as a date, at most
// maxRetryAfter.
func retryAfter(s string, now time.Time) time.Duration {
	var d time.Duration
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		d = time.Duration(n) * time.Second
	} else if t, err := http.ParseTime(s); err == nil {
		d = t.Sub(now)
	}
	return min(max(d, 0), maxRetryAfter)
}
