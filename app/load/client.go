package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Get reads one JSON document from the node into out, where out is not nil. The
// status is no error.
func (c *Child) Get(ctx context.Context, path string, out any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return 0, err
	}
	status, body, err := do(req)
	if err == nil && out != nil && status == http.StatusOK {
		err = json.Unmarshal(body, out)
	}
	return status, err
}

// Raw reads one document from the node as it is. The status is no error.
func (c *Child) Raw(ctx context.Context, path string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return 0, nil, err
	}
	return do(req)
}

// Post sends one JSON body, with the operator's token unless it is empty. The
// status is no error.
func (c *Child) Post(ctx context.Context, path string, body []byte, token string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return do(req)
}

func do(req *http.Request) (int, []byte, error) {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return res.StatusCode, body, fmt.Errorf("%s %s: %w", req.Method, req.URL.Path, err)
	}
	return res.StatusCode, body, nil
}
