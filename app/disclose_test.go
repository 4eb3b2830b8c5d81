package app

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/time/rate"

	"karatum/chain"
	"karatum/chain/contracts"
	"karatum/chain/devchain"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/store"
)

// token calls the test token as the author, who needs value for gas.
func (r *rig) token(a *author, method string, args ...any) flight.Hash {
	r.t.Helper()
	c, err := contracts.TestUSDC()
	if err != nil {
		r.t.Fatal(err)
	}
	data, err := c.ABI.Pack(method, args...)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.transact(a, devchain.USDCAddress, nil, data)
}

func (r *rig) transact(a *author, to common.Address, value *big.Int, data []byte) flight.Hash {
	r.t.Helper()
	key, err := crypto.ToECDSA(a.key.Bytes())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := fundDev(r.t.Context(), r.client, common.Address(a.key.Address())); err != nil {
		r.t.Fatal(err)
	}
	rc, err := sendTx(r.t.Context(), r.client, key, to, value, data)
	if err != nil {
		r.t.Fatal(err)
	}
	return flight.Hash(rc.TxHash)
}

func usdc(to flight.Address, amount int64) *flight.Claim {
	return &flight.Claim{Kind: flight.ClaimERC20, Token: flight.Address(devchain.USDCAddress), To: to, Amount: big.NewInt(amount)}
}

func TestVerdicts(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	payee := flight.Address{0xaa}
	r.token(a, "faucet", common.Address(a.key.Address()), big.NewInt(100_000_000))
	paid := r.token(a, "transfer", common.Address(payee), big.NewInt(25_000_000))
	approved := r.token(a, "approve", common.Address(payee), big.NewInt(7_000_000))
	sent := r.transact(a, common.Address(payee), big.NewInt(5), nil)
	missing := flight.Keccak256([]byte("never sent"))
	for _, c := range []struct {
		claim  *flight.Claim
		chain  uint64
		tx     *flight.Hash
		state  flight.State
		reason string
	}{
		{usdc(payee, 25_000_000), 31337, &paid, flight.Confirmed, ""},
		{usdc(payee, 7_000_000), 31337, &approved, flight.Contradicted, ""}, // an Approval is no Transfer
		{&flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(5)}, 31337, &sent, flight.Confirmed, ""},
		{usdc(payee, 1), 31337, &missing, flight.Unverifiable, flight.TxNotFound},
		{usdc(payee, 1), 8453, &paid, flight.Unverifiable, flight.ChainUnsupported},
		{usdc(payee, 1), 0, nil, flight.Unverifiable, flight.NoTx},
		{&flight.Claim{Kind: "bridge.deposit"}, 31337, &sent, flight.Unverifiable, flight.UnsupportedClaim},
	} {
		a.step(t, c.claim, c.chain, c.tx)
		b := a.batch(t, flight.EIP712)
		r.mustIngest(b)
		v, err := r.app.Disclose(t.Context(), a.disclose(t, b, b.Header.ToSeq, "claim"), false)
		if err != nil || v.Verdict.State != c.state || v.Verdict.Reason != c.reason {
			t.Errorf("%s of %v: %s %s, %v; want %s %s", c.claim.Kind, c.claim.Amount, v.Verdict.State, v.Verdict.Reason, err, c.state, c.reason)
		}
	}
	ag, err := r.app.Agent(t.Context(), a.key.Address())
	if err != nil || ag.DevField.Confirmed != 2 || ag.DevField.Contradicted != 1 || ag.Field.Rating != nil || ag.OpenedSteps != 7 || ag.Coverage != 1 {
		t.Errorf("agent = %+v, %v; want 2 confirmed and 1 contradicted on dev, no public rating, coverage 1", ag, err)
	}
	for state, want := range map[flight.State]int{"": 7, flight.Confirmed: 2, flight.Contradicted: 1, flight.Unverifiable: 4} {
		l, err := r.app.Steps(t.Context(), a.key.Address(), state, Page{Limit: 50})
		if err != nil || len(l.Items) != want {
			t.Errorf("steps with verdict %q: %d, %v; want %d", state, len(l.Items), err, want)
		}
		for _, v := range l.Items {
			if state != "" && v.Verdict.State != state {
				t.Errorf("a step with verdict %s is listed under %s", v.Verdict.State, state)
			}
		}
	}
	if n, err := r.app.StepCounts(t.Context(), a.key.Address()); err != nil || n != (VerdictsView{Confirmed: 2, Contradicted: 1, Unverifiable: 4}) {
		t.Errorf("counts = %+v, %v", n, err)
	}
}

