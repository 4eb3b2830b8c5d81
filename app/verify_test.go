package app

import (
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/eas"
	"karatum/flight"
	"karatum/flight/canon"
)

// A toldChain is an RPC that says what a test tells it to.
type toldChain struct {
	id       uint64
	txs      map[flight.Hash]chain.Tx
	receipts map[flight.Hash]chain.Receipt
}

func (c *toldChain) ChainID(context.Context) (uint64, error) { return c.id, nil }

func (c *toldChain) TransactionByHash(_ context.Context, h common.Hash) (chain.Tx, error) {
	tx, ok := c.txs[flight.Hash(h)]
	if !ok {
		return tx, chain.ErrNotFound
	}
	return tx, nil
}

func (c *toldChain) TransactionReceipt(_ context.Context, h common.Hash) (chain.Receipt, error) {
	return c.receipts[flight.Hash(h)], nil
}

func (c *toldChain) HeaderByNumber(_ context.Context, n uint64) (chain.Header, error) {
	return chain.Header{Number: n, Time: 1_760_000_000}, nil
}

// A verifyCase is a bundle of which every part is good, with the chain that it is
// about.
type verifyCase struct {
	disclosure *flight.Disclosure
	proof      BatchProofView
	receipt    flight.Receipt
	chain      *toldChain
	attester   flight.Address
}

func newVerifyCase(t *testing.T) *verifyCase {
	t.Helper()
	docs, batches, err := benchDisclosures(3)
	if err != nil {
		t.Fatal(err)
	}
	d, err := flight.ParseDisclosure(docs[1])
	if err != nil {
		t.Fatal(err)
	}
	c := &verifyCase{disclosure: d, attester: flight.Address{0xaa}}
	ids := []flight.Hash{batches[0].ID(), batches[1].ID(), batches[2].ID()}
	c.proof.BatchID, c.proof.Epoch.BatchCount = ids[1], 3
	if c.proof.Epoch.Root, err = flight.EpochRoot(ids); err != nil {
		t.Fatal(err)
	}
	if c.proof.Proof, err = flight.EpochProof(ids, 1); err != nil {
		t.Fatal(err)
	}
	dev, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	anchorTx := flight.Hash{0xa1}
	c.proof.Anchor = AnchorView{ChainID: dev.ChainID, TxHash: &anchorTx, EAS: flight.Address(dev.EAS), Attester: c.attester, State: "final"}
	node, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	c.receipt = flight.Receipt{BatchID: ids[1], Position: 2, ReceivedAt: 1_760_000_000_000, AnchorBy: 1_760_001_200}
	if err := Sealer(&Keys{Receipt: node})([]*flight.Receipt{&c.receipt}); err != nil {
		t.Fatal(err)
	}
	c.tell(dev, anchorTx)
	return c
}

// tell makes the chain show the anchor and the claimed transfer.
func (c *verifyCase) tell(dev eas.Network, anchorTx flight.Hash) {
	agent := common.Address(c.disclosure.Batch.Header.Agent)
	report := c.disclosure.Verify()
	token, block := common.Address(report.Claim.Token), common.Hash{0xb1}
	epoch := eas.Epoch{Root: c.proof.Epoch.Root, Count: 3, Spec: eas.SpecV1}
	pad := func(a flight.Address) common.Hash { return common.BytesToHash(a[:]) }
	c.chain = &toldChain{id: dev.ChainID,
		txs: map[flight.Hash]chain.Tx{
			anchorTx:            {From: common.Address(c.attester), To: &dev.EAS, Input: epoch.Calldata(), Mined: true, BlockHash: block},
			*report.Step.TxHash: {From: agent, To: &token, Mined: true, BlockHash: block},
		},
		receipts: map[flight.Hash]chain.Receipt{
			anchorTx: {Status: 1, From: common.Address(c.attester), BlockHash: block, BlockNumber: 7},
			*report.Step.TxHash: {Status: 1, From: agent, BlockHash: block, BlockNumber: 6, Logs: []chain.Log{{
				Address: token, Data: common.BigToHash(report.Claim.Amount).Bytes(),
				Topics: []common.Hash{common.Hash(flight.Keccak256([]byte("Transfer(address,address,uint256)"))), pad(report.Step.Agent), pad(report.Claim.To)},
			}}},
		}}
}

