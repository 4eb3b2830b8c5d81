package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/app"
	"karatum/chain"
	"karatum/chain/devchain"
	"karatum/chain/replay"
	"karatum/flight"
)

// A payment is a world whose agent has paid on the dev chain and opened a true claim
// about it. Its replays run once it is started.
type payment struct {
	*world
	client *chain.Client
	tx     flight.Hash
	ended  chan struct{} // one for each replay that ended
}

func newPayment(t *testing.T) *payment {
	t.Helper()
	p := &payment{world: &world{t: t, stream: "payments"}, ended: make(chan struct{}, 8)}
	p.app, p.token = openNode(t, func(d *app.Deps) {
		var err error
		d.Replayer, err = replay.New(replay.Options{})
		check(t, err)
		d.Checkpoint = func(step string) {
			if step == "replay ended" {
				p.ended <- struct{}{}
			}
		}
		p.client = d.Anchor.Client
	})
	p.url = "http://" + start(t, p.app, Config{})
	accounts, err := devchain.WellKnownAccounts()
	check(t, err)
	p.key, err = flight.KeyFromBytes(crypto.FromECDSA(accounts[3].Key))
	check(t, err)
	p.pay(accounts[3], common.Address{0xaa}, 7)
	claim := flight.Claim{Kind: flight.ClaimNative, To: flight.Address{0xaa}, Amount: big.NewInt(7)}
	o := flight.Opening{Field: "claim", Salt: flight.Hash{1}, Value: claim.Value()}
	commitment, err := flight.CommitValue(o.Value, o.Salt)
	check(t, err)
	id := uint64(devchain.ChainID)
	p.steps = []flight.Step{{Agent: p.key.Address(), Stream: p.stream, At: uint64(time.Now().UnixMilli()), Kind: "tx", Status: "ok", Claim: &commitment, ChainID: &id, TxHash: &p.tx}}
	p.post("/v1/flight/batches", p.sign(0, 0, 0, 0), 201)
	d, err := flight.NewDisclosure(p.batch[0], p.steps, 0, o)
	check(t, err)
	body, err := json.Marshal(d)
	check(t, err)
	if got := p.post("/v1/flight/proofs", body, 200); !bytes.Contains(got, []byte(`"state":"confirmed"`)) {
		t.Fatalf("the claim is not confirmed: %s", got)
	}
	return p
}

// pay sends wei on the dev chain, and returns once that is in a block.
func (p *payment) pay(from devchain.Account, to common.Address, wei int64) {
	ctx := p.t.Context()
	id := big.NewInt(devchain.ChainID)
	tx, err := types.SignNewTx(from.Key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(100e9), Gas: 21_000, To: &to, Value: big.NewInt(wei)})
	check(p.t, err)
	raw, err := tx.MarshalBinary()
	check(p.t, err)
	_, err = p.client.SendRawTransaction(ctx, raw)
	check(p.t, err)
	p.tx = flight.Hash(tx.Hash())
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := p.client.TransactionReceipt(ctx, tx.Hash())
		if err == nil {
			if head, err := p.client.BlockNumber(ctx); err == nil && head >= r.BlockNumber {
				return
			}
		} else if !errors.Is(err, chain.ErrNotFound) && !errors.Is(err, chain.ErrIndexing) {
			p.t.Fatal(err)
		}
		<-tick.C
	}
}

// run starts the node's jobs, the replays among them, until the test ends.
func (p *payment) run() {
	ctx, stop := context.WithCancel(context.Background())
	check(p.t, p.app.Start(ctx))
	p.t.Cleanup(func() { stop(); p.app.Wait() })
}

