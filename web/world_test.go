package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spf13/pflag"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
	"karatum/store"
)

// Names that try to break a page: markup, and letters that read from right to
// left beside a control that turns text around.
const (
	hostileStream = `"><script>alert(1)<b> ?#%2f&+;: سلام`
	hostileName   = "<img src=x onerror=alert(1)>\u202e\u0007"
)

// A world is a real node on a dev chain behind a server, with one agent's history
// in it: two batches, a gap, a fork, and two disclosed steps.
type world struct {
	t     testing.TB
	app   *app.App
	url   string // with the base path
	token string

	key    *flight.Key
	stream string
	steps  []flight.Step
	hidden []flight.Opening // of steps[i], its args
	batch  []flight.Batch
}

// newNode opens a real node in a directory of its own.
func newNode(t testing.TB) (*app.App, string) {
	t.Helper()
	return openNode(t, func(*app.Deps) {})
}

// openNode does so with parts that a test adapts.
func openNode(t testing.TB, adapt func(*app.Deps)) (*app.App, string) {
	t.Helper()
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	var cfg app.Config
	cfg.Flags(pflag.NewFlagSet("test", pflag.ContinueOnError))
	cfg.Data, cfg.ChainListen = t.TempDir(), "127.0.0.1:0"
	fresh, err := app.OpenDir(cfg.Data)
	check(t, err)
	keys, err := app.LoadKeys(cfg.Data, fresh)
	check(t, err)
	token, err := app.OperatorToken(cfg.Data)
	check(t, err)
	schema, err := os.ReadFile("../schema.sql")
	check(t, err)
	st, err := store.Open(ctx, store.Options{Dir: cfg.Data, Schema: string(schema), Now: time.Now, Logger: log, MustExist: !fresh, Seal: app.Sealer(keys)})
	check(t, err)
	chains, err := app.OpenChains(ctx, cfg, keys, log)
	check(t, err)
	t.Cleanup(func() { check(t, chains.Close()); check(t, st.Close()) })
	deps := app.Deps{Store: st, Keys: keys, Anchor: chains.Anchor, Chains: chains.ByID, Clients: chains.Clients, Log: log, Now: time.Now, Version: "test"}
	adapt(&deps)
	return app.New(cfg, deps), token
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newWorld serves a node under the base path and fills it over HTTP.
func newWorld(t testing.TB, base string) *world {
	t.Helper()
	w := &world{t: t, stream: hostileStream}
	w.app, w.token = newNode(t)
	w.url = "http://" + start(t, w.app, Config{BasePath: base, SDK: sdkFiles(), Vectors: os.DirFS("../testvectors")}) + base
	var err error
	w.key, err = flight.NewKey()
	check(t, err)
	for i := range 6 {
		w.record(i)
	}
	w.post("/v1/flight/batches", w.sign(0, 0, 1, 0), 201)
	w.post("/v1/flight/batches", w.sign(2, 4, 5, 0), 201) // batch 1 is missing
	fork := w.sign(0, 0, 1, 1)
	w.post("/v1/flight/batches", fork, 409)
	for i := range 2 {
		w.post("/v1/flight/proofs?publishReveals=1", w.disclose(i), 200)
	}
	return w
}

func (w *world) anchor() { w.admin("/v1/admin/anchor", 200) }

func sdkFiles() fs.FS {
	return fstest.MapFS{
		"karatum-flight.mjs": {Data: []byte("export const x = 1\n")}, "sdk.go": {Data: []byte("package sdk\n")},
		"testdata/secret.json": {Data: []byte("{}")},
	}
}

func (w *world) record(i int) {
	value := canon.Str(strings.Repeat("long ", 2000) + "</pre><script>alert(1)</script>\u202e")
	o := flight.Opening{Field: "args", Salt: flight.Keccak256([]byte{byte(i)}), Value: value}
	c, err := flight.CommitValue(value, o.Salt)
	check(w.t, err)
	s := flight.Step{Agent: w.key.Address(), Stream: w.stream, Seq: uint64(i), At: uint64(time.Now().UnixMilli()), Kind: "tool", Status: "ok", Name: hostileName, Args: &c}
	if i > 0 {
		s.Prev = w.steps[i-1].Hash()
	}
	w.steps, w.hidden = append(w.steps, s), append(w.hidden, o)
}

// sign makes the batch of the steps from..to; another fork gives another head.
func (w *world) sign(index uint64, from, to int, fork byte) []byte {
	hashes := make([]flight.Hash, 0, to-from+1)
	for _, s := range w.steps[from : to+1] {
		hashes = append(hashes, s.Hash())
	}
	if fork > 0 {
		hashes[len(hashes)-1] = flight.Keccak256([]byte{fork})
	}
	root, err := merkle.Root(hashes)
	check(w.t, err)
	b := flight.Header{
		Agent: w.key.Address(), Stream: w.stream, Index: index, FromSeq: uint64(from), ToSeq: uint64(to),
		PrevHead: w.steps[from].Prev, Head: hashes[len(hashes)-1], Root: root, CreatedAt: uint64(time.Now().Unix()),
	}.Sign(w.key, flight.EIP712)
	if fork == 0 {
		w.batch = append(w.batch, b)
	}
	body, err := json.Marshal(b)
	check(w.t, err)
	return body
}

func (w *world) disclose(i int) []byte {
	d, err := flight.NewDisclosure(w.batch[0], w.steps[:2], i, w.hidden[i])
	check(w.t, err)
	body, err := json.Marshal(d)
	check(w.t, err)
	return body
}

// do sends a request and returns the answer with its whole body.
func (w *world) do(method, path string, body []byte, header ...string) (*http.Response, []byte) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, bytes.NewReader(body))
	check(w.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	noRedirect := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := noRedirect.Do(req)
	check(w.t, err)
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	check(w.t, err)
	return r, got
}

func (w *world) post(path string, body []byte, status int) []byte {
	w.t.Helper()
	r, got := w.do("POST", path, body, "Content-Type", "application/json")
	if r.StatusCode != status {
		w.t.Fatalf("POST %s: status %d, want %d: %.500s", path, r.StatusCode, status, got)
	}
	return got
}

func (w *world) admin(path string, status int) []byte {
	w.t.Helper()
	r, got := w.do("POST", path, nil, "Content-Type", "application/json", "Authorization", "Bearer "+w.token)
	if r.StatusCode != status {
		w.t.Fatalf("POST %s: status %d, want %d: %s", path, r.StatusCode, status, got)
	}
	return got
}

// expand replaces the names of a path by what is in the world.
func (w *world) expand(path string) string {
	s := Server{}
	for name, v := range map[string]any{
		"{agent}": w.key.Address(), "{stream}": w.stream, "{batch}": w.batch[0].ID(), "{step}": w.steps[0].Hash(), "{sealed}": w.steps[5].Hash(),
		"{zero}": flight.Hash{}, "{nobody}": flight.Address{},
	} {
		path = strings.ReplaceAll(path, name, s.link(v)[1:])
	}
	return path
}

func (w *world) epoch() app.EpochView {
	l, err := w.app.Epochs(context.Background(), app.Page{Limit: 1})
	check(w.t, err)
	if len(l.Items) == 0 {
		w.t.Fatal("nothing is anchored")
	}
	return l.Items[0]
}

func jsonOf(t testing.TB, body []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %.300s", err, body)
	}
	return v
}

func sprint(v any) string { return fmt.Sprint(v) }