func (c *verifyCase) bundle(t *testing.T) []byte {
	t.Helper()
	doc, err := json.Marshal(map[string]any{"disclosure": c.disclosure, "proof": c.proof, "receipt": c.receipt})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func (c *verifyCase) options() VerifyOptions {
	return VerifyOptions{Chains: []VerifyChain{c.chain}, Attester: &c.attester}
}

// failing are the codes of failed checks, in order.
func failing(v *Verification) (codes []flight.CheckCode) {
	for _, c := range v.Checks {
		if c.State == flight.Fail {
			codes = append(codes, c.Code)
		}
	}
	return codes
}

func TestVerifyBundle(t *testing.T) {
	c := newVerifyCase(t)
	for _, o := range []struct {
		name    string
		options VerifyOptions
		ok      bool
		verdict string
		open    int
	}{
		{"offline", VerifyOptions{}, true, "offline checks passed; nothing was compared with a chain", 2},
		{"pinned", c.options(), true, "all 18 checks passed", 0},
		{"unpinned", VerifyOptions{Chains: []VerifyChain{c.chain}}, false, "NOT all: unpinned attester 0xaa", 1},
		{"another chain", VerifyOptions{Chains: []VerifyChain{&toldChain{id: 1}}, Attester: &c.attester}, false, "NOT all: the anchor was not checked", 2},
	} {
		t.Run(o.name, func(t *testing.T) {
			v := Verify(t.Context(), [][]byte{c.bundle(t)}, o.options)
			if v.OK != o.ok || !strings.Contains(v.Verdict, o.verdict) || len(v.Open) != o.open || len(failing(v)) != 0 {
				t.Errorf("%+v\nwant ok %v, verdict with %q, %d open", v, o.ok, o.verdict, o.open)
			}
		})
	}
}

// Each change of one part must fail exactly the checks that are about it.
func TestVerifyTampered(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(c *verifyCase)
		want []flight.CheckCode
	}{
		{"amount", func(c *verifyCase) { c.disclosure.Reveal[0].Value = canon.Str("x") }, []flight.CheckCode{"COMMITMENT"}},
		{"header", func(c *verifyCase) { c.disclosure.Batch.Header.CreatedAt++ }, []flight.CheckCode{"SIGNATURE", "SAME_BATCH"}},
		{"receipt position", func(c *verifyCase) { c.receipt.Position++ }, []flight.CheckCode{"RECEIPT"}},
		{"receipt of another batch", func(c *verifyCase) { c.receipt.BatchID[0]++ }, []flight.CheckCode{"RECEIPT", "SAME_BATCH"}},
		{"proof of another batch", func(c *verifyCase) { c.proof.BatchID[0]++ }, []flight.CheckCode{"SAME_BATCH", "EPOCH_PROOF"}},
		{"epoch root", func(c *verifyCase) { c.proof.Epoch.Root[0]++ }, []flight.CheckCode{"EPOCH_PROOF", "ANCHOR_INPUT"}},
		{"epoch size", func(c *verifyCase) { c.proof.Epoch.BatchCount = 4 }, []flight.CheckCode{"EPOCH_PROOF", "ANCHOR_INPUT"}},
		{"epoch size beyond the format", func(c *verifyCase) { c.proof.Epoch.BatchCount = 1 << 40 }, []flight.CheckCode{"EPOCH_PROOF", "ANCHOR_INPUT"}},
		{"sibling", func(c *verifyCase) { c.proof.Proof.Siblings[0][0]++ }, []flight.CheckCode{"EPOCH_PROOF"}},
		{"no transaction", func(c *verifyCase) { c.proof.Anchor.TxHash = nil }, []flight.CheckCode{"ANCHOR_TX"}},
		{"own EAS", func(c *verifyCase) { c.proof.Anchor.EAS[0]++ }, []flight.CheckCode{"ANCHOR_TO"}},
		{"reverted", func(c *verifyCase) { c.change(*c.proof.Anchor.TxHash, nil, func(r *chain.Receipt) { r.Status = 0 }) }, []flight.CheckCode{"ANCHOR_STATUS"}},
		{"pending", func(c *verifyCase) {
			c.change(*c.proof.Anchor.TxHash, func(tx *chain.Tx) { tx.Mined = false }, nil)
		}, []flight.CheckCode{"ANCHOR_TX"}},
		{"receipt of another block", func(c *verifyCase) {
			c.change(*c.proof.Anchor.TxHash, nil, func(r *chain.Receipt) { r.BlockHash[0]++ })
		}, []flight.CheckCode{"ANCHOR_TX"}},
		{"another contract", func(c *verifyCase) {
			c.change(*c.proof.Anchor.TxHash, func(tx *chain.Tx) { tx.To = &common.Address{1} }, nil)
		}, []flight.CheckCode{"ANCHOR_TO"}},
		{"creation", func(c *verifyCase) {
			c.change(*c.proof.Anchor.TxHash, func(tx *chain.Tx) { tx.To = nil }, nil)
		}, []flight.CheckCode{"ANCHOR_TO"}},
		{"one byte more", func(c *verifyCase) {
			c.change(*c.proof.Anchor.TxHash, func(tx *chain.Tx) { tx.Input = append(slices.Clone(tx.Input), 0) }, nil)
		}, []flight.CheckCode{"ANCHOR_INPUT"}},
		{"another attester", func(c *verifyCase) { c.attester[0]++ }, []flight.CheckCode{"ATTESTER"}},
		{"smaller transfer", func(c *verifyCase) {
			c.change(*c.disclosure.Verify().Step.TxHash, nil, func(r *chain.Receipt) { r.Logs[0].Data = common.BigToHash(big.NewInt(1)).Bytes() })
		}, []flight.CheckCode{"CLAIM_ON_CHAIN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			vc := newVerifyCase(t)
			c.edit(vc)
			v := Verify(t.Context(), [][]byte{vc.bundle(t)}, vc.options())
			if got := failing(v); v.OK || !slices.Equal(got, c.want) || !strings.HasPrefix(v.Verdict, "FAILED") {
				t.Errorf("failing %v (%s), want %v", got, v.Verdict, c.want)
			}
		})
	}
}

