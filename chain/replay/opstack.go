package replay

import (
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"
)

// Predeploys of the OP stack.
var (
	l1BlockAddr      = common.HexToAddress("0x4200000000000000000000000000000000000015")
	baseFeeVault     = common.HexToAddress("0x4200000000000000000000000000000000000019")
	l1FeeVault       = common.HexToAddress("0x420000000000000000000000000000000000001A")
	operatorFeeVault = common.HexToAddress("0x420000000000000000000000000000000000001b")
)

// opForks are the activation times of the OP stack's forks, in Unix seconds.
// Bedrock and Regolith are active from genesis on every chain known here.
type opForks struct {
	canyon, ecotone, fjord, granite, isthmus, jovian, osaka uint64
}

// The schedules of Base, as its node software publishes them.
var (
	baseSchedule        = opForks{1704992401, 1710374401, 1720627201, 1726070401, 1746806401, 1764691201, 1779991200}
	baseSepoliaSchedule = opForks{1699981200, 1708534800, 1716998400, 1723478400, 1744905600, 1763568001, 1776708000}
)

// never is the time of a fork that is not scheduled.
const never = math.MaxUint64

// opRules is Ethereum's schedule that follows from the stack's: Canyon brought
// Shanghai, Ecotone Cancun, Isthmus Prague.
func opRules(name string, id *big.Int, f opForks) rules {
	c := config(id, "paris")
	c.ShanghaiTime, c.CancunTime, c.PragueTime, c.OsakaTime = &f.canyon, &f.ecotone, &f.isthmus, &f.osaka
	return rules{name, c, &f}
}

// Slots of the L1Block contract, which the first deposit of a block writes.
var (
	slotL1BaseFee     = common.BigToHash(big.NewInt(1))
	slotScalars       = common.BigToHash(big.NewInt(3)) // from Ecotone on, see l1Scalars
	slotOverhead      = common.BigToHash(big.NewInt(5)) // before Ecotone
	slotScalar        = common.BigToHash(big.NewInt(6)) // before Ecotone
	slotL1BlobBaseFee = common.BigToHash(big.NewInt(7))
	slotOperator      = common.BigToHash(big.NewInt(8))
)

var l1Slots = []common.Hash{slotL1BaseFee, slotScalars, slotOverhead, slotScalar, slotL1BlobBaseFee, slotOperator}

// An l1Oracle reads the parameters of the fees from the state as it stands.
type l1Oracle struct {
	f    *opForks
	time uint64 // of the block
	get  func(slot common.Hash) common.Hash
}

func (o l1Oracle) uint(slot common.Hash) *big.Int { return o.get(slot).Big() }

// l1Scalars are the scalars of base fee and blob base fee, from Ecotone on:
// 4 bytes each at [16:20] and [20:24] of one slot.
func (o l1Oracle) l1Scalars() (base, blob *big.Int) {
	v := o.get(slotScalars)
	return new(big.Int).SetBytes(v[16:20]), new(big.Int).SetBytes(v[20:24])
}

// l1Fee is what a transaction pays for its bytes on L1, in wei.
func (o l1Oracle) l1Fee(tx []byte) *big.Int {
	if o.time < o.f.ecotone {
		return o.bedrockFee(tx)
	}
	base, blob := o.l1Scalars()
	if o.time < o.f.fjord && base.Sign() == 0 && blob.Sign() == 0 && o.uint(slotL1BlobBaseFee).Sign() == 0 {
		return o.bedrockFee(tx) // the first block of Ecotone, before its parameters are set
	}
	perByte := new(big.Int).Mul(o.uint(slotL1BaseFee), big.NewInt(16))
	perByte.Mul(perByte, base)
	perByte.Add(perByte, new(big.Int).Mul(o.uint(slotL1BlobBaseFee), blob))
	if o.time < o.f.fjord {
		fee := perByte.Mul(perByte, calldataGas(tx))
		return fee.Div(fee, big.NewInt(16e6))
	}
	fee := perByte.Mul(perByte, estimatedSize(tx))
	return fee.Div(fee, big.NewInt(1e12))
}

// bedrockFee is (calldata gas + overhead) * L1 base fee * scalar, in millionths.
func (o l1Oracle) bedrockFee(tx []byte) *big.Int {
	fee := calldataGas(tx)
	fee.Add(fee, o.uint(slotOverhead))
	fee.Mul(fee, o.uint(slotL1BaseFee))
	fee.Mul(fee, o.uint(slotScalar))
	return fee.Div(fee, big.NewInt(1e6))
}

// operatorFee is what the operator takes for an amount of gas, in wei, from
// Isthmus on. The scalar is 4 bytes at [20:24], the constant 8 at [24:32].
func (o l1Oracle) operatorFee(gas uint64) *big.Int {
	if o.time < o.f.isthmus {
		return new(big.Int)
	}
	v := o.get(slotOperator)
	fee := new(big.Int).Mul(new(big.Int).SetUint64(gas), new(big.Int).SetBytes(v[20:24]))
	if o.time < o.f.jovian {
		fee.Div(fee, big.NewInt(1e6))
	} else {
		fee.Mul(fee, big.NewInt(100))
	}
	return fee.Add(fee, new(big.Int).SetBytes(v[24:32]))
}

// calldataGas is 16 a byte and 4 a zero byte of the encoded transaction.
func calldataGas(tx []byte) *big.Int {
	var gas int64
	for _, b := range tx {
		if b == 0 {
			gas += 4
		} else {
			gas += 16
		}
	}
	return big.NewInt(gas)
}

// estimatedSize is Fjord's estimate of the compressed size, in millionths of a
// byte: a line fitted to the size under FastLZ, and at least 100 bytes.
func estimatedSize(tx []byte) *big.Int {
	size := -42_585_600 + 836_500*int64(fastLZSize(tx))
	return big.NewInt(max(size, 100_000_000))
}

// wei is a fee as the state takes it; no fee of a real chain exceeds 256 bits.
func wei(v *big.Int) *uint256.Int {
	u, overflow := uint256.FromBig(v)
	if overflow {
		return new(uint256.Int).SetAllOne()
	}
	return u
}
