package flight_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/merkle"
)

func TestReceipt(t *testing.T) {
	k := testKey(t, 9)
	r := flight.Receipt{BatchID: flight.Hash{1}, Position: 5, ReceivedAt: 1760000123456, AnchorBy: 1760000900, Node: k.Address()}
	r.Signature = k.SignText(r.Text())
	if err := r.Verify(); err != nil {
		t.Fatal(err)
	}
	if text := string(mustMarshal(t, r)); strings.Contains(text, "group") {
		t.Errorf("a receipt alone has a group: %s", text)
	}
	for name, change := range map[string]func(*flight.Receipt){
		"batchId": func(r *flight.Receipt) { r.BatchID[0] ^= 1 }, "position": func(r *flight.Receipt) { r.Position++ }, "receivedAt": func(r *flight.Receipt) { r.ReceivedAt++ },
		"anchorBy": func(r *flight.Receipt) { r.AnchorBy++ }, "node": func(r *flight.Receipt) { r.Node[0] ^= 1 }, "signature": func(r *flight.Receipt) { r.Signature[5] ^= 1 }, "no signature": func(r *flight.Receipt) { r.Signature = flight.Signature{} },
	} {
		changed := r
		change(&changed)
		if err := changed.Verify(); !errors.Is(err, flight.ErrSignature) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

func TestReceiptGroup(t *testing.T) {
	k := testKey(t, 9)
	receipts := make([]flight.Receipt, 5)
	var items []flight.Hash
	for i := range receipts {
		receipts[i] = flight.Receipt{BatchID: flight.Hash{byte(i)}, Position: uint64(i), Node: k.Address()}
		items = append(items, receipts[i].Item())
	}
	root, proofs, err := merkle.Proofs(items)
	if err != nil {
		t.Fatal(err)
	}
	sig := k.SignText(flight.GroupText(root, 5))
	for i := range receipts {
		r := &receipts[i]
		r.Signature, r.Group = sig, &flight.ReceiptGroup{Root: root, Size: 5, Proof: proofs[i]}
		if err := r.Verify(); err != nil {
			t.Fatalf("receipt %d: %v", i, err)
		}
		var back flight.Receipt
		if err := json.Unmarshal(mustMarshal(t, r), &back); err != nil || back.Verify() != nil {
			t.Errorf("receipt %d comes back as %+v, %v", i, back, err)
		}
		for name, change := range map[string]func(*flight.ReceiptGroup){
			"root": func(g *flight.ReceiptGroup) { g.Root[0] ^= 1 }, "size": func(g *flight.ReceiptGroup) { g.Size++ }, "both sizes": func(g *flight.ReceiptGroup) { g.Size++; g.Proof.Size++ },
			"index": func(g *flight.ReceiptGroup) { g.Proof.Index ^= 1 }, "siblings": func(g *flight.ReceiptGroup) { g.Proof.Siblings = g.Proof.Siblings[1:] },
		} {
			changed, g := *r, *r.Group
			change(&g)
			changed.Group = &g
			if changed.Verify() == nil {
				t.Errorf("receipt %d: %s of the group changed, and it verifies", i, name)
			}
		}
		alone := *r
		alone.Group = nil
		if alone.Verify() == nil {
			t.Errorf("receipt %d verifies without its group", i)
		}
	}
}

func TestEpoch(t *testing.T) {
	ids := make([]flight.Hash, flight.MaxEpoch)
	for i := range ids {
		ids[i] = flight.Hash{byte(i), byte(i >> 8)}
	}
	root, err := flight.EpochRoot(ids)
	if err != nil {
		t.Fatal(err)
	}
	p, err := flight.EpochProof(ids, 300)
	if err != nil || flight.VerifyEpoch(root, flight.MaxEpoch, ids[300], p) != nil {
		t.Fatal(err)
	}
	if flight.VerifyEpoch(root, flight.MaxEpoch-1, ids[300], p) == nil || flight.VerifyEpoch(root, flight.MaxEpoch, ids[301], p) == nil {
		t.Error("the proof holds for another count or batch")
	}
	for _, bad := range []struct {
		ids  []flight.Hash
		want error
	}{{nil, merkle.ErrEmpty}, {append(ids, flight.Hash{}), flight.ErrEpoch}} {
		if _, err := flight.EpochRoot(bad.ids); !errors.Is(err, bad.want) {
			t.Errorf("root of %d: %v, want %v", len(bad.ids), err, bad.want)
		}
		if _, err := flight.EpochProof(bad.ids, 0); !errors.Is(err, bad.want) {
			t.Errorf("proof of %d: %v, want %v", len(bad.ids), err, bad.want)
		}
	}
}

func TestRating(t *testing.T) {
	if r := flight.Rating(0, 0); r != nil {
		t.Errorf("nothing decided is rated %v", *r)
	}
	last := -1.0
	for n := uint64(1); n < 3000; n++ {
		r := *flight.Rating(n, 0)
		if r < last || r > 24 {
			t.Fatalf("%d confirmed are rated %v after %v", n, r, last)
		}
		last = r
		if r := *flight.Rating(0, n); r != 0 || math.Signbit(r) {
			t.Fatalf("%d contradicted are rated %v", n, r)
		}
		if *flight.Rating(n, 1) > *flight.Rating(n, 0) {
			t.Fatalf("a contradiction raises the rating of %d", n)
		}
	}
}

func TestEvaluate(t *testing.T) {
	agent, to, token, other := flight.Address{1}, flight.Address{2}, flight.Address{3}, flight.Address{4}
	topic := flight.Keccak256([]byte("Transfer(address,address,uint256)"))
	word := func(a flight.Address) (h flight.Hash) { copy(h[12:], a[:]); return h }
	amount := func(n byte) []byte { return append(make([]byte, 31), n) }
	event := func(token, from, to flight.Address, n byte) flight.Log {
		return flight.Log{Address: token, Topics: []flight.Hash{topic, word(from), word(to)}, Data: amount(n)}
	}
	dirty := event(token, agent, to, 5)
	dirty.Topics = append([]flight.Hash{}, dirty.Topics...)
	dirty.Topics[2][0] = 1
	nft := event(token, agent, to, 5)
	nft.Topics, nft.Data = append(nft.Topics, flight.Hash{31: 5}), nil
	approval := event(token, agent, to, 5)
	approval.Topics = append([]flight.Hash{flight.Keccak256([]byte("Approval(address,address,uint256)"))}, approval.Topics[1:]...)
	long := event(token, agent, to, 5)
	long.Data = append(long.Data, 0)
	sent := flight.Tx{From: agent, To: &to, Value: big.NewInt(5), Success: true}
	with := func(tx flight.Tx, logs ...flight.Log) flight.Tx { tx.Logs = logs; return tx }
	by := func(from flight.Address) flight.Tx { tx := sent; tx.From = from; return tx }
	reverted := sent
	reverted.Success = false
	creation := sent
	creation.To = nil
	noValue := sent
	noValue.Value = nil
	success, native := flight.Claim{Kind: flight.ClaimTxSuccess}, flight.Claim{Kind: flight.ClaimNative, To: to, Amount: big.NewInt(5)}
	erc20 := flight.Claim{Kind: flight.ClaimERC20, Token: token, To: to, Amount: big.NewInt(5)}
	for _, c := range []struct {
		why   string
		claim flight.Claim
		tx    flight.Tx
		state flight.State
		fails string
	}{
		{"success", success, sent, flight.Confirmed, ""}, {"reverted", success, reverted, flight.Contradicted, "receipt.success"}, {"relayed", success, by(other), flight.Contradicted, "tx.sender"},
		{"native", native, sent, flight.Confirmed, ""}, {"native reverted", native, reverted, flight.Contradicted, "receipt.success"}, {"creation", native, creation, flight.Contradicted, "native.to"}, {"no value", native, noValue, flight.Contradicted, "native.value"},
		{"other recipient", flight.Claim{Kind: flight.ClaimNative, To: other, Amount: big.NewInt(5)}, sent, flight.Contradicted, "native.to"}, {"other value", flight.Claim{Kind: flight.ClaimNative, To: to, Amount: big.NewInt(6)}, sent, flight.Contradicted, "native.value"},
		{"erc20", erc20, with(sent, approval, event(token, agent, to, 5)), flight.Confirmed, ""}, {"no event", erc20, sent, flight.Contradicted, "erc20.transfer"}, {"other token", erc20, with(sent, event(other, agent, to, 5)), flight.Contradicted, "erc20.transfer"},
		{"other payer", erc20, with(sent, event(token, other, to, 5)), flight.Contradicted, "erc20.transfer"}, {"other payee", erc20, with(sent, event(token, agent, other, 5)), flight.Contradicted, "erc20.transfer"},
		{"two that sum up", erc20, with(sent, event(token, agent, to, 2), event(token, agent, to, 3)), flight.Contradicted, "erc20.transfer"}, {"nft", erc20, with(sent, nft), flight.Contradicted, "erc20.transfer"},
		{"approval", erc20, with(sent, approval), flight.Contradicted, "erc20.transfer"}, {"dirty address", erc20, with(sent, dirty), flight.Contradicted, "erc20.transfer"}, {"long data", erc20, with(sent, long), flight.Contradicted, "erc20.transfer"},
		{"unknown", flight.Claim{Kind: "nft.mint"}, sent, flight.Unverifiable, ""},
	} {
		v := flight.Evaluate(c.claim, agent, c.tx)
		fails := ""
		for _, k := range v.Checks {
			if !k.Pass {
				fails += k.Name
			}
			if k.Want == "" || k.Got == "" {
				t.Errorf("%s: %s says want %q, got %q", c.why, k.Name, k.Want, k.Got)
			}
		}
		if v.State != c.state || fails != c.fails {
			t.Errorf("%s: %s, failing %q; want %s, %q", c.why, v.State, fails, c.state, c.fails)
		}
	}
	if v := flight.Unverified(flight.NoTx); string(mustMarshal(t, v)) != `{"state":"unverifiable","reason":"NO_TX","checks":[]}` {
		t.Errorf("Unverified = %s", mustMarshal(t, v))
	}
}
