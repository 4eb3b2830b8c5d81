package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"karatum/chain"
	"karatum/chain/devchain"
	"karatum/chain/eas"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
	"karatum/store"
)

// A bench of the app: a real store in a file, a real dev chain, a clock that the
// test moves.
type rig struct {
	t      *testing.T
	dir    string
	app    *App
	store  *store.Store
	dev    *devchain.Chain
	client *chain.Client
	keys   *Keys
	shift  atomic.Int64 // added to the clock, nanoseconds
	stands atomic.Int64 // where the clock stands still, Unix nanoseconds; 0 = it goes
}

func (r *rig) now() time.Time {
	at := time.Now()
	if ns := r.stands.Load(); ns != 0 {
		at = time.Unix(0, ns)
	}
	return at.Add(time.Duration(r.shift.Load()))
}

func testConfig(dir string) Config {
	return Config{Listen: "127.0.0.1:0", ChainListen: "127.0.0.1:0", Data: dir, Network: "dev", AnchorCron: "@every 5m",
		RecheckCron: "@every 1m", Confirmations: -1, ReplayTimeout: 2 * time.Minute, AnchorGasPerDay: 200_000_000, IPRate: 120, IPBurst: 60, BatchQuota: 1440, LogFormat: "text"}
}

// newRig starts a node without servers; adapt changes the settings and parts.
func newRig(t *testing.T, adapt func(*Config, *Deps)) *rig {
	t.Helper()
	return rigIn(t, t.TempDir(), adapt)
}

// rigIn is newRig in a directory that may have been used before.
func rigIn(t *testing.T, dir string, adapt func(*Config, *Deps)) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir}
	var err error
	if r.keys, err = LoadKeys(r.dir, true); err != nil {
		t.Fatal(err)
	}
	r.dev, err = devchain.Open(t.Context(), devchain.Options{Dir: filepath.Join(r.dir, "chain"), Clock: func() uint64 { return uint64(time.Now().Unix()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.dev.Close() })
	r.client = chain.NewInProc(r.dev.Client(), chain.Options{})
	if err := FundAnchor(t.Context(), r.client, r.keys); err != nil {
		t.Fatal(err)
	}
	r.open(adapt)
	return r
}

// open opens the store and the app on the rig's directory, as a restart does.
func (r *rig) open(adapt func(*Config, *Deps)) {
	r.t.Helper()
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		r.t.Fatal(err)
	}
	r.store, err = store.Open(r.t.Context(), store.Options{Dir: r.dir, Schema: string(schema), Now: r.now, Seal: Sealer(r.keys)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.store.Close() })
	net, err := eas.NetworkByName("dev")
	if err != nil {
		r.t.Fatal(err)
	}
	cfg, deps := testConfig(r.dir), Deps{
		Store: r.store, Keys: r.keys, Anchor: Anchorer{Network: net, Client: r.client}, Chains: map[uint64]Chain{devchain.ChainID: r.client},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: r.now, Version: "test",
	}
	if adapt != nil {
		adapt(&cfg, &deps)
	}
	r.app = New(cfg, deps)
}

// An author writes one stream of an agent and keeps what a disclosure needs.
type author struct {
	key    *flight.Key
	stream string
	steps  []flight.Step
	hashes []flight.Hash
	opens  []map[string]flight.Opening
	next   uint64 // batch index
	from   uint64 // first step of the next batch
}

func newAuthor(t *testing.T, stream string) *author {
	t.Helper()
	k, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &author{key: k, stream: stream}
}

// step records a step that opens its claim, where there is one, else args.
func (a *author) step(t *testing.T, c *flight.Claim, chainID uint64, tx *flight.Hash) {
	t.Helper()
	s := flight.Step{Agent: a.key.Address(), Stream: a.stream, Seq: uint64(len(a.steps)), At: uint64(time.Now().UnixMilli()), Kind: "tx", Status: "ok", TxHash: tx}
	if tx != nil {
		s.ChainID = &chainID
	}
	if s.Seq > 0 {
		s.Prev = a.hashes[s.Seq-1]
	}
	open := map[string]flight.Opening{}
	commit := func(field string, v canon.Value) *flight.Hash {
		salt := flight.Keccak256([]byte(a.stream), []byte(field), s.Prev[:])
		h, err := flight.CommitValue(v, salt)
		if err != nil {
			t.Fatal(err)
		}
		open[field] = flight.Opening{Field: field, Salt: salt, Value: v}
		return &h
	}
	s.Args = commit("args", canon.Str("what was asked"))
	if c != nil {
		s.Claim = commit("claim", c.Value())
	}
	a.add(s, open)
}

func (a *author) add(s flight.Step, open map[string]flight.Opening) {
	a.steps, a.hashes, a.opens = append(a.steps, s), append(a.hashes, s.Hash()), append(a.opens, open)
}

// batch signs what was recorded since the last one.
func (a *author) batch(t *testing.T, s flight.Scheme) flight.Batch {
	t.Helper()
	b := a.header(t, a.from, uint64(len(a.steps))-1, a.next).Sign(a.key, s)
	a.next, a.from = a.next+1, uint64(len(a.steps))
	return b
}

func (a *author) header(t *testing.T, from, to, index uint64) flight.Header {
	t.Helper()
	root, err := merkle.Root(a.hashes[from : to+1])
	if err != nil {
		t.Fatal(err)
	}
	return flight.Header{Agent: a.key.Address(), Stream: a.stream, Index: index, FromSeq: from, ToSeq: to,
		PrevHead: a.steps[from].Prev, Head: a.hashes[to], Root: root, CreatedAt: uint64(time.Now().Unix())}
}

// fill records n plain steps.
func (a *author) fill(t *testing.T, n int) {
	t.Helper()
	for range n {
		a.step(t, nil, 0, nil)
	}
}

func (a *author) disclose(t *testing.T, b flight.Batch, seq uint64, fields ...string) []byte {
	t.Helper()
	proof, err := merkle.Prove(a.hashes[b.Header.FromSeq:b.Header.ToSeq+1], int(seq-b.Header.FromSeq))
	if err != nil {
		t.Fatal(err)
	}
	d := &flight.Disclosure{Step: a.steps[seq].Value(), Proof: proof, Batch: b}
	for _, f := range fields {
		d.Reveal = append(d.Reveal, a.opens[seq][f])
	}
	return encode(t, d)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *rig) ingest(b flight.Batch) (IngestAnswer, error) {
	return r.app.Ingest(r.t.Context(), encode(r.t, b))
}

func (r *rig) mustIngest(b flight.Batch) IngestAnswer {
	r.t.Helper()
	ans, err := r.ingest(b)
	if err != nil {
		r.t.Fatalf("ingest of batch %d: %v", b.Header.Index, err)
	}
	return ans
}

// wantCode fails unless err is an *Error of the code, and returns it.
func wantCode(t *testing.T, err error, code string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error = %v, want %s", err, code)
	}
	return e
}

// count returns how many attestations by the rig's key are on the chain.
func (r *rig) attestations(ctx context.Context) int {
	r.t.Helper()
	var logs []json.RawMessage
	err := r.dev.Client().CallContext(ctx, &logs, "eth_getLogs", map[string]any{
		"fromBlock": "0x0", "toBlock": "latest", "address": devchain.EASAddress.Hex(), "topics": []any{eas.AttestedTopic().Hex()},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(logs)
}