func TestReplaysOfARealNode(t *testing.T) {
	p := newPayment(t)
	step := p.steps[0].Hash().String()
	doc := describedBy(t, p.world)
	admin := func(what string, status int, want string) []byte {
		t.Helper()
		got := p.admin("/v1/admin/proofs/"+step+what, status)
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("%s = %s; want %s", what, got, want)
		}
		return got
	}
	get := func(path string, status int, want string) []byte {
		t.Helper()
		r, got := p.do("GET", path, nil)
		if r.StatusCode != status || !bytes.Contains(got, []byte(want)) {
			t.Errorf("GET %s: status %d, %.600s; want %d with %s", path, r.StatusCode, got, status, want)
		}
		return got
	}
	admin("/replay/cancel", 404, "UNKNOWN_REPLAY")
	admin("/replay/rerun?prefix=half", 400, `"field":"prefix"`)
	p.post("/v1/flight/proofs/"+step+"/replay", nil, 202)
	get("/v1/flight/replays?state=queued", 200, step)
	p.looks(t, "/replays/1", "Waits for its turn")
	get("/v1/status", 200, `"replays":{"open":1,"running":null`)
	admin("/replay/cancel", 202, `"state":"cancelled"`)
	admin("/replay/cancel", 409, "REPLAY_STATE")
	p.post("/v1/flight/proofs/"+step+"/replay", nil, 202)
	get("/v1/flight/replays/1", 200, `"state":"cancelled"`)
	p.looks(t, "/replays?state=cancelled", `href="/replays/1"`)
	p.looks(t, "/replays/1", "The operator cancelled it")
	admin("/replay/rerun", 202, `"state":"queued"`)
	admin("/replay/rerun", 409, "REPLAY_STATE")
	for _, what := range []string{"/replay/cancel", "/replay/rerun", "/recheck"} {
		r, _ := p.do("POST", "/v1/admin/proofs/"+step+what, nil, "Content-Type", "application/json")
		if r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without the token: status %d", what, r.StatusCode)
		}
	}
	p.run()
	<-p.ended
	for path, name := range map[string]string{"/v1/flight/replays": "ReplaySummaryList", "/v1/flight/replays/1": "ReplayDetail", "/v1/flight/proofs/" + step + "/replay": "ReplayView"} {
		validate(t, doc, refTo(name), path, get(path, 200, `"state":"done"`))
	}
	get("/v1/flight/replays/1", 200, `"reproduced":true,"verdict":{"state":"confirmed"`)
	get("/v1/flight/replays?state=failed", 200, `"items":[]`)
	p.looks(t, "/replays", "same outcome")
	p.looks(t, "/replays/1", "Original beside replay")
	p.looks(t, "/replays/1", "proved state")
	p.looks(t, "/node", `<a href="/replays">0 replays queued or running</a>`)
	for page, api := range map[string]string{"/replays": "/v1/flight/replays", "/replays/1": "/v1/flight/replays/1"} {
		if !bytes.Equal(get(page+".json", 200, ""), get(api, 200, "")) {
			t.Errorf("%s.json is not %s", page, api)
		}
	}
	validate(t, doc, refTo("ReplayView"), "rerun", admin("/replay/rerun", 202, `"state":"queued"`))
	<-p.ended
	validate(t, doc, refTo("RecheckView"), "recheck", admin("/recheck", 202, p.tx.String()))
}

// looks expects a page that has the text and breaks no rule of pages.
func (p *payment) looks(t *testing.T, at, want string) {
	t.Helper()
	r, body := p.do("GET", at, nil, "Accept", "text/html")
	if r.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(want)) {
		t.Errorf("GET %s: status %d without %q: %.1500s", at, r.StatusCode, want, body)
	}
	lookAtPage(t, at, r, string(body))
}

// TestReplayPager goes through the list by its links, a state chosen.
func TestReplayPager(t *testing.T) {
	p := newPayment(t)
	step := p.steps[0].Hash().String()
	for _, prefix := range []string{"full", "none"} {
		p.post("/v1/flight/proofs/"+step+"/replay?prefix="+prefix, nil, 202)
	}
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	at := "/replays?state=queued&limit=1"
	for _, want := range []string{`<tr id="replay-2"`, `<tr id="replay-1"`} {
		p.looks(t, at, want)
		_, body := p.do("GET", at, nil, "Accept", "text/html")
		m := next.FindSubmatch(body)
		if (m != nil) != strings.HasSuffix(want, `2"`) {
			t.Fatalf("%s leads on: %s", at, m)
		}
		if m != nil {
			at = html.UnescapeString(string(m[1]))
		}
	}
	if !strings.Contains(at, "state=queued") || !strings.Contains(at, "limit=1") {
		t.Errorf("the next part is %s", at)
	}
}
