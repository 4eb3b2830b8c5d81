package app

import (
	"math/big"
	"testing"

	"karatum/chain/devchain"
	"karatum/flight"
)

func TestTokens(t *testing.T) {
	if v, ok := Token(31337, flight.Address(devchain.USDCAddress)); !ok || v.Symbol != "tUSDC" || v.Decimals != 6 {
		t.Errorf("the dev chain's token is %+v, %t", v, ok)
	}
	if v, ok := Token(84532, flight.Address{}); !ok || v.Symbol != "ETH" {
		t.Errorf("a coin is %+v, %t", v, ok)
	}
	for _, chainID := range []uint64{1, 84532} {
		if v, ok := Token(chainID, flight.Address{1}); ok {
			t.Errorf("an unknown token is called %+v", v)
		}
	}
	wei, _ := new(big.Int).SetString("115792089237316195423570985008687907853269984665640564039457584007913129639935", 10)
	for _, tt := range []struct {
		token TokenView
		base  *big.Int
		want  string
	}{
		{TokenView{"tUSDC", 6}, big.NewInt(25_000_000), "25"},
		{TokenView{"tUSDC", 6}, big.NewInt(25_100_000), "25.1"},
		{TokenView{"tUSDC", 6}, big.NewInt(1), "0.000001"},
		{TokenView{"tUSDC", 6}, big.NewInt(0), "0"},
		{TokenView{"tUSDC", 6}, big.NewInt(999_999), "0.999999"},
		{TokenView{"ETH", 18}, wei, "115792089237316195423570985008687907853269984665640564039457.584007913129639935"},
		{TokenView{"whole", 0}, big.NewInt(100), "100"},
	} {
		if got := tt.token.Amount(tt.base); got != tt.want {
			t.Errorf("%d of %s: %s, want %s", tt.base, tt.token.Symbol, got, tt.want)
		}
	}
}