func TestAnchoring(t *testing.T) {
	r := newRig(t, nil)
	a, other := newAuthor(t, "main"), newAuthor(t, "main")
	deliver := func(a *author, n int) {
		for range n {
			a.step(t, nil, 0, nil)
			r.mustIngest(a.batch(t, flight.EIP712))
		}
	}
	check := func(batches, waiting uint64, anchored bool) {
		t.Helper()
		v, err := r.app.Anchoring(t.Context(), a.key.Address())
		if err != nil || v.Batches != batches || v.Waiting != waiting || (v.Last != nil) != anchored {
			t.Errorf("%+v, %v; want %d batches, %d waiting, anchored %t", v, err, batches, waiting, anchored)
		}
	}
	if _, err := r.app.Anchoring(t.Context(), a.key.Address()); !errors.Is(err, ErrUnknownAgent) {
		t.Errorf("nobody: %v", err)
	}
	deliver(a, 2)
	deliver(other, 3)
	check(2, 2, false)
	if _, err := r.app.AnchorNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(2, 0, true)
	deliver(a, 1)
	deliver(other, 1)
	check(3, 1, true)
}

func TestOneTransactionCountsOnce(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	payee := flight.Address{0xbb}
	sent := r.transact(a, common.Address(payee), big.NewInt(9), nil)
	claim := func(n int64) *flight.Claim {
		return &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(n)}
	}
	open := func(n int64) AgentView {
		a.step(t, claim(n), 31337, &sent)
		b := a.batch(t, flight.EIP712)
		r.mustIngest(b)
		if _, err := r.app.Disclose(t.Context(), a.disclose(t, b, b.Header.ToSeq, "claim"), false); err != nil {
			t.Fatal(err)
		}
		v, err := r.app.Agent(t.Context(), a.key.Address())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for range 5 {
		open(9)
	}
	if v := open(9); v.DevField.Confirmed != 1 || v.OpenedSteps != 6 {
		t.Errorf("six records of one transfer: %+v; want 1 confirmed", v.DevField)
	}
	if v := open(10); v.DevField.Confirmed != 0 || v.DevField.Contradicted != 1 {
		t.Errorf("with one lie about it: %+v; want it contradicted", v.DevField)
	}
}

func TestDiscloseKeepsWhatWasAsked(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.step(t, usdc(flight.Address{1}, 1), 0, nil)
	b := a.batch(t, flight.EIP712)
	doc := a.disclose(t, b, 0, "claim", "args")
	_, err := r.app.Disclose(t.Context(), doc, false)
	wantCode(t, err, "UNKNOWN_BATCH")
	r.mustIngest(b)
	v, err := r.app.Disclose(t.Context(), doc, false)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(v.Disclosure); strings.Contains(s, "what was asked") || !strings.Contains(s, flight.ClaimERC20) {
		t.Errorf("without publishing, kept: %s", s)
	}
	if v, err = r.app.Disclose(t.Context(), doc, true); err != nil || !strings.Contains(string(v.Disclosure), "what was asked") {
		t.Errorf("with publishing: %v, %s", err, v.Disclosure)
	}
	d, err := flight.ParseDisclosure(v.Disclosure)
	if err != nil || d.Verify().Err() != nil {
		t.Errorf("what is served does not verify: %v", err)
	}
	if err := r.app.DeleteReveals(t.Context(), v.StepHash); err != nil {
		t.Fatal(err)
	}
	if v, err = r.app.Step(t.Context(), v.StepHash); err != nil || strings.Contains(string(v.Disclosure), "what was asked") || string(v.Claim) == "null" {
		t.Errorf("after deletion: %v, claim %s, %s", err, v.Claim, v.Disclosure)
	}
}

