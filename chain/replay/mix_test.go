package replay_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/crypto/kzg4844"
	"github.com/holiman/uint256"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/contracts"
	"karatum/chain/devchain"
)

// A mix fills a chain with transactions of every kind, several to a block, that
// depend on each other. The same seed gives the same transactions.
type mix struct {
	t              testing.TB
	c              *chain.Client
	url            string
	rnd            *rand.Rand
	chainID        *big.Int
	mine           func() // seals what was sent since the last call
	blobs          bool   // the chain takes them
	noDelegation   bool   // the chain is older than type 4
	nonces         map[common.Address]uint64
	blobBlocks     map[common.Hash]bool
	token, machine common.Address
	tokenABI       contracts.Artifact
	machineABI     contracts.Artifact
	sidecar        *types.BlobTxSidecar
	sent           []common.Hash // not mined yet
	mined          []common.Hash
}

// newMix prepares a mix: two contracts in a block of their own, after an empty one.
func newMix(t testing.TB, c *chain.Client, url string, mine func(), blobs bool) *mix {
	t.Helper()
	id, err := c.ChainID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &mix{
		t: t, c: c, url: url, rnd: rand.New(rand.NewPCG(1, 2)), chainID: new(big.Int).SetUint64(id), mine: mine, blobs: blobs,
		nonces: map[common.Address]uint64{}, blobBlocks: map[common.Hash]bool{},
	}
	var err1, err2 error
	m.tokenABI, err1 = contracts.TestUSDC()
	m.machineABI, err2 = contracts.TestMachine()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	mine()
	m.token = m.deploy(0, m.tokenABI)
	m.machine = m.deploy(0, m.machineABI)
	m.seal()
	return m
}

// onAnvil is a mix on an anvil of its own.
func onAnvil(t testing.TB, args ...string) *mix {
	t.Helper()
	url := chaintest.Anvil(t, args...)
	c, err := chain.Dial(t.Context(), url, chain.Options{Timeout: 5 * time.Minute}) // anvil is slow to prepare for its first blob
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	raw(t, c, "evm_setAutomine", false)
	return newMix(t, c, url, func() { raw(t, c, "evm_mine") }, true)
}

