package canon_test

import (
	"testing"

	"karatum/flight/canon"
)

const benchText = `{"tool":"swap","args":{"from":"0x23e77df71fbbdfbdb36c1ea3ae7a894c32393bc4","amount":"25000000","slippage":0.005,"path":[1,2,3]},"memo":"\u00e9 public","ok":true,"none":null}`

func BenchmarkCanonical(b *testing.B) {
	b.SetBytes(int64(len(benchText)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canon.Canonical([]byte(benchText)); err != nil {
			b.Fatal(err)
		}
	}
}
