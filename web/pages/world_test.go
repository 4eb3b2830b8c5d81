package pages

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/web/verifier"
)

// Texts that try to break a page: markup, and letters that read from right to left
// beside a control that turns text around.
const (
	hostileStream = `"><script>alert(1)<b> ?#%2f&+;: سلام`
	hostileName   = "<img src=x onerror=alert(1)>\u202e\u0007"
)

// noon is when the pages of the tests are looked at.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// ago is a time in unix milliseconds.
func ago(d time.Duration) uint64 { return uint64(noon.Add(-d).UnixMilli()) }

func testSite() *Site {
	return &Site{
		Base: "/base", CSS: "/base/static/app.0123.css", JS: "/base/static/app.0123.js", LiveJS: "/base/static/live.0123.js", Icon: "/base/static/icon.0123.svg",
		Network: app.NetworkView{Name: "dev", ChainID: 31337}, Now: func() time.Time { return noon },
	}
}

func hash(text string) flight.Hash { return flight.Keccak256([]byte(text)) }

func address(n byte) (a flight.Address) {
	h := hash(string(n))
	copy(a[:], h[:])
	return a
}

func testAgent(n byte) app.AgentView {
	rating := 21.06
	return app.AgentView{
		Address: address(n), FirstSeen: ago(50 * time.Hour), LastSeen: ago(90 * time.Second), Batches: 1234, RecordedSteps: 40000, OpenedSteps: 4960, Coverage: .124,
		DevField: app.RatingView{Rating: &rating, Confirmed: 54, Contradicted: 2, Unverifiable: 7}, Field: app.RatingView{Confirmed: 1},
		Besides: app.Besides{Self: 1, Zero: 2, Late: 3, Counterparties: 1}, Claims: map[string]uint64{"erc20.transfer": 50, hostileName: 6},
		Streams: 2, Equivocations: 1, Equivocated: n%2 == 1, Binding: "unbound",
	}
}

// hostileKey may stand in a JSON string as it is.
const hostileKey = "<script>alert(1)</script>\u202e&amp;"

// testStep is a contradicted step, read as a handler reads it.
func testStep(t testing.TB) StepView {
	t.Helper()
	tx, block, chain, claim := hash("tx"), uint64(1234567), uint64(31337), hash("claim")
	record := flight.Step{
		Agent: address(1), Stream: hostileStream, Seq: 1003, Prev: hash("prev"), At: ago(time.Hour), Kind: "tx", Status: "ok", Name: hostileName,
		Claim: &claim, ChainID: &chain, TxHash: &tx,
	}
	v, err := ViewStep(app.StepView{
		StepHash: record.Hash(), BatchID: hash("batch"), Step: record.Canonical(), Opened: []string{"claim", "args"}, Late: true,
		Claim:      fmt.Appendf(nil, `{"kind":"erc20.transfer","amount":"40000000","to":"%s","token":"%s"}`, address(3), address(4)),
		Disclosure: json.RawMessage(`{"step":{"name":"</pre><script>alert(1)</script>\u202e"}}`), EpochOf: &app.EpochRef{ID: 7, State: "final"},
		Verdict: app.VerdictView{
			Verdict: flight.Verdict{State: flight.Contradicted, Checks: []flight.VerdictCheck{{Name: "erc20.transfer", Want: hostileName, Got: "nothing"}, {Name: "tx.sender", Want: "a", Got: "a", Pass: true}}},
			ChainID: chain, TxHash: &tx, BlockNumber: &block,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"` + hostileKey + `":"` + hostileKey + `","to":"` + address(3).String() + `"}`, `["` + hostileKey + `"]`} {
		value, err := canon.Parse([]byte(text), canon.MaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		f := FieldView{Name: "args", Commitment: hash("args")}
		f.open(flight.Opening{Salt: hash("salt"), Value: value})
		v.Fields = append(v.Fields, f)
	}
	v.Fields = append(v.Fields, FieldView{Name: "claim", Commitment: claim})
	v.Panel = verifier.Panel{
		Checks: verifier.DisclosureChecks(), Asks: true, Forge: true, Static: "/base/static/", Save: "/base/verify.html",
		Checkers: []verifier.Checker{{Script: verifier.Script{Name: "record-worker.0123.js", SHA256: "0123"}, Kind: "record", Says: "The record is checked by"}},
		Record:   "/base/v1/flight/proofs/0x01", File: "step-1003.json", Local: "http://localhost:8080/verify#", Document: json.RawMessage(`{"a": "</script><script>alert(1)</script>"}`),
	}
	return v
}

func testTape() *TapeView {
	return testSite().DrawTape(app.TapeView{
		Agent: address(1), Stream: hostileStream, From: 0, To: 9,
		Batches: []app.TapeBatch{{Index: 0, FromSeq: 0, ToSeq: 4, BatchID: hash("0"), Anchored: true}, {Index: 2, FromSeq: 7, ToSeq: 9, BatchID: hash("2")}},
		Gaps:    []app.Missing{{Indexes: [2]uint64{1, 1}, Seqs: [2]uint64{5, 6}}},
		Opened:  []app.TapeStep{{Seq: 1, State: "confirmed", ClaimKind: "erc20.transfer"}, {Seq: 2, State: "contradicted"}, {Seq: 8, State: "unverifiable"}},
	})
}

func testStatus() app.StatusView {
	return app.StatusView{
		LastHour: append(make([]uint64, 56), 3, 1, 120, 7),
		Version:  hostileName, Network: "dev", Node: address(5), Attester: address(6), StartedAt: ago(26 * time.Hour), Batches: 1234, Agents: 1, Waiting: 2,
		NextAnchor: ago(-4 * time.Minute), Epochs: 1, Equivocations: 1, OpenedSteps: 12, DatabaseBytes: 5 << 20, WALBytes: 100, DiskFreeBytes: 7 << 30,
		Chains:   []app.ChainView{{ChainID: 31337, Name: "dev", RPC: "http://127.0.0.1:8545", Head: 1000, LatencyMs: 3}, {ChainID: 1, Name: "x", RPC: hostileName, Error: hostileName}},
		Crons:    []app.CronView{{Name: "anchor", Schedule: "@every 5m", Next: ago(-time.Minute), Runs: []app.CronRunView{{Start: ago(time.Minute), End: ago(59 * time.Second), Error: hostileName}, {Start: ago(2 * time.Minute), End: ago(2 * time.Minute), Note: "1 epoch"}}}, {Name: "idle"}},
		Problems: []string{hostileName}, AttesterBalance: "0.5 ETH",
	}
}
