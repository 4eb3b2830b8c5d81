package replay

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"pgregory.net/rapid"
)

// Sizes that the reference implementations of the estimate agree on.
func TestFastLZSize(t *testing.T) {
	for _, tt := range []struct {
		name string
		data []byte
		want int
	}{
		{"empty", nil, 0},
		{"three bytes", []byte{0xfa, 0xca, 0xde}, 4},
		{"1000 zeros", make([]byte, 1000), 21},
		{"1000 ones", bytes.Repeat([]byte{1}, 1000), 21},
		{"1000 times 0xff", bytes.Repeat([]byte{0xff}, 1000), 21},
	} {
		if got := fastLZSize(tt.data); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestFastLZSizeBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.ByteRange(0, 3), 0, 2000).Draw(t, "data")
		n := fastLZSize(data)
		if n < 0 || n > len(data)+len(data)/lzLiterals+1 || len(data) > 0 && n == 0 {
			t.Errorf("%d bytes have size %d", len(data), n)
		}
	})
}

// A worked example of each formula: L1 base fee 1 gwei, blob base fee 10 wei in
// units that keep the numbers readable.
func TestL1Fees(t *testing.T) {
	slots := map[common.Hash]common.Hash{
		slotL1BaseFee:     common.BigToHash(big.NewInt(1000e6)),
		slotL1BlobBaseFee: common.BigToHash(big.NewInt(10e6)),
		slotScalars:       {19: 2, 23: 3},
		slotOverhead:      common.BigToHash(big.NewInt(50)),
		slotScalar:        common.BigToHash(big.NewInt(7e6)),
		slotOperator:      {23: 5, 31: 9},
	}
	f := &opForks{ecotone: 10, fjord: 20, isthmus: 30, jovian: 40}
	tx := make([]byte, 30) // 4 gas a zero byte: 120; small enough for the least size of 100 bytes
	for _, tt := range []struct {
		time         uint64
		l1, operator int64
	}{
		{0, (120 + 50) * 1000e6 * 7, 0},
		{10, 120 * (1000e6*16*2 + 10e6*3) / 16e6, 0},
		{20, 3203000, 0}, // 100e6 * (2*1000e6*16 + 3*10e6) / 1e12
		{30, 3203000, 2_000_000*5/1_000_000 + 9},
		{40, 3203000, 2_000_000*5*100 + 9},
	} {
		o := l1Oracle{f, tt.time, func(s common.Hash) common.Hash { return slots[s] }}
		if got := o.l1Fee(tx); got.Int64() != tt.l1 {
			t.Errorf("time %d: L1 fee %s, want %d", tt.time, got, tt.l1)
		}
		if got := o.operatorFee(2_000_000); got.Int64() != tt.operator {
			t.Errorf("time %d: operator fee %s, want %d", tt.time, got, tt.operator)
		}
	}
}

// Base's forks bring Ethereum's, and keep their order.
func TestSchedules(t *testing.T) {
	for name, f := range map[string]opForks{"base": baseSchedule, "base-sepolia": baseSepoliaSchedule} {
		times := []uint64{f.canyon, f.ecotone, f.fjord, f.granite, f.isthmus, f.jovian, f.osaka}
		r := opRules(name, big.NewInt(1), f)
		for i, at := range times {
			if i > 0 && at <= times[i-1] {
				t.Errorf("%s: fork %d is not after the one before", name, i)
			}
			before, after := r.config.Rules(common.Big1, true, at-1), r.config.Rules(common.Big1, true, at)
			if changes := before != after; changes != (i == 0 || i == 1 || i == 4 || i == 6) {
				t.Errorf("%s: fork %d changes Ethereum's rules: %v", name, i, changes)
			}
		}
	}
}
