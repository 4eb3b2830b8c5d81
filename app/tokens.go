package app

import (
	"math/big"
	"strings"

	"karatum/flight"
)

// A TokenView is what a page says in place of base units.
type TokenView struct {
	Symbol   string `json:"symbol"`
	Decimals int    `json:"decimals"`
}

// tokenKey is a token's contract on a chain; the zero address is the chain's own coin.
type tokenKey struct {
	chainID uint64
	address string
}

// knownTokens are those of the networks that a node anchors on. A contract's own word
// about its symbol is not asked for: anyone can deploy a "USDC".
var knownTokens = map[tokenKey]TokenView{
	{31337, "0x5dc0000000000000000000000000000000000001"}:    {"tUSDC", 6},
	{84532, "0x036cbd53842c5426634e7929541ec2318f3dcf7e"}:    {"USDC", 6},
	{11155111, "0x1c7d4b196cb0c7b01d743fbc6116a902379c7238"}: {"USDC", 6},
	{31337, ""}:    {"ETH", 18},
	{84532, ""}:    {"ETH", 18},
	{11155111, ""}: {"ETH", 18},
}

// Token returns what is known of a token on a chain; the zero address is the chain's
// own coin. The second result is false for all others, whose amounts stay in base
// units.
func Token(chainID uint64, token flight.Address) (TokenView, bool) {
	key := tokenKey{chainID, token.String()}
	if token == (flight.Address{}) {
		key.address = ""
	}
	v, ok := knownTokens[key]
	return v, ok
}

// Amount writes base units in whole tokens, without trailing zeros: 25000000 of six
// decimals is "25".
func (v TokenView) Amount(base *big.Int) string {
	digits := new(big.Int).Abs(base).String()
	if pad := v.Decimals + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	whole, part := digits[:len(digits)-v.Decimals], strings.TrimRight(digits[len(digits)-v.Decimals:], "0")
	if part != "" {
		whole += "." + part
	}
	if base.Sign() < 0 {
		whole = "-" + whole
	}
	return whole
}