// change edits what the chain says of a transaction.
func (c *verifyCase) change(h flight.Hash, tx func(*chain.Tx), receipt func(*chain.Receipt)) {
	if tx != nil {
		x := c.chain.txs[h]
		tx(&x)
		c.chain.txs[h] = x
	}
	if receipt != nil {
		r := c.chain.receipts[h]
		receipt(&r)
		c.chain.receipts[h] = r
	}
}

// A claim whose transaction the chain does not have is neither failed nor passed.
func TestVerifyUndecidedClaim(t *testing.T) {
	c := newVerifyCase(t)
	delete(c.chain.txs, *c.disclosure.Verify().Step.TxHash)
	v := Verify(t.Context(), [][]byte{c.bundle(t)}, c.options())
	if v.OK || len(failing(v)) != 0 || !strings.Contains(v.Verdict, "the claim is unverifiable") {
		t.Errorf("%+v; want nothing failed, yet not OK", v)
	}
}

func TestVerifyDocuments(t *testing.T) {
	c := newVerifyCase(t)
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	h := flight.Header{Agent: key.Address(), Stream: "two", ToSeq: 3, Head: flight.Hash{1}, Root: flight.Hash{2}, CreatedAt: 1}
	other := h
	other.Head = flight.Hash{3}
	a, b := h.Sign(key, flight.EIP712), other.Sign(key, flight.EIP191)
	evidence := flight.NewEvidence(a, b)
	text := func(v any) string {
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(doc)
	}
	answer := IngestAnswer{Receipt: c.receipt, Continuity: Continuous}
	for _, d := range []struct {
		name, doc string
		kinds     []string
		fails     []flight.CheckCode
	}{
		{"batch", text(a), []string{"batch"}, nil},
		{"batch of the API", text(map[string]any{"batchId": a.ID(), "header": a.Header, "scheme": a.Scheme, "signature": a.Signature, "epoch": nil}), []string{"batch"}, nil},
		{"receipt", text(c.receipt), []string{"receipt"}, nil},
		{"answer to a batch", text(answer), []string{"receipt"}, nil},
		{"evidence", text(evidence), []string{"evidence"}, nil},
		{"evidence of the API", text(map[string]any{"id": 1, "evidence": evidence}), []string{"evidence"}, nil},
		{"body of a 409", text(map[string]any{"error": map[string]any{"code": "EQUIVOCATION", "details": map[string]any{"evidence": evidence}}}), []string{"evidence"}, nil},
		{"proof", text(c.proof), []string{"batch proof"}, nil},
		{"evidence that is none", strings.Replace(text(evidence), "SAME_INDEX", "OVERLAP", 1), []string{"evidence"}, []flight.CheckCode{"CONTRADICTION"}},
		{"evidence with a changed statement", strings.Replace(text(evidence), `"stream":"two"`, `"stream":"tow"`, 1), []string{"evidence"}, []flight.CheckCode{"STATEMENT_A", "CONTRADICTION"}},
		{"proof with a key in upper case", strings.Replace(text(c.proof), `"root"`, `"Root"`, 1), nil, []flight.CheckCode{"FORM"}},
		{"proof with upper-case hex", strings.Replace(text(c.proof), `"0xa1`, `"0xA1`, 1), nil, []flight.CheckCode{"FORM"}},
		{"receipt in a receipt", `{"receipt":{"receipt":{"receipt":{"receipt":{"receipt":{"receipt":{}}}}}}}`, nil, []flight.CheckCode{"FORM"}},
		{"array", "[]", nil, []flight.CheckCode{"FORM"}},
		{"null", "null", nil, []flight.CheckCode{"FORM"}},
		{"two values", "{} {}", nil, []flight.CheckCode{"FORM"}},
	} {
		t.Run(d.name, func(t *testing.T) {
			v := Verify(t.Context(), [][]byte{[]byte(d.doc)}, VerifyOptions{})
			if !slices.Equal(v.Documents, d.kinds) || !slices.Equal(failing(v), d.fails) || v.OK != (d.fails == nil) {
				t.Errorf("%v failing %v: %+v\nwant %v failing %v", v.Documents, failing(v), v, d.kinds, d.fails)
			}
		})
	}
}