func TestDiscloseRefusals(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.step(t, usdc(flight.Address{1}, 1), 0, nil)
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	doc := string(a.disclose(t, b, 0, "claim", "args"))
	for _, c := range []struct{ name, doc, code string }{
		{"changed value", strings.Replace(doc, "what was asked", "what was not", 1), "COMMITMENT"},
		{"changed step", strings.Replace(doc, `"status":"ok"`, `"status":"error"`, 1), "PROOF"},
		{"no shape", `{"step":{}}`, "BAD_REQUEST"},
		{"huge reveal", strings.Replace(doc, "what was asked", strings.Repeat("x", 2<<20), 1), "BAD_REQUEST"},
	} {
		_, err := r.app.Disclose(t.Context(), []byte(c.doc), true)
		t.Log(c.name)
		wantCode(t, err, c.code)
	}
}

func TestBrokenChain(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 1)
	liar := a.steps[0]
	liar.Seq, liar.Prev = 1, flight.Keccak256([]byte("another past"))
	a.add(liar, a.opens[0])
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	for seq := range uint64(2) {
		if _, err := r.app.Disclose(t.Context(), a.disclose(t, b, seq), false); err != nil {
			t.Fatal(err)
		}
	}
	l, err := r.app.Equivocations(t.Context(), nil, Page{Limit: 5})
	if err != nil || len(l.Items) != 1 || l.Items[0].Reason != string(flight.BrokenChain) {
		t.Fatalf("evidence = %+v, %v; want one BROKEN_CHAIN", l, err)
	}
	ev, err := flight.ParseEvidence(l.Items[0].Evidence)
	if err != nil || ev.Verify() != nil {
		t.Errorf("the evidence does not prove itself: %v", err)
	}
}

// What is published counts against the key's day once: a step that is posted again
// costs nothing, and a refusal names the day's end.
func TestRevealQuota(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 3)
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	publish := func(seq uint64) error {
		t.Helper()
		_, err := r.app.Disclose(t.Context(), a.disclose(t, b, seq, "args"), true)
		return err
	}
	if err := publish(0); err != nil {
		t.Fatal(err)
	}
	rest := &store.Step{Hash: a.hashes[1], BatchID: b.ID(), Agent: a.key.Address(), Stream: a.stream, Seq: 50, Record: a.steps[1].Canonical(), Proof: []byte("{}"),
		Reveals: map[string]json.RawMessage{"prompt": make([]byte, maxRevealDayBytes-150)}, Verdict: flight.Unverified(flight.NoClaim)}
	if err := r.store.Update(t.Context(), func(tx *store.Tx) error { return tx.UpsertStep(t.Context(), rest) }); err != nil {
		t.Fatal(err)
	}
	if err := publish(0); err != nil {
		t.Errorf("the same once more: %v", err)
	}
	e := wantCode(t, publish(2), "REVEAL_QUOTA")
	r.shift.Add(int64(e.RetryAfter))
	if err := publish(2); err != nil {
		t.Errorf("after %s: %v", e.RetryAfter, err)
	}
}

// A deafChain answers every call with one error.
type deafChain struct{ err error }

func (d deafChain) TransactionByHash(context.Context, common.Hash) (chain.Tx, error) {
	return chain.Tx{}, d.err
}

func (d deafChain) TransactionReceipt(context.Context, common.Hash) (chain.Receipt, error) {
	return chain.Receipt{}, d.err
}

func (d deafChain) HeaderByNumber(context.Context, uint64) (chain.Header, error) {
	return chain.Header{}, d.err
}

func (d deafChain) BlockNumber(context.Context) (uint64, error) { return 0, d.err }

