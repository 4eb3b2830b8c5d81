package pages

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"karatum/app"
	"karatum/flight"
)

// A ClaimView is an opened claim in words.
type ClaimView struct {
	Kind  string
	What  string // "25 tUSDC", or "25,000,000 base units" of a token that is not known; empty where nothing is moved
	To    string // empty where the claim names nobody
	Token string // the contract, where it is not a known token
	Chain string // in words
}

// on says on which chain, as the end of a sentence.
func (c *ClaimView) on() string {
	if c.Chain == "" {
		return ""
	}
	return " on " + c.Chain
}

// readClaim returns nil where no claim is opened. What a claim of an unknown kind
// lacks stays empty.
func readClaim(raw json.RawMessage, chainID uint64) *ClaimView {
	var c *struct{ Kind, Amount, Value, To, Token string }
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil || c == nil {
		return nil
	}
	v := &ClaimView{Kind: c.Kind, To: c.To, Token: c.Token, Chain: chainWords(chainID)}
	base, known := c.Amount, c.Kind == flight.ClaimERC20
	if c.Kind == flight.ClaimNative {
		base, known = c.Value, true
	}
	amount, ok := new(big.Int).SetString(base, 10)
	if !ok || !known {
		return v
	}
	v.What = grouped(base) + " base units"
	var contract flight.Address
	if c.Kind == flight.ClaimERC20 {
		var err error
		if contract, err = flight.ParseAddress(c.Token); err != nil {
			return v
		}
	}
	if token, ok := app.Token(chainID, contract); ok {
		v.What, v.Token = groupedAmount(token.Amount(amount))+" "+token.Symbol, ""
	}
	return v
}

// chainWords names a chain in a sentence.
func chainWords(id uint64) string {
	switch id {
	case 0:
		return ""
	case 31337:
		return "the dev chain"
	case 84532:
		return "Base Sepolia"
	case 11155111:
		return "Sepolia"
	}
	return fmt.Sprintf("chain %d", id)
}

// grouped puts commas between the digits of a whole number.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// groupedAmount is grouped for an amount that may have decimals.
func groupedAmount(amount string) string {
	whole, part, ok := strings.Cut(amount, ".")
	if ok {
		part = "." + part
	}
	return grouped(whole) + part
}

// stamp is a verdict as it stands over a page.
func stamp(s flight.State) string {
	switch s {
	case flight.Confirmed:
		return "Confirmed by the chain"
	case flight.Contradicted:
		return "Contradicted by the chain"
	}
	return "Unverifiable"
}

// A ComparedView is one part of a claim next to what the chain shows.
type ComparedView struct {
	Part      string
	Want, Got string
	WantHash  bool // Want is an address or hash
	GotHash   bool
	Pass      bool
}

// compared takes the checks of a verdict apart: a transfer is compared as a whole, for
// its parts must stand in one log, and shown part by part where both sides have all.
func compared(checks []flight.VerdictCheck, chainID uint64) []ComparedView {
	var out []ComparedView
	for _, c := range checks {
		want, okWant := readTransfer(c.Want)
		got, okGot := readTransfer(c.Got)
		if c.Name != flight.ClaimERC20 || !okWant {
			out = append(out, comparedLine(checkWords(c.Name), c.Want, c.Got, c.Pass))
			continue
		}
		if !okGot {
			v := comparedLine("Transfer", want.words(chainID), c.Got, c.Pass)
			out = append(out, v)
			continue
		}
		out = append(out,
			comparedLine("Token", want.token, got.token, want.token == got.token),
			comparedLine("From", want.from, got.from, want.from == got.from),
			comparedLine("Recipient", want.to, got.to, want.to == got.to),
			comparedLine("Amount", want.amountWords(chainID), got.amountWords(chainID), want.amount == got.amount))
	}
	return out
}

func comparedLine(part, want, got string, pass bool) ComparedView {
	return ComparedView{Part: part, Want: want, Got: got, WantHash: isHex(want), GotHash: isHex(got), Pass: pass}
}

func isHex(s string) bool { return strings.HasPrefix(s, "0x") && (len(s) == 42 || len(s) == 66) }

// Shown says in a sentence what the chain has where it contradicts the claim, and
// nothing elsewhere.
func (v StepView) Shown() string {
	for _, c := range v.Verdict.Checks {
		if c.Pass {
			continue
		}
		switch c.Name {
		case "receipt.success":
			return "The chain shows that the transaction failed."
		case "tx.sender":
			return "The chain shows another sender."
		case "native.to":
			return "The chain shows another recipient."
		case "native.value":
			return "The chain shows " + transferText{amount: c.Got, token: flight.Address{}.String()}.amountWords(v.Verdict.ChainID) + "."
		case flight.ClaimERC20:
			return shownTransfer(c, v.Verdict.ChainID)
		}
	}
	return ""
}

func shownTransfer(c flight.VerdictCheck, chainID uint64) string {
	want, _ := readTransfer(c.Want)
	got, ok := readTransfer(c.Got)
	switch {
	case !ok:
		return "The chain shows no such transfer."
	case got.token != want.token:
		return "The chain shows another token."
	case got.from != want.from:
		return "The chain shows another sender."
	case got.to != want.to:
		return "The chain shows another recipient."
	}
	return "The chain shows " + got.amountWords(chainID) + "."
}

// checkWords is the name of a check of package flight in words.
func checkWords(name string) string {
	switch name {
	case "receipt.success":
		return "Outcome"
	case "tx.sender":
		return "Sender"
	case "native.to":
		return "Recipient"
	case "native.value":
		return "Value"
	}
	return Visible(name)
}

// A transferText is what package flight writes of a transfer, taken apart.
type transferText struct{ amount, token, from, to string }

func readTransfer(s string) (t transferText, ok bool) {
	n, err := fmt.Sscanf(s, "%s of token %s from %s to %s", &t.amount, &t.token, &t.from, &t.to)
	return t, err == nil && n == 4
}

func (t transferText) amountWords(chainID uint64) string {
	amount, ok := new(big.Int).SetString(t.amount, 10)
	contract, err := flight.ParseAddress(t.token)
	if ok && err == nil {
		if token, known := app.Token(chainID, contract); known {
			return groupedAmount(token.Amount(amount)) + " " + token.Symbol
		}
	}
	return grouped(t.amount) + " base units"
}

func (t transferText) words(chainID uint64) string {
	return t.amountWords(chainID) + " to " + Shorten(t.to)
}