// onDevChain is a mix on a dev chain of its own, which seals only when told to.
func onDevChain(t testing.TB) *mix {
	t.Helper()
	var open atomic.Bool
	open.Store(true)
	d, err := devchain.Open(t.Context(), devchain.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Clock: func() uint64 { return 1_750_000_000 },
		CanWrite: func() error {
			if !open.Load() {
				return errors.New("the test is collecting a block")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	open.Store(false)
	return newMix(t, chaintest.Dial(t, d.URL()), d.URL(), func() {
		open.Store(true)
		defer open.Store(false)
		if err := d.Mine(); err != nil {
			t.Fatal(err)
		}
	}, false)
}

func raw(t testing.TB, c *chain.Client, method string, params ...any) json.RawMessage {
	t.Helper()
	out, err := c.Raw(t.Context(), method, params...)
	if err != nil && !errors.Is(err, chain.ErrNotFound) {
		t.Fatalf("%s: %v", method, err)
	}
	return out
}

func (m *mix) account(i int) devchain.Account { return chaintest.Account(m.t, i) }

func (m *mix) nonce(from common.Address) uint64 {
	n := m.nonces[from]
	m.nonces[from]++
	return n
}

func (m *mix) pack(a contracts.Artifact, method string, args ...any) []byte {
	m.t.Helper()
	data, err := a.ABI.Pack(method, args...)
	if err != nil {
		m.t.Fatal(err)
	}
	return data
}

var (
	feeCap = big.NewInt(100e9)
	tip    = big.NewInt(1e9)
)

// send signs and sends; it is mined with the next seal.
func (m *mix) send(key *ecdsa.PrivateKey, tx types.TxData) common.Hash {
	m.t.Helper()
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(m.chainID), tx)
	if err != nil {
		m.t.Fatal(err)
	}
	raw, err := signed.MarshalBinary()
	if err != nil {
		m.t.Fatal(err)
	}
	// Not SendRawTransaction: the hash of a blob transaction is not that of its bytes.
	if _, err := m.c.Raw(m.t.Context(), "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
		m.t.Fatalf("type %d from %s: %v", signed.Type(), chaintest.KeyAddress(key), err)
	}
	m.sent = append(m.sent, signed.Hash())
	return signed.Hash()
}

// call sends in one of the three types that carry nothing special.
func (m *mix) call(from int, to *common.Address, value int64, data []byte, gas uint64) common.Hash {
	m.t.Helper()
	a := m.account(from)
	n, v := m.nonce(a.Address), big.NewInt(value)
	switch m.rnd.IntN(4) {
	case 0:
		return m.send(a.Key, &types.LegacyTx{Nonce: n, To: to, Value: v, Data: data, Gas: gas, GasPrice: feeCap})
	case 1:
		list := types.AccessList{{Address: m.token, StorageKeys: []common.Hash{{}, {31: 1}}}, {Address: m.machine}}
		return m.send(a.Key, &types.AccessListTx{ChainID: m.chainID, Nonce: n, To: to, Value: v, Data: data, Gas: gas, GasPrice: feeCap, AccessList: list})
	}
	return m.send(a.Key, &types.DynamicFeeTx{ChainID: m.chainID, Nonce: n, To: to, Value: v, Data: data, Gas: gas, GasFeeCap: feeCap, GasTipCap: tip})
}

func (m *mix) deploy(from int, a contracts.Artifact) common.Address {
	m.t.Helper()
	addr := crypto.CreateAddress(m.account(from).Address, m.nonces[m.account(from).Address])
	m.call(from, nil, 0, a.Bytecode, 4_000_000)
	return addr
}

// seal mines what was sent; all of it must be in.
func (m *mix) seal() {
	m.t.Helper()
	m.mine()
	for _, hash := range m.sent {
		if r := chaintest.Receipt(m.t, m.c, hash); r.Type == types.BlobTxType {
			m.blobBlocks[r.BlockHash] = true
		}
	}
	m.mined = append(m.mined, m.sent...)
	m.sent = nil
}

// together sends and mines again until all that send sends is in one block: a dev
// chain that is about to seal may still take the first transaction alone.
func (m *mix) together(send func()) {
	m.t.Helper()
	for range 50 {
		send()
		n := len(m.sent)
		m.seal()
		blocks := map[common.Hash]bool{}
		for _, hash := range m.mined[len(m.mined)-n:] {
			blocks[m.receipt(hash).BlockHash] = true
		}
		if len(blocks) == 1 {
			return
		}
	}
	m.t.Fatal("never in one block")
}

// fill sends n random transactions, ten to a block.
func (m *mix) fill(n int) {
	m.t.Helper()
	for i := range n {
		m.random(i)
		if i%10 == 9 || i == n-1 {
			m.seal()
		}
	}
}

func (m *mix) random(i int) {
	m.t.Helper()
	from := 1 + m.rnd.IntN(8)
	other := m.account(1 + m.rnd.IntN(8)).Address
	on := func(value int64, method string, args ...any) {
		m.t.Helper()
		m.call(from, &m.machine, value, m.pack(m.machineABI, method, args...), 1_000_000)
	}
	small := func(n int) *big.Int { return big.NewInt(int64(m.rnd.IntN(n))) }
	switch i % 17 {
	case 0:
		m.call(from, &other, 12345, nil, 21_000+40_000)
	case 1:
		m.call(from, &m.token, 0, m.pack(m.tokenABI, "faucet", other, small(1000)), 200_000)
	case 2, 3: // without a balance it reverts with a custom error
		m.call(from, &m.token, 0, m.pack(m.tokenABI, "transfer", other, small(800)), 200_000)
	case 4, 5:
		on(0, "bump", small(3), small(100))
	case 6:
		on(0, "clear", big.NewInt(0), big.NewInt(3))
	case 7:
		m.call(from, &m.machine, 0, m.pack(m.machineABI, "refuse", small(6)), 150_000)
	case 8:
		on(7, "create", [32]byte{}, m.rnd.IntN(2) == 0)
	case 9: // the same salt twice fails the second time
		on(0, "create", [32]byte{byte(1 + m.rnd.IntN(3))}, m.rnd.IntN(2) == 0)
	case 10:
		m.endChild(from, other)
	case 11:
		data := m.pack(m.machineABI, "bump", small(3), small(9))
		on(0, "through", m.machine, small(3), data)
	case 12: // a precompile: SHA-256, BLAKE2 with bad input, modular exponentiation
		on(0, "through", common.BytesToAddress([]byte{[]byte{2, 9, 5}[m.rnd.IntN(3)]}), big.NewInt(0), make([]byte, 200))
	case 13:
		on(0, "remember", small(4))
	case 14:
		on(0, "environment", big.NewInt([]int64{1, 2, 3, 9, 300}[m.rnd.IntN(5)]))
	case 15:
		if !m.noDelegation {
			m.delegate(from)
		}
	case 16:
		m.special(from)
	}
}

// endChild ends a contract that an earlier block created, if there is one.
func (m *mix) endChild(from int, heir common.Address) {
	m.t.Helper()
	child := crypto.CreateAddress(m.machine, uint64(1+m.rnd.IntN(6)))
	m.call(from, &m.machine, 0, m.pack(m.machineABI, "endChild", child, heir), 300_000)
}

func (m *mix) authority(i int) *ecdsa.PrivateKey {
	m.t.Helper()
	secret := sha256.Sum256(fmt.Appendf(nil, "authority %d", i))
	key, err := crypto.ToECDSA(secret[:])
	if err != nil {
		m.t.Fatal(err)
	}
	return key
}

// fundAuthorities makes the accounts that delegate exist before they do.
func (m *mix) fundAuthorities() {
	m.t.Helper()
	for i := range 4 {
		addr := chaintest.KeyAddress(m.authority(i))
		m.call(1, &addr, 1, nil, 100_000)
	}
	m.seal()
}

// delegate has a fresh account delegate to the machine, for which somebody else
// pays, and calls it as if it were the machine; or takes the delegation back.
func (m *mix) delegate(from int) {
	m.t.Helper()
	key := m.authority(m.rnd.IntN(4))
	authority := chaintest.KeyAddress(key)
	to := m.machine
	if m.rnd.IntN(3) == 0 {
		to = common.Address{}
	}
	auth, err := types.SignSetCode(key, types.SetCodeAuthorization{
		ChainID: *uint256.MustFromBig(m.chainID), Address: to, Nonce: m.nonces[authority] + uint64(m.rnd.IntN(5)/4), // a wrong nonce is skipped
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if auth.Nonce == m.nonces[authority] {
		m.nonces[authority]++
	}
	a := m.account(from)
	m.send(a.Key, &types.SetCodeTx{
		ChainID: uint256.MustFromBig(m.chainID), Nonce: m.nonce(a.Address), To: authority, Value: new(uint256.Int), Gas: 600_000,
		GasFeeCap: uint256.MustFromBig(feeCap), GasTipCap: uint256.MustFromBig(tip), Data: m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(1)),
		AuthList: []types.SetCodeAuthorization{auth},
	})
}

// special is a blob transaction, or a creation that fails, or one out of gas.
func (m *mix) special(from int) {
	m.t.Helper()
	switch k := m.rnd.IntN(3); {
	case k == 0 && m.blobs:
		m.blob(from)
	case k == 1:
		m.call(from, nil, 0, []byte{0x5f, 0x5f, 0xfd}, 200_000) // reverts
	default:
		m.call(from, nil, 0, append(m.machineABI.Bytecode, 1), 500_000) // not enough for the code
	}
}

// blob carries the same blob each time: computing a proof takes a second.
func (m *mix) blob(from int) {
	m.t.Helper()
	if m.sidecar == nil {
		b := kzg4844.Blob{1: 7}
		commitment, err := kzg4844.BlobToCommitment(&b)
		if err != nil {
			m.t.Fatal(err)
		}
		proof, err := kzg4844.ComputeBlobProof(&b, commitment)
		if err != nil {
			m.t.Fatal(err)
		}
		m.sidecar = types.NewBlobTxSidecar(types.BlobSidecarVersion0, []kzg4844.Blob{b}, []kzg4844.Commitment{commitment}, []kzg4844.Proof{proof})
	}
	a := m.account(from)
	m.send(a.Key, &types.BlobTx{
		ChainID: uint256.MustFromBig(m.chainID), Nonce: m.nonce(a.Address), To: m.machine, Value: new(uint256.Int), Gas: 600_000,
		GasFeeCap: uint256.MustFromBig(feeCap), GasTipCap: uint256.MustFromBig(tip), BlobFeeCap: uint256.MustFromBig(feeCap),
		BlobHashes: m.sidecar.BlobHashes(), Sidecar: m.sidecar, Data: m.pack(m.machineABI, "environment", big.NewInt(2)),
	})
}

// receipt is what the chain has of a transaction.
func (m *mix) receipt(hash common.Hash) chain.Receipt {
	m.t.Helper()
	return chaintest.Receipt(m.t, m.c, hash)
}
