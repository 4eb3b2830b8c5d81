package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"karatum/app"
	"karatum/chain/replay"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
	"karatum/store"
	"karatum/testvectors"
	"karatum/web"
	"karatum/web/sdk"
)

// hostile is text that tries to break a page.
const hostile = `</script><img src=x onerror=alert(1)> ` + "\u202eתמיד\u202c"

// A node is a real one with the demo's data, and an agent of our own that signs
// with EIP-191 and is not anchored.
type node struct {
	url, chain string
	attester   string
	agent      string // of the demo
	stream     string
	ours       string // address of our agent's pages: /agents/0x…/stream
	token      string
	replayed   chan struct{} // one for each replay that ended
	cancel     context.CancelFunc
	closers    []func() error
}

// stop ends the node; once more is nothing.
func (n *node) stop() {
	n.cancel()
	for i := len(n.closers) - 1; i >= 0; i-- {
		if err := n.closers[i](); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: stop:", err)
		}
	}
	n.closers = nil
}

func startNode() (_ *node, err error) {
	n := &node{replayed: make(chan struct{}, 4)}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			n.stop()
		}
	}()
	dir, err := os.MkdirTemp("", "karatum-e2e-")
	if err != nil {
		return nil, err
	}
	n.closers = append(n.closers, func() error { return os.RemoveAll(dir) })
	if err := n.serve(ctx, filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	res, err := app.Demo(ctx, app.DemoNode{URL: n.url, ChainURL: n.chain, Token: n.token, Dir: dir}, io.Discard)
	if err != nil {
		return nil, err
	}
	n.agent, n.stream = res.Agent.String(), res.Stream
	return n, errors.Join(n.readAttester(res.Batches[0]), n.record(), n.replay(ctx))
}

// paid is a step of the demo with a claim that the chain confirms.
const paid = 2

// replay has the transaction of that step executed again.
func (n *node) replay(ctx context.Context) error {
	raw, err := n.get(fmt.Sprintf("/v1/flight/agents/%s/streams/%s/steps/%d", n.agent, url.PathEscape(n.stream), paid))
	if err != nil {
		return err
	}
	var v app.StepView
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if _, err := n.call(http.MethodPost, "/v1/flight/proofs/"+v.StepHash.String()+"/replay", nil); err != nil {
		return err
	}
	select {
	case <-n.replayed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve opens the node as main does.
func (n *node) serve(ctx context.Context, dir string) error {
	log := slog.New(slog.DiscardHandler)
	cfg := app.DefaultConfig()
	cfg.ChainListen, cfg.Data, cfg.AnchorCron, cfg.IPRate = "127.0.0.1:0", dir, "@every 24h", 0
	fresh, err := app.OpenDir(cfg.Data)
	if err != nil {
		return err
	}
	keys, err := app.LoadKeys(cfg.Data, fresh)
	if err != nil {
		return err
	}
	if n.token, err = app.OperatorToken(cfg.Data); err != nil {
		return err
	}
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Options{Dir: cfg.Data, Schema: string(schema), Now: time.Now, Logger: log, MustExist: !fresh, Seal: app.Sealer(keys)})
	if err != nil {
		return err
	}
	n.closers = append(n.closers, st.Close)
	chains, err := app.OpenChains(ctx, cfg, keys, log)
	if err != nil {
		return err
	}
	n.closers, n.chain = append(n.closers, chains.Close), chains.URL
	replayer, err := replay.New(replay.Options{})
	if err != nil {
		return err
	}
	a := app.New(cfg, app.Deps{
		Store: st, Keys: keys, Anchor: chains.Anchor, Chains: chains.ByID, Clients: chains.Clients, Replayer: replayer, Log: log, Now: time.Now, Version: "e2e",
		Checkpoint: func(step string) {
			if step == "replay ended" {
				n.replayed <- struct{}{}
			}
		},
	})
	srv, err := web.New(a, web.Config{SDK: sdk.Files, Vectors: testvectors.Files, Log: log})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.url = "http://" + ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()
	n.closers = append(n.closers, func() error { err := <-served; a.Wait(); return err })
	return nil
}

func (n *node) readAttester(batch flight.Hash) error {
	raw, err := n.get("/v1/flight/batches/" + batch.String() + "/proof")
	if err != nil {
		return err
	}
	var v app.BatchProofView
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	n.attester = v.Anchor.Attester.String()
	return nil
}

func (n *node) get(path string) ([]byte, error) { return n.call(http.MethodGet, path, nil) }

func (n *node) call(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, n.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, res.StatusCode, raw)
	}
	return raw, err
}

// record sends a batch of two steps and one of one step, signed as a wallet does,
// and opens their hostile args; of the last, nothing.
func (n *node) record() error {
	key, err := flight.NewKey()
	if err != nil {
		return err
	}
	stream := "ledger סוף"
	n.ours = "/agents/" + key.Address().String() + "/" + url.PathEscape(stream)
	var steps []flight.Step
	var args []flight.Opening
	for i := range 3 {
		o := flight.Opening{Field: "args", Salt: flight.Keccak256([]byte{byte(i)}), Value: canon.Str(hostile)}
		c, err := flight.CommitValue(o.Value, o.Salt)
		if err != nil {
			return err
		}
		s := flight.Step{Agent: key.Address(), Stream: stream, Seq: uint64(i), At: uint64(time.Now().UnixMilli()), Kind: "tool", Status: "ok", Name: hostile, Args: &c}
		if i > 0 {
			s.Prev = steps[i-1].Hash()
		}
		steps, args = append(steps, s), append(args, o)
	}
	for index, part := range [][2]int{{0, 2}, {2, 3}} {
		if err := n.send(key, uint64(index), steps[part[0]:part[1]], args[part[0]:part[1]]); err != nil {
			return err
		}
	}
	return nil
}

// send posts a batch and discloses its first step; the args are opened where it is
// the first of all.
func (n *node) send(key *flight.Key, index uint64, steps []flight.Step, args []flight.Opening) error {
	hashes := make([]flight.Hash, len(steps))
	for i, s := range steps {
		hashes[i] = s.Hash()
	}
	root, err := merkle.Root(hashes)
	if err != nil {
		return err
	}
	b := flight.Header{
		Agent: key.Address(), Stream: steps[0].Stream, Index: index, FromSeq: steps[0].Seq, ToSeq: steps[len(steps)-1].Seq,
		PrevHead: steps[0].Prev, Head: hashes[len(hashes)-1], Root: root, CreatedAt: uint64(time.Now().Unix()),
	}.Sign(key, flight.EIP191)
	var reveal []flight.Opening
	if index == 0 {
		reveal = args[:1]
	}
	d, err := flight.NewDisclosure(b, steps, 0, reveal...)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		path string
		body any
	}{{"/v1/flight/batches", b}, {"/v1/flight/proofs?publishReveals=1", d}} {
		raw, err := json.Marshal(p.body)
		if err != nil {
			return err
		}
		if _, err := n.call(http.MethodPost, p.path, raw); err != nil {
			return err
		}
	}
	return nil
}

// step is the page of a step of the demo.
func (n *node) step(seq int) string {
	return fmt.Sprintf("%s/agents/%s/%s/%d", n.url, n.agent, url.PathEscape(n.stream), seq)
}
