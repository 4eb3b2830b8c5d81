package replay_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/fork"
	"karatum/chain/replay"
)

// A lie is an edit of a node's answers, and the block members it is about.
type lie struct {
	name   string
	method string
	edit   func(t testing.TB, c rpcCall, result json.RawMessage) json.RawMessage
}

// liesAboutState change one value and leave its proof, or change the proof.
func liesAboutState(m *mix) []lie {
	proof := func(name string, edit func(map[string]any)) lie {
		return lie{name, "eth_getProof", func(t testing.TB, _ rpcCall, r json.RawMessage) json.RawMessage { return object(t, r, edit) }}
	}
	firstSlot := func(edit func(slot map[string]any)) func(map[string]any) {
		return func(o map[string]any) {
			for _, s := range o["storageProof"].([]any) {
				edit(s.(map[string]any))
				return
			}
		}
	}
	cutProof := func(v any) any { nodes := v.([]any); return nodes[:max(0, len(nodes)-1)] }
	bend := func(v any) any {
		nodes := v.([]any)
		if len(nodes) > 0 {
			nodes[len(nodes)-1] = flip(nodes[len(nodes)-1])
		}
		return nodes
	}
	return []lie{
		proof("balance", func(o map[string]any) { o["balance"] = "0x123456" }),
		proof("nonce", func(o map[string]any) { o["nonce"] = "0x77" }),
		proof("account proof", func(o map[string]any) { o["accountProof"] = bend(o["accountProof"]) }),
		proof("account proof cut", func(o map[string]any) { o["accountProof"] = cutProof(o["accountProof"]) }),
		proof("no account proof", func(o map[string]any) { o["accountProof"] = []any{} }),
		proof("slot value", firstSlot(func(s map[string]any) { s["value"] = "0x99" })),
		proof("slot proof", firstSlot(func(s map[string]any) { s["proof"] = bend(s["proof"]) })),
		{"code byte", "eth_getCode", func(_ testing.TB, c rpcCall, r json.RawMessage) json.RawMessage {
			if !strings.Contains(string(c.Params[0]), strings.ToLower(m.machine.Hex()[2:])) {
				return r
			}
			out, _ := json.Marshal(flip(strings.Trim(string(r), `"`)))
			return out
		}},
		{"no code", "eth_getCode", func(testing.TB, rpcCall, json.RawMessage) json.RawMessage { return json.RawMessage(`"0x"`) }},
	}
}

// headerMembers are all that a header of these chains hashes over.
var headerMembers = []string{
	"parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom", "difficulty", "number",
	"gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce", "baseFeePerGas", "withdrawalsRoot", "blobGasUsed", "excessBlobGas",
	"parentBeaconBlockRoot", "requestsHash",
}

// liesAboutHeaders change one member of the transaction's block, or of its parent.
func liesAboutHeaders() (out []lie) {
	for _, member := range headerMembers {
		for _, method := range []string{"eth_getBlockByHash", "eth_getBlockByNumber"} {
			out = append(out, lie{"header " + member + " by " + method, method, func(t testing.TB, _ rpcCall, r json.RawMessage) json.RawMessage {
				return object(t, r, func(o map[string]any) {
					if o[member] == "0x" {
						o[member] = "0x00"
						return
					}
					o[member] = flip(o[member])
				})
			}})
		}
	}
	return out
}

func TestLiesAreCaught(t *testing.T) {
	m := onDevChain(t)
	m.call(1, &m.machine, 0, m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5)), 300_000)
	m.seal()
	m.together(func() {
		for from := range 2 {
			m.call(1+from, &m.machine, 0, m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5)), 300_000)
		}
	})
	hash := m.mined[len(m.mined)-1]
	url := m.url
	for _, l := range append(liesAboutState(m), liesAboutHeaders()...) {
		t.Run(l.name, func(t *testing.T) {
			told := 0
			p := newProxy(t, url, func(c rpcCall, a *rpcAnswer) {
				if c.Method != l.method || a.Result == nil {
					return
				}
				edited := l.edit(t, c, a.Result)
				if string(edited) != string(a.Result) {
					told++
				}
				a.Result = edited
			})
			res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: chaintest.Dial(t, p.URL), Tx: hash})
			if told == 0 {
				t.Fatal("the lie was never told")
			}
			if !errors.Is(err, fork.ErrContradiction) && !errors.Is(err, chain.ErrMalformed) {
				t.Errorf("result %+v, error %v; want a contradiction", res, err)
			}
			if code := replay.Code(err); code != replay.CodeContradiction && code != replay.CodeRPC {
				t.Errorf("code %s", code)
			}
		})
	}
}

