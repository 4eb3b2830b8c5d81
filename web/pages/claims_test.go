package pages

import (
	"encoding/json"
	"math/big"
	"testing"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/canon"
)

const (
	devToken = "0x5dc0000000000000000000000000000000000001"
	payee    = "0x00000000000000000000000000000000000000aa"
)

func TestReadClaim(t *testing.T) {
	for _, tt := range []struct {
		name, claim string
		chain       uint64
		want        ClaimView
	}{
		{"known token", `{"amount":"25000000","kind":"erc20.transfer","to":"` + payee + `","token":"` + devToken + `"}`, 31337,
			ClaimView{"erc20.transfer", "25 tUSDC", payee, "", "the dev chain"}},
		{"the same token elsewhere", `{"amount":"25000000","kind":"erc20.transfer","to":"` + payee + `","token":"` + devToken + `"}`, 84532,
			ClaimView{"erc20.transfer", "25,000,000 base units", payee, devToken, "Base Sepolia"}},
		{"coin", `{"kind":"native.transfer","to":"` + payee + `","value":"1500000000000000000000"}`, 11155111,
			ClaimView{"native.transfer", "1,500 ETH", payee, "", "Sepolia"}},
		{"coin of an unknown chain", `{"kind":"native.transfer","to":"` + payee + `","value":"15"}`, 10,
			ClaimView{"native.transfer", "15 base units", payee, "", "chain 10"}},
		{"success", `{"kind":"tx.success"}`, 31337, ClaimView{Kind: "tx.success", Chain: "the dev chain"}},
		{"unknown kind with an amount", `{"amount":"7","kind":"bridge.deposit"}`, 0, ClaimView{Kind: "bridge.deposit"}},
		{"amount that is none", `{"amount":"much","kind":"erc20.transfer","to":"x","token":"y"}`, 0, ClaimView{Kind: "erc20.transfer", To: "x", Token: "y"}},
	} {
		got := readClaim(json.RawMessage(tt.claim), tt.chain)
		if got == nil || *got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	for _, none := range []string{"", "null", "[]", `{"kind":7}`} {
		if got := readClaim(json.RawMessage(none), 31337); got != nil {
			t.Errorf("%q: %+v, want none", none, got)
		}
	}
}

// TestCompared takes apart what package flight really writes.
func TestCompared(t *testing.T) {
	agent, other := flight.Address{7}, flight.Address{8}
	token, err := flight.ParseAddress(devToken)
	if err != nil {
		t.Fatal(err)
	}
	claim := flight.Claim{Kind: flight.ClaimERC20, Token: token, To: other, Amount: big.NewInt(40_000_000)}
	topic := func(a flight.Address) (h flight.Hash) { copy(h[12:], a[:]); return h }
	logOf := func(token, from, to flight.Address, amount int64) flight.Log {
		return flight.Log{Address: token, Topics: []flight.Hash{flight.Keccak256([]byte("Transfer(address,address,uint256)")), topic(from), topic(to)},
			Data: big.NewInt(amount).FillBytes(make([]byte, 32))}
	}
	for _, tt := range []struct {
		name  string
		logs  []flight.Log
		parts int // that differ
		rows  int
		shown string
	}{
		{"as claimed", []flight.Log{logOf(token, agent, other, 40_000_000)}, 0, 6, ""},
		{"another amount", []flight.Log{logOf(token, agent, other, 4_500_000)}, 1, 6, "The chain shows 4.5 tUSDC."},
		{"another recipient", []flight.Log{logOf(token, agent, agent, 40_000_000)}, 1, 6, "The chain shows another recipient."},
		{"another token", []flight.Log{logOf(other, agent, other, 40_000_000)}, 1, 6, "The chain shows another token."},
		{"another sender", []flight.Log{logOf(token, other, other, 40_000_000)}, 1, 6, "The chain shows another sender."},
		{"no transfer", nil, 1, 3, "The chain shows no such transfer."},
	} {
		verdict := flight.Evaluate(claim, agent, flight.Tx{Success: true, From: agent, Logs: tt.logs})
		rows := compared(verdict.Checks, 31337)
		differ := 0
		for _, r := range rows {
			if !r.Pass {
				differ++
			}
		}
		v := StepView{StepView: app.StepView{Verdict: app.VerdictView{Verdict: verdict, ChainID: 31337}}}
		if differ != tt.parts || len(rows) != tt.rows || v.Shown() != tt.shown {
			t.Errorf("%s: %d of %d rows differ, %q; want %d of %d, %q", tt.name, differ, len(rows), v.Shown(), tt.parts, tt.rows, tt.shown)
		}
	}
	native := flight.Evaluate(flight.Claim{Kind: flight.ClaimNative, To: other, Amount: big.NewInt(1)}, agent, flight.Tx{Success: true, From: agent, To: &other, Value: big.NewInt(2e17)})
	v := StepView{StepView: app.StepView{Verdict: app.VerdictView{Verdict: native, ChainID: 31337}}}
	if v.Shown() != "The chain shows 0.2 ETH." {
		t.Errorf("a coin: %q", v.Shown())
	}
	failed := flight.Evaluate(flight.Claim{Kind: flight.ClaimTxSuccess}, agent, flight.Tx{From: agent})
	v.Verdict.Verdict = failed
	if v.Shown() != "The chain shows that the transaction failed." {
		t.Errorf("a failure: %q", v.Shown())
	}
}

// Base units stand beside the amount that they are, where the token is known.
func TestClaimNote(t *testing.T) {
	for _, c := range []struct{ claim, key, want string }{
		{`{"amount":"25000000","kind":"erc20.transfer","to":"0x5690","token":"0x1"}`, "amount", "25,000,000 base units"},
		{`{"kind":"native.transfer","to":"0x5690","value":"1500000000000000000"}`, "value", "1.5 ETH"},
		{`{"kind":"tx.success"}`, "kind", ""},
		{`{"amount":"x","kind":"erc20.transfer"}`, "amount", ""},
		{`{"amount":"5","kind":"other"}`, "amount", ""},
	} {
		value, err := canon.Parse([]byte(c.claim), canon.MaxDepth)
		if err != nil {
			t.Fatal(err)
		}
		f := FieldView{Name: "claim"}
		f.open(flight.Opening{Field: "claim", Value: value})
		f.say(readClaim([]byte(c.claim), 84532))
		for _, l := range f.Lines {
			if want := map[bool]string{true: c.want}[l.Key == c.key]; l.Note != want {
				t.Errorf("%s: %s is noted %q, want %q", c.claim, l.Key, l.Note, want)
			}
		}
	}
	var f FieldView
	f.say(nil)
}