func TestRecheck(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	payee := flight.Address{0xcc}
	sent := r.transact(a, common.Address(payee), big.NewInt(3), nil)
	a.step(t, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(3)}, 31337, &sent)
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	var hash flight.Hash
	for _, kind := range []error{chain.ErrUnavailable, chain.ErrTimeout, chain.ErrRateLimited, chain.ErrMalformed, chain.ErrIndexing, chain.ErrPruned, chain.ErrRPC} {
		r.app.chains[31337] = deafChain{&chain.CallError{Method: "eth_getTransactionByHash", Kind: kind, RetryAfter: time.Minute}}
		v, err := r.app.Disclose(t.Context(), a.disclose(t, b, 0, "claim"), false)
		if err != nil || v.Verdict.State != flight.Unverifiable || v.Verdict.Reason != flight.RPCError {
			t.Fatalf("%v: %+v, %v; want unverifiable RPC_ERROR", kind, v.Verdict, err)
		}
		hash = v.StepHash
		r.shift.Add(int64(8 * time.Hour)) // past every pause
		if _, err := r.app.recheckDue(t.Context()); err == nil {
			t.Errorf("%v: the run reports no error", kind)
		}
		r.shift.Add(int64(8 * time.Hour))
	}
	r.app.chains[31337] = r.client
	if _, err := r.app.recheckDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := r.app.Step(t.Context(), hash)
	if err != nil || v.Verdict.State != flight.Confirmed || !v.Verdict.Final {
		t.Errorf("once the node answers: %+v, %v; want confirmed and final", v.Verdict, err)
	}
	if note, err := r.app.recheckDue(t.Context()); note != "" || err != nil {
		t.Errorf("a final verdict is looked at again: %q, %v", note, err)
	}
}

// TestSilenceTakesNothingBack: a verdict that is not final stays while the chain's
// node does not answer.
func TestSilenceTakesNothingBack(t *testing.T) {
	r := newRig(t, func(c *Config, _ *Deps) { c.Confirmations = 50 })
	a := newAuthor(t, "main")
	payee := flight.Address{0xcc}
	sent := r.transact(a, common.Address(payee), big.NewInt(3), nil)
	a.step(t, &flight.Claim{Kind: flight.ClaimNative, To: payee, Amount: big.NewInt(3)}, 31337, &sent)
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	v, err := r.app.Disclose(t.Context(), a.disclose(t, b, 0, "claim"), false)
	if err != nil || v.Verdict.State != flight.Confirmed || v.Verdict.Final {
		t.Fatalf("%+v, %v; want confirmed and not final", v.Verdict, err)
	}
	r.app.chains[31337] = deafChain{&chain.CallError{Method: "eth_getTransactionByHash", Kind: chain.ErrTimeout}}
	r.shift.Add(int64(8 * time.Hour))
	if _, err := r.app.recheckDue(t.Context()); err == nil {
		t.Error("the run reports no error")
	}
	if v, err = r.app.Step(t.Context(), v.StepHash); err != nil || v.Verdict.State != flight.Confirmed {
		t.Errorf("%+v, %v; want confirmed still", v.Verdict, err)
	}
}

