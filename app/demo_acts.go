package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain"
	"karatum/chain/contracts"
	"karatum/chain/devchain"
	"karatum/flight"
	"karatum/flight/merkle"
	"karatum/flight/recorder"
)

// demoAgent is the agent of the story with what it remembers.
type demoAgent struct {
	key      *flight.Key
	recorder *recorder.Recorder
	merchant flight.Address
	paid     recorder.Ref // sent what it claims
	lied     recorder.Ref // sent less than it claims
	invented recorder.Ref // claims a transaction that is not there
	batches  []flight.Batch
	proof    []byte // the node's proof of the first batch, as served
	opened   []byte // the confirmed disclosure, as sent
	evidence []byte // against the forger, as served
	attester flight.Address
}

func (a *demoAgent) close() {
	if a.recorder == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// What could not be delivered is lost with the demo's directory.
	_ = a.recorder.Close(ctx)
}

const (
	demoGrant = 500_000_000 // tUSDC have six decimals
	demoPrice = 25_000_000
	demoShort = 4_000_000
)

// hire draws the agent's key and funds it on the dev chain.
func (d *demo) hire(ctx context.Context) error {
	a := &d.agent
	key, err := flight.NewKey()
	if err != nil {
		return err
	}
	merchant, err := flight.NewKey()
	if err != nil {
		return err
	}
	a.key, a.merchant, d.res.Agent = key, merchant.Address(), key.Address()
	if err := fundDev(ctx, d.chain, common.Address(key.Address())); err != nil {
		return err
	}
	if _, err := d.token(ctx, "faucet", common.Address(key.Address()), big.NewInt(demoGrant)); err != nil {
		return err
	}
	d.say("  agent     %s, a key drawn a moment ago", key.Address())
	d.say("  chain     %s (chain id %d, runs inside this process)", d.node.ChainURL, devchain.ChainID)
	d.say("  balance   100 test ether, %s", dollars(demoGrant))
	return nil
}

func dollars(n int64) string { return fmt.Sprintf("%d.%02d tUSDC", n/1_000_000, n%1_000_000/10_000) }

// token calls the dev chain's ERC-20 with the agent's key.
func (d *demo) token(ctx context.Context, method string, args ...any) (chain.Receipt, error) {
	c, err := contracts.TestUSDC()
	if err != nil {
		return chain.Receipt{}, err
	}
	data, err := c.ABI.Pack(method, args...)
	if err != nil {
		return chain.Receipt{}, err
	}
	key, err := crypto.ToECDSA(d.agent.key.Bytes())
	if err != nil {
		return chain.Receipt{}, err
	}
	return sendTx(ctx, d.chain, key, devchain.USDCAddress, nil, data)
}

// work records steps of every kind. Two really pay, one of them with a lie about
// the amount; a third invents its transaction.
func (d *demo) work(ctx context.Context) error {
	a := &d.agent
	var err error
	a.recorder, err = recorder.Open(ctx, recorder.Options{
		Journal: filepath.Join(d.node.Dir, "agent-journal"), Signer: recorder.Local(a.key), NodeURL: d.node.URL, Stream: "invoices",
		RetainPlaintext: true, OnError: func(err error) { d.say("  recorder  %v", err) },
	})
	if err != nil {
		return err
	}
	for _, s := range []recorder.Step{
		{Kind: "llm", Name: "planner", Prompt: "Pay the invoices that are due.", Result: "Two are due; pay both, then report."},
		{Kind: "tool", Name: "read_invoice", Args: map[string]any{"id": "2041"}, Result: map[string]any{"amount": dollars(demoPrice), "to": a.merchant}},
	} {
		if _, err := d.record(ctx, s, "step of kind "+s.Kind+": "+s.Name); err != nil {
			return err
		}
	}
	if a.paid, err = d.pay(ctx, demoPrice, demoPrice); err != nil {
		return err
	}
	if a.lied, err = d.pay(ctx, demoShort, 10*demoShort); err != nil {
		return err
	}
	a.invented, err = d.record(ctx, a.payment(flight.Keccak256([]byte("no such transaction")), demoPrice),
		"says it paid "+dollars(demoPrice)+", in a transaction that it made up")
	return err
}

func (d *demo) record(ctx context.Context, s recorder.Step, what string) (recorder.Ref, error) {
	ref, err := d.agent.recorder.Record(ctx, s)
	if err == nil {
		d.say("  step %d    %s", ref.Seq, what)
	}
	d.res.Stream = ref.Stream
	return ref, err
}

