package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"karatum/chain"
	"karatum/flight"
)

// DemoNode is the running node that a demo talks to, as a stranger would: over
// HTTP only, with the operator's token for the one admin call.
type DemoNode struct {
	URL      string // of the API and the pages
	ChainURL string // of the dev chain's JSON-RPC
	Token    string // the operator's
	Dir      string // where the agent keeps its journal and the demo its files
}

// A DemoResult is what a demo came to. Its JSON is a documented promise.
type DemoResult struct {
	OK      bool           `json:"ok"`
	URL     string         `json:"url"`
	Chain   string         `json:"chainUrl"`
	Agent   flight.Address `json:"agent"`
	Stream  string         `json:"stream"`
	Batches []flight.Hash  `json:"batches"`
	Epoch   flight.Hash    `json:"epochRoot"`
	Files   []string       `json:"files"`
	Checks  []DemoCheck    `json:"checks"`
	Millis  int64          `json:"milliseconds"`
}

// A DemoCheck is one expectation of the story.
type DemoCheck struct {
	Act  string `json:"act"`
	What string `json:"what"`
	OK   bool   `json:"ok"`
}

// demo is one telling of the story.
type demo struct {
	node  DemoNode
	out   io.Writer
	http  *http.Client
	chain *chain.Client
	agent demoAgent
	act   string
	res   DemoResult
}

// Demo plays the story on a node and prints it to out as it happens: an agent
// records steps and sends real transactions; the node takes the batches in and
// anchors them; a step is opened and confirmed, a lie contradicted, a missing
// transaction unverifiable; a second history is caught; everything is verified
// offline, and a tampered copy refused. Whatever turns out otherwise is printed
// as FAIL and makes the result not OK. The error reports a story that could not
// go on.
func Demo(ctx context.Context, n DemoNode, out io.Writer) (*DemoResult, error) {
	start := time.Now()
	c, err := chain.Dial(ctx, n.ChainURL, chain.Options{})
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer c.Close()
	d := &demo{node: n, out: out, http: &http.Client{Timeout: 15 * time.Second}, chain: c, res: DemoResult{URL: n.URL, Chain: n.ChainURL, Files: []string{}}}
	defer d.http.CloseIdleConnections()
	defer d.agent.close()
	for _, act := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"An agent gets a key and some test money", d.hire},
		{"It works, and records what it did", d.work},
		{"The node takes the signed batches in", d.deliver},
		{"The node anchors them on the chain", d.anchor},
		{"The agent opens three steps; the chain has the last word", d.disclose},
		{"A forger rewrites history", d.forge},
		{"You check everything yourself, offline", d.verify},
	} {
		d.act = act.title
		d.say("\n%s", act.title)
		if err := act.play(ctx); err != nil {
			return nil, fmt.Errorf("demo: %s: %w", act.title, err)
		}
	}
	d.finish(time.Since(start))
	return &d.res, nil
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

// expect prints and keeps an expectation.
func (d *demo) expect(ok bool, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	d.res.Checks = append(d.res.Checks, DemoCheck{d.act, what, ok})
	mark := "ok  "
	if !ok {
		mark = "FAIL"
	}
	d.say("  %s  %s", mark, what)
}

func (d *demo) finish(took time.Duration) {
	d.res.OK, d.res.Millis = true, took.Milliseconds()
	good := 0
	for _, c := range d.res.Checks {
		if c.OK {
			good++
		}
	}
	d.res.OK = good == len(d.res.Checks)
	d.say("\nThe story took %.1f s. %d passed, %d failed", took.Seconds(), good, len(d.res.Checks)-good)
}

// call sends one request to the node and reads a JSON answer into out, where out
// is not nil. body is nil for GET.
func (d *demo) call(ctx context.Context, path string, body []byte, out any) (status int, raw []byte, err error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, d.node.URL+path, bodyReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+d.node.Token)
	}
	res, err := d.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, 2*flight.MaxDisclosureBytes))
	if err != nil {
		return res.StatusCode, raw, err
	}
	if out != nil && res.StatusCode < 300 {
		if err := json.Unmarshal(raw, out); err != nil {
			return res.StatusCode, raw, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	return res.StatusCode, raw, nil
}

// want is call for an answer that must be a success.
func (d *demo) want(ctx context.Context, path string, body []byte, out any) ([]byte, error) {
	status, raw, err := d.call(ctx, path, body, out)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s answers %d: %s", path, status, raw)
	}
	return raw, err
}