func TestRecheckGivesUp(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	missing := flight.Keccak256([]byte("never"))
	a.step(t, &flight.Claim{Kind: flight.ClaimTxSuccess}, 31337, &missing)
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	v, err := r.app.Disclose(t.Context(), a.disclose(t, b, 0, "claim"), false)
	if err != nil {
		t.Fatal(err)
	}
	r.shift.Add(int64(recheckGiveUp + time.Hour))
	if note, err := r.app.recheckDue(t.Context()); note == "" || err != nil {
		t.Fatalf("the last look: %q, %v", note, err)
	}
	r.shift.Add(int64(24 * time.Hour))
	if note, err := r.app.recheckDue(t.Context()); note != "" || err != nil {
		t.Errorf("after seven days it is still asked: %q, %v", note, err)
	}
	if v, err = r.app.Step(t.Context(), v.StepHash); err != nil || v.Verdict.Reason != flight.TxNotFound {
		t.Errorf("verdict = %+v, %v; want still unverifiable", v.Verdict, err)
	}
	err = r.store.View(t.Context(), func(tx *store.ReadTx) error {
		j, err := tx.Recheck(t.Context(), 31337, missing)
		if err == nil && j.Open {
			return errors.New("the job is open")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Opening one more step of a transaction that many steps name judges that step alone;
// the recheck job judges all of them.
func TestManyStepsOfOneTransaction(t *testing.T) {
	r := newRig(t, nil)
	r.app.lookups = rate.NewLimiter(rate.Inf, 0)
	a := newAuthor(t, "main")
	missing := flight.Keccak256([]byte("never"))
	for range recheckSteps + 2 {
		a.step(t, &flight.Claim{Kind: flight.ClaimTxSuccess}, 31337, &missing)
	}
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	var views []StepView
	for seq := range uint64(len(a.steps)) {
		r.shift.Add(int64(time.Second)) // so that each look has a time of its own
		v, err := r.app.Disclose(t.Context(), a.disclose(t, b, seq, "claim"), false)
		if err != nil || v.Verdict.Reason != flight.TxNotFound {
			t.Fatalf("step %d: %+v, %v", seq, v.Verdict, err)
		}
		views = append(views, v)
	}
	at := func(seq int) uint64 {
		t.Helper()
		v, err := r.app.Step(t.Context(), views[seq].StepHash)
		if err != nil {
			t.Fatal(err)
		}
		return v.Verdict.At
	}
	if got, want := at(0), at(lookSteps-1); got != want {
		t.Errorf("the first step was judged at %d, want with the last of a few at %d", got, want)
	}
	if first, last := at(0), at(len(views)-1); first >= last {
		t.Errorf("the first step was judged at %d, the last at %d: one step more judges all", first, last)
	}
	r.shift.Add(int64(8 * time.Hour))
	before := r.app.nowMs()
	if note, err := r.app.recheckDue(t.Context()); !strings.HasPrefix(note, "1 of 1 ") || err != nil {
		t.Fatalf("the run: %q, %v", note, err)
	}
	for seq := range views {
		if at(seq) < before {
			t.Fatalf("step %d was not judged again", seq)
		}
	}
}

// What is served of a stored step is put together from its stored parts, byte for byte
// what writing the disclosure itself gives.
func TestServedDisclosure(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main <&>")
	value := canon.Obj(canon.Member{Key: "\x00\"<", Value: canon.Str("\xed\xa0\x80 \u2028</script>")}, canon.Member{Key: "n", Value: canon.Value{Kind: canon.Number, Num: 1e21}})
	a.step(t, nil, 0, nil)
	a.step(t, usdc(flight.Address{9}, 42), 0, nil)
	last := a.steps[1]
	open := map[string]flight.Opening{}
	for field, dst := range map[string]**flight.Hash{"prompt": &last.Prompt, "result": &last.Result} {
		h, err := flight.CommitValue(value, flight.Hash{1})
		if err != nil {
			t.Fatal(err)
		}
		*dst, open[field] = &h, flight.Opening{Field: field, Salt: flight.Hash{1}, Value: value}
	}
	open["args"], open["claim"] = a.opens[1]["args"], a.opens[1]["claim"]
	a.steps[1], a.hashes[1], a.opens[1] = last, last.Hash(), open
	b := a.batch(t, flight.EIP191)
	r.mustIngest(b)
	for _, fields := range [][]string{{}, {"claim"}, {"prompt", "args", "result", "claim"}} {
		v, err := r.app.Disclose(t.Context(), a.disclose(t, b, 1, fields...), true)
		if err != nil {
			t.Fatal(err)
		}
		d, err := flight.ParseDisclosure(v.Disclosure)
		if err != nil {
			t.Fatalf("%v opened: %v in %s", fields, err, v.Disclosure)
		}
		if want, err := d.MarshalJSON(); err != nil || d.Verify().Err() != nil || len(d.Reveal) != len(fields) || string(v.Disclosure) != string(want) {
			t.Errorf("%v opened: %s\nwant %s, %v", fields, v.Disclosure, want, err)
		}
		if want := string(canon.Append(nil, open["claim"].Value)); len(fields) > 0 && string(v.Claim) != want || len(fields) == 0 && string(v.Claim) != "null" {
			t.Errorf("%v opened: the claim is %s, want %s", fields, v.Claim, want)
		}
	}
	for _, doc := range []string{"", "{}", strings.Repeat("a", beforeValue+2)} {
		if _, err := openedValue([]byte(doc)); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("value of %q: %v", doc, err)
		}
	}
}