func (a *demoAgent) payment(tx flight.Hash, claimed int64) recorder.Step {
	return recorder.Step{
		Kind: "tx", Name: "pay", ChainID: devchain.ChainID, TxHash: tx,
		Args:  map[string]any{"memo": "invoice 2041", "to": a.merchant},
		Claim: &flight.Claim{Kind: flight.ClaimERC20, Token: flight.Address(devchain.USDCAddress), To: a.merchant, Amount: big.NewInt(claimed)},
	}
}

// pay sends tokens for real and records what the agent says about it.
func (d *demo) pay(ctx context.Context, amount, claimed int64) (recorder.Ref, error) {
	r, err := d.token(ctx, "transfer", common.Address(d.agent.merchant), big.NewInt(amount))
	if err != nil {
		return recorder.Ref{}, err
	}
	what := "paid " + dollars(amount) + " and says so"
	if claimed != amount {
		what = "paid " + dollars(amount) + " but says " + dollars(claimed)
	}
	return d.record(ctx, d.agent.payment(flight.Hash(r.TxHash), claimed), fmt.Sprintf("%s (transaction %s in block %d)", what, r.TxHash.Hex()[:10], r.BlockNumber))
}

// deliver signs and sends two batches and checks the node's receipts.
func (d *demo) deliver(ctx context.Context) error {
	a := &d.agent
	if err := a.recorder.Flush(ctx); err != nil {
		return err
	}
	last, err := d.record(ctx, recorder.Step{Kind: "note", Args: "both invoices are paid"}, "a note, in a batch of its own")
	if err != nil {
		return err
	}
	if err := a.recorder.Flush(ctx); err != nil {
		return err
	}
	for _, ref := range []recorder.Ref{a.paid, last} {
		disclosed, err := a.recorder.Disclose(ref.Stream, ref.Seq)
		if err != nil {
			return err
		}
		if err := d.taken(ctx, disclosed.Batch); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) taken(ctx context.Context, b flight.Batch) error {
	d.agent.batches = append(d.agent.batches, b)
	d.res.Batches = append(d.res.Batches, b.ID())
	var v BatchView
	raw, err := d.want(ctx, "/v1/flight/batches/"+b.ID().String(), nil, &v)
	if err != nil {
		return err
	}
	checked := Verify(ctx, [][]byte{raw}, VerifyOptions{})
	d.expect(checked.OK && v.BatchID == b.ID(), "batch %d with %d steps is stored at position %d, and the node's signed receipt holds",
		b.Header.Index, b.Header.Span(), v.Receipt.Position)
	d.say("            %s/batches/%s", d.node.URL, b.ID())
	return nil
}

// anchor has the operator anchor now and reads the proof.
func (d *demo) anchor(ctx context.Context) error {
	a := &d.agent
	var run AnchorRun
	if _, err := d.want(ctx, "/v1/admin/anchor", []byte("{}"), &run); err != nil {
		return err
	}
	d.expect(run.Epochs == 1 && run.Batches == len(a.batches), "one epoch over %d batches", run.Batches)
	var v BatchProofView
	raw, err := d.want(ctx, "/v1/flight/batches/"+a.batches[0].ID().String()+"/proof", nil, &v)
	if err != nil {
		return err
	}
	a.proof, a.attester, d.res.Epoch = raw, v.Anchor.Attester, v.Epoch.Root
	if v.Anchor.TxHash == nil || v.Anchor.BlockNumber == nil {
		return fmt.Errorf("the proof names no transaction: %s", raw)
	}
	checked := Verify(ctx, [][]byte{raw}, VerifyOptions{Chains: []VerifyChain{d.chain}, Attester: &a.attester})
	d.expect(checked.OK, "transaction %s in block %d attests its root", v.Anchor.TxHash.String()[:10], *v.Anchor.BlockNumber)
	d.say("            %s/epochs/%s", d.node.URL, v.Epoch.Root)
	return nil
}

// disclose opens the claims of three steps and compares the node's verdicts.
func (d *demo) disclose(ctx context.Context) error {
	a := &d.agent
	for _, c := range []struct {
		ref    recorder.Ref
		state  flight.State
		reason string
		what   string
	}{
		{a.paid, flight.Confirmed, "", "the chain shows what the agent said"},
		{a.lied, flight.Contradicted, "", "the chain shows another amount"},
		{a.invented, flight.Unverifiable, flight.TxNotFound, "the chain knows no such transaction; that proves nothing"},
	} {
		bundle, err := a.recorder.Disclose(c.ref.Stream, c.ref.Seq, "claim")
		if err != nil {
			return err
		}
		body, err := json.Marshal(bundle)
		if err != nil {
			return err
		}
		var v StepView
		if _, err := d.want(ctx, "/v1/flight/proofs", body, &v); err != nil {
			return err
		}
		if c.state == flight.Confirmed {
			a.opened = body
		}
		d.expect(v.Verdict.State == c.state && v.Verdict.Reason == c.reason, "step %d is %s: %s", c.ref.Seq, v.Verdict.State, c.what)
		d.say("            %s/agents/%s/%s/%d", d.node.URL, d.res.Agent, url.PathEscape(c.ref.Stream), c.ref.Seq)
	}
	var v AgentView
	if _, err := d.want(ctx, "/v1/flight/agents/"+d.res.Agent.String(), nil, &v); err != nil {
		return err
	}
	d.expect(v.DevField.Confirmed == 1 && v.DevField.Contradicted == 1 && v.OpenedSteps == 3 && v.RecordedSteps == 6,
		"the agent's page counts 1 confirmed, 1 contradicted, with %d of %d steps opened", v.OpenedSteps, v.RecordedSteps)
	d.say("            %s/agents/%s", d.node.URL, d.res.Agent)
	return nil
}

// forge signs another second batch with the agent's own key, as somebody would
// who wants the note never to have been written.
func (d *demo) forge(ctx context.Context) error {
	a := &d.agent
	h := a.batches[1].Header
	h.Head = flight.Keccak256([]byte("a kinder history"))
	h.Root = merkle.Leaf(h.Head)
	body, err := json.Marshal(h.Sign(a.key, flight.EIP191))
	if err != nil {
		return err
	}
	status, raw, err := d.call(ctx, "/v1/flight/batches", body, nil)
	if err != nil {
		return err
	}
	d.expect(status == 409, "the node refuses a second batch 1 with 409")
	a.evidence = raw
	checked := Verify(ctx, [][]byte{raw}, VerifyOptions{})
	d.expect(checked.OK, "its answer carries evidence that convicts by itself: both statements are signed by the agent")
	var v AgentView
	if _, err := d.want(ctx, "/v1/flight/agents/"+d.res.Agent.String(), nil, &v); err != nil {
		return err
	}
	d.expect(v.Equivocated, "the agent carries the mark from now on")
	d.say("            %s/conflicts", d.node.URL)
	return nil
}

// verify writes the bundle, a tampered copy and the evidence to files, and checks
// them as karatum verify does.
func (d *demo) verify(ctx context.Context) error {
	a := &d.agent
	bundle, err := json.Marshal(map[string]json.RawMessage{"disclosure": a.opened, "proof": a.proof})
	if err != nil {
		return err
	}
	honest, forged := fmt.Sprintf(`"amount":"%d"`, demoPrice), fmt.Sprintf(`"amount":"%d"`, 10*demoPrice)
	tampered := bytes.Replace(bundle, []byte(honest), []byte(forged), 1)
	if bytes.Equal(tampered, bundle) {
		return errors.New("the bundle does not show the amount")
	}
	for name, doc := range map[string][]byte{"bundle.json": bundle, "tampered.json": tampered, "evidence.json": a.evidence} {
		if err := os.WriteFile(d.file(name), doc, 0o600); err != nil {
			return err
		}
	}
	d.res.Files = []string{d.file("bundle.json"), d.file("tampered.json"), d.file("evidence.json")}
	d.judge(ctx, "bundle.json", true, "", VerifyOptions{})
	d.judge(ctx, "tampered.json", false, flight.CheckCommitment, VerifyOptions{})
	d.judge(ctx, "evidence.json", true, "", VerifyOptions{})
	d.judge(ctx, "bundle.json", true, "", VerifyOptions{Chains: []VerifyChain{d.chain}, Attester: &a.attester})
	return nil
}

func (d *demo) file(name string) string { return filepath.Join(d.node.Dir, name) }

// judge verifies a file and expects the outcome, a failure naming its check.
func (d *demo) judge(ctx context.Context, name string, ok bool, failing flight.CheckCode, o VerifyOptions) {
	line := "karatum verify " + d.file(name)
	if len(o.Chains) > 0 {
		line += " --rpc-url " + d.node.ChainURL + " --attester " + o.Attester.String()
	}
	doc, err := os.ReadFile(d.file(name))
	if err != nil {
		d.expect(false, "%s: %v", line, err)
		return
	}
	v := Verify(ctx, [][]byte{doc}, o)
	first := flight.CheckCode("")
	for _, c := range v.Checks {
		if c.State == flight.Fail && first == "" {
			first = c.Code
		}
	}
	d.say("  $ %s", line)
	if !ok {
		d.expect(!v.OK && first == failing, "refused, as it must be: %s fails", first)
		return
	}
	d.expect(v.OK, "%s", v.Verdict)
}

func bodyReader(body []byte) io.Reader {
	if body == nil {
		return nil
	}
	return bytes.NewReader(body)
}