// What the node says of the outcome is compared, not believed.
func TestLiesAboutReceipts(t *testing.T) {
	m := onDevChain(t)
	m.call(1, &m.machine, 0, m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5)), 300_000)
	m.seal()
	hash := m.mined[len(m.mined)-1]
	firstLog := func(o map[string]any) map[string]any { return o["logs"].([]any)[0].(map[string]any) }
	for _, tt := range []struct {
		name       string
		edit       func(map[string]any)
		reproduced bool
		difference string
	}{
		{"status", func(o map[string]any) { o["status"] = "0x0" }, false, "status is 1, the chain has 0"},
		{"log data", func(o map[string]any) { firstLog(o)["data"] = flip(firstLog(o)["data"]) }, false, "log 0: data"},
		{"log address", func(o map[string]any) { firstLog(o)["address"] = flip(firstLog(o)["address"]) }, false, "log 0: address"},
		{"log topic", func(o map[string]any) { topics := firstLog(o)["topics"].([]any); topics[1] = flip(topics[1]) }, false, "log 0: topics"},
		{"a log less", func(o map[string]any) { o["logs"] = o["logs"].([]any)[1:] }, false, "2 logs, the chain has 1"},
		{"gas", func(o map[string]any) { o["gasUsed"], o["cumulativeGasUsed"] = "0x7777", "0x7777" }, true, "the chain has 30583"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProxy(t, m.url, func(c rpcCall, a *rpcAnswer) {
				if c.Method == "eth_getTransactionReceipt" {
					a.Result = object(t, a.Result, tt.edit)
				}
			})
			res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: chaintest.Dial(t, p.URL), Tx: hash})
			if err != nil || res.Reproduced != tt.reproduced || !strings.Contains(strings.Join(res.Differences, "\n"), tt.difference) {
				t.Errorf("reproduced %v, differences %q, %v; want %v and %q", res.Reproduced, res.Differences, err, tt.reproduced, tt.difference)
			}
			if res.Outcome.Receipt.Status != 1 || len(res.Outcome.Receipt.Logs) != 2 {
				t.Errorf("replayed receipt %+v", res.Outcome.Receipt)
			}
		})
	}
}

// A header with a member that is not known here may have another hash for good
// reasons: then nothing is proved, and the result says so.
func TestUnknownHeaderMember(t *testing.T) {
	m := onDevChain(t)
	m.call(1, &m.machine, 0, m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5)), 300_000)
	m.seal()
	hash := m.mined[len(m.mined)-1]
	p := newProxy(t, m.url, func(c rpcCall, a *rpcAnswer) {
		if c.Method == "eth_getBlockByHash" {
			a.Result = object(t, a.Result, func(o map[string]any) { o["futureRoot"], o["extraData"] = "0x12", "0x99" })
		}
	})
	res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: chaintest.Dial(t, p.URL), Tx: hash})
	if err != nil || !res.Reproduced || res.State != "as told by RPC" || !strings.Contains(strings.Join(res.Notes, "\n"), "futureRoot") {
		t.Errorf("%+v, %v", res, err)
	}
}

// A whole chain made up by the node proves itself; only others can tell.
func TestForgedBlock(t *testing.T) {
	honest, forged := onDevChain(t), onDevChain(t)
	transfer := func(m *mix, have int64) common.Hash {
		to := m.account(2).Address
		m.rnd.IntN(4) // the same types of transactions in both
		m.call(3, &m.token, 0, m.pack(m.tokenABI, "faucet", m.account(1).Address, big.NewInt(have)), 200_000)
		m.seal()
		hash := m.call(1, &m.token, 0, m.pack(m.tokenABI, "transfer", to, big.NewInt(50)), 200_000)
		m.seal()
		return hash
	}
	hash, same := transfer(honest, 10), transfer(forged, 100)
	if hash != same {
		t.Fatalf("the chains have different transactions %s and %s", hash, same)
	}
	truth := honest.receipt(hash)
	if truth.Status != 0 || forged.receipt(hash).Status != 1 {
		t.Fatal("want the transfer to fail on one chain and to succeed on the other")
	}
	r := newReplayer(t, replay.Options{})
	job := replay.Job{Client: forged.c, Tx: hash}
	res, err := r.Replay(t.Context(), job)
	if err != nil || !res.Reproduced || len(res.ConfirmedBy) != 0 || !strings.Contains(strings.Join(res.Notes, "\n"), "only the node read from vouches for the block") {
		t.Errorf("on its own: %+v, %v", res, err)
	}
	job.BlockHash = truth.BlockHash
	if res, err := r.Replay(t.Context(), job); !errors.Is(err, replay.ErrOtherBlock) || replay.Code(err) != replay.CodeOtherBlock {
		t.Errorf("with the block hash: %+v, %v", res, err)
	}
	job.BlockHash, job.Sources = common.Hash{}, []replay.Source{{Name: "second", Client: honest.c}}
	if res, err := r.Replay(t.Context(), job); !errors.Is(err, replay.ErrDisputed) || replay.Code(err) != replay.CodeDisputed {
		t.Errorf("with a second source: %+v, %v", res, err)
	}
	job.Client, job.BlockHash = honest.c, truth.BlockHash
	res, err = r.Replay(t.Context(), job)
	if err != nil || exact(res) != nil || len(res.ConfirmedBy) != 2 || len(res.Notes) != 0 {
		t.Errorf("the honest chain: %+v, %v", res, err)
	}
}
