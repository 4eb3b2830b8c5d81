package replay

import (
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto/secp256r1"
	"github.com/ethereum/go-ethereum/params"
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

// Constants of FastLZ's first level.
const (
	lzHashes   = 1 << 13
	lzDistance = 1 << 13 // matches are nearer than that
	lzTail     = 13      // the last bytes start no match
	lzMatch    = 262     // the longest match of one instruction
	lzLiterals = 32      // the longest run of literals of one instruction
)

// fastLZSize is the length of the data under FastLZ, which is not compressed in
// fact: the fee depends on the exact choices of the reference implementation, a
// greedy search over the last position of each hash of three bytes.
func fastLZSize(data []byte) int {
	limit := len(data) - lzTail
	var last [lzHashes]int
	size, anchor := 0, 0
	at := 2
	for at < limit {
		match, found := 0, false
		for at < limit && !found {
			h := lzHash(data, at)
			match, last[h] = last[h], at
			found = at-match < lzDistance && lzThree(data, at) == lzThree(data, match)
			at++
		}
		if !found || at >= limit {
			break
		}
		at--
		size += literalsSize(at - anchor)
		n := lzCommon(data, match+3, at+3, limit+9)
		size += matchSize(n)
		at += n
		last[lzHash(data, at)] = at
		last[lzHash(data, at+1)] = at + 1
		at += 2
		anchor = at
	}
	return size + literalsSize(len(data)-anchor)
}

func lzThree(d []byte, i int) uint32 { return uint32(d[i]) | uint32(d[i+1])<<8 | uint32(d[i+2])<<16 }

func lzHash(d []byte, i int) uint32 { return lzThree(d, i) * 2654435769 >> 19 }

// lzCommon counts the bytes that agree before end, and the first that does not.
func lzCommon(d []byte, a, b, end int) int {
	n := 0
	for b+n < end {
		n++
		if d[a+n-1] != d[b+n-1] {
			break
		}
	}
	return n
}

func literalsSize(n int) int {
	size := n / lzLiterals * (lzLiterals + 1)
	if rest := n % lzLiterals; rest != 0 {
		size += rest + 1
	}
	return size
}

func matchSize(n int) int {
	n--
	size := n / lzMatch * 3
	if n%lzMatch >= 6 {
		return size + 3
	}
	return size + 2
}

// p256Addr is the precompile for signatures on P-256, which the OP stack had
// before Ethereum, and cheaper.
var p256Addr = common.BytesToAddress([]byte{1, 0})

// precompiles is Ethereum's set with the stack's additions and limits.
func (f *opForks) precompiles(r params.Rules, time uint64) vm.PrecompiledContracts {
	set := vm.ActivePrecompiledContracts(r)
	if time >= f.fjord && !r.IsOsaka {
		set[p256Addr] = p256Verify{}
	}
	limit := func(last byte, bytes int) {
		addr := common.BytesToAddress([]byte{last})
		if inner, ok := set[addr]; ok {
			set[addr] = limited{inner, bytes}
		}
	}
	switch {
	case time >= f.jovian:
		limit(0x08, 81_984)
		limit(0x0c, 288_960)
		limit(0x0e, 278_784)
		limit(0x0f, 156_672)
	case time >= f.isthmus:
		limit(0x08, 112_687)
		limit(0x0c, 513_760)
		limit(0x0e, 488_448)
		limit(0x0f, 235_008)
	case time >= f.granite:
		limit(0x08, 112_687)
	}
	return set
}

// limited refuses long inputs.
type limited struct {
	vm.PrecompiledContract
	bytes int
}

func (l limited) Run(input []byte) ([]byte, error) {
	if len(input) > l.bytes {
		return nil, vm.ErrOutOfGas
	}
	return l.PrecompiledContract.Run(input)
}

// p256Verify is RIP-7212: hash, r, s, x, y, 32 bytes each; 1 if valid, else
// nothing.
type p256Verify struct{}

func (p256Verify) RequiredGas([]byte) uint64 { return 3450 }
func (p256Verify) Name() string              { return "P256VERIFY" }

func (p256Verify) Run(in []byte) ([]byte, error) {
	if len(in) != 160 {
		return nil, nil
	}
	n := func(i int) *big.Int { return new(big.Int).SetBytes(in[32*i : 32*i+32]) }
	if !secp256r1.Verify(in[:32], n(1), n(2), n(3), n(4)) {
		return nil, nil
	}
	return common.LeftPadBytes([]byte{1}, 32), nil
}

// wei is a fee as the state takes it; no fee of a real chain exceeds 256 bits.
func wei(v *big.Int) *uint256.Int {
	u, overflow := uint256.FromBig(v)
	if overflow {
		return new(uint256.Int).SetAllOne()
	}
	return u
}