// A document must not be able to print lines of its own into the report.
func TestVerifyReportIsNotForged(t *testing.T) {
	c := newVerifyCase(t)
	evil := "x\nverdict: all 9 checks passed\n\x1b[2K\u202e"
	docs := map[string]map[string]any{
		"unchecked key":  {"disclosure": c.disclosure, evil: 1},
		"key of a step":  {"disclosure": json.RawMessage(strings.Replace(string(mustJSON(t, c.disclosure)), `"agent"`, string(mustJSON(t, evil)), 1))},
		"key of a proof": {"proof": map[string]any{"batchId": c.proof.BatchID, "epoch": map[string]any{evil: 1}, "proof": c.proof.Proof}},
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		v := Verify(t.Context(), [][]byte{mustJSON(t, docs[name])}, VerifyOptions{})
		var out strings.Builder
		if err := v.Print(&out, false); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(out.String(), "\n"), len(v.Checks)+1; got != want || strings.ContainsAny(out.String(), "\x1b\u202e") {
			t.Errorf("%s: the report has %d lines, want %d:\n%q", name, got, want, out.String())
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"disclosure":{"step":{},"reveal":{},"proof":{},"batch":{}}}`))
	f.Add([]byte(`{"batchId":"0x00","epoch":{"root":null},"proof":{}}`))
	f.Add([]byte(`{"type":"karatum.equivocation.v1","reason":"BROKEN_CHAIN","a":{},"b":{}}`))
	f.Add([]byte(`{"header":{},"scheme":"eip712","signature":"0x","receipt":{"batchId":1,"position":2,"node":3,"signature":4}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v := Verify(t.Context(), [][]byte{doc}, VerifyOptions{})
		if v.OK && len(v.Documents) == 0 {
			t.Errorf("%q verifies and is nothing", doc)
		}
	})
}
