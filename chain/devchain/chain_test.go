package devchain

import (
	"context"
	"encoding/hex"
	"errors"
	"math/big"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
)

// genesisHash may change only with the contracts or the allocation, and then
// old data directories are refused.
const genesisHash = "0x453b980e1918c56b4175c368041cc5bc734cc2559cc82da68023b1afa48a29d2"

func fixedClock() uint64 { return 1_750_000_000 }

func testOptions(dir string) Options {
	return Options{Dir: dir, Listen: "127.0.0.1:0", Clock: fixedClock}
}

func openTest(t *testing.T, o Options) *Chain {
	t.Helper()
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// send signs and sends a transfer of one wei under the given nonce.
func send(t *testing.T, c *Chain, nonce uint64) common.Hash {
	t.Helper()
	to := common.Address{0xbe, 0xef}
	tx, err := types.SignNewTx(c.Accounts()[0].Key, types.LatestSignerForChainID(big.NewInt(ChainID)), &types.DynamicFeeTx{
		ChainID: big.NewInt(ChainID), Nonce: nonce, To: &to, Value: big.NewInt(1), Gas: 21_000,
		GasFeeCap: big.NewInt(10_000_000_000), GasTipCap: big.NewInt(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ethclient.NewClient(c.Client()).SendTransaction(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	return tx.Hash()
}

// receipt waits for a receipt by asking, as any client would, and for its block
// to be the head: go-ethereum serves the one a moment before it moves the other.
func receipt(t *testing.T, client *rpc.Client, hash common.Hash) *types.Receipt {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for t.Context().Err() == nil {
		r, err := ethclient.NewClient(client).TransactionReceipt(t.Context(), hash)
		if err != nil && !errors.Is(err, ethereum.NotFound) {
			t.Fatal(err)
		}
		if err == nil {
			head, err := ethclient.NewClient(client).BlockNumber(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if head >= r.BlockNumber.Uint64() {
				return r
			}
		}
		<-ticker.C
	}
	t.Fatal(t.Context().Err())
	return nil
}

func call[T any](t *testing.T, c *Chain, method string, args ...any) T {
	t.Helper()
	var out T
	if err := c.Client().CallContext(t.Context(), &out, method, args...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return out
}

func TestWellKnownAccounts(t *testing.T) {
	accounts, err := WellKnownAccounts()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
		"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
		"0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65", "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc",
		"0x976EA74026E726554dB657fA54763abd0C3a0aa9", "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
		"0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f", "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
	}
	for i, a := range accounts {
		if a.Address.Hex() != want[i] || crypto.PubkeyToAddress(a.Key.PublicKey) != a.Address {
			t.Errorf("account %d is %s, want %s", i, a.Address, want[i])
		}
	}
	if got := hex.EncodeToString(crypto.FromECDSA(accounts[0].Key)); got != "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" {
		t.Errorf("key 0 is %s", got)
	}
}

// Genesis must never change unnoticed: every existing data directory, and every
// anchor on it, hangs on this hash.
func TestGenesisIsConstant(t *testing.T) {
	c := openTest(t, Options{Dir: t.TempDir(), Clock: fixedClock})
	head := call[map[string]any](t, c, "eth_getBlockByNumber", "0x0", false)
	if got := head["hash"]; got != genesisHash {
		t.Errorf("genesis is %v, want %s", got, genesisHash)
	}
	if c.URL() != "" {
		t.Errorf("a chain without a listen address serves %s", c.URL())
	}
	client := ethclient.NewClient(c.Client())
	for _, at := range []common.Address{SchemaRegistryAddress, EASAddress, c.USDC()} {
		if code, err := client.CodeAt(t.Context(), at, nil); err != nil || len(code) == 0 {
			t.Errorf("no code at %s: %v", at, err)
		}
	}
}

func TestReceiptsSurviveReopen(t *testing.T) {
	const blocks = 1000
	dir := t.TempDir()
	c := openTest(t, testOptions(dir))
	hashes := make([]common.Hash, blocks)
	for i := range hashes {
		hashes[i] = send(t, c, uint64(i))
		receipt(t, c.Client(), hashes[i])
	}
	before := call[map[string]any](t, c, "eth_getBlockByNumber", "latest", false)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}

	c = openTest(t, testOptions(dir))
	after := call[map[string]any](t, c, "eth_getBlockByNumber", "latest", false)
	if before["hash"] != after["hash"] {
		t.Fatalf("head was %v, is %v", before["hash"], after["hash"])
	}
	for _, i := range []int{0, blocks / 2, blocks - 1} {
		if r := receipt(t, c.Client(), hashes[i]); r.Status != 1 {
			t.Errorf("receipt %d has status %d", i, r.Status)
		}
	}
	if r := receipt(t, c.Client(), send(t, c, blocks)); r.Status != 1 {
		t.Errorf("the reopened chain does not go on: %+v", r)
	}
	for _, tag := range []string{"safe", "finalized"} {
		got := call[map[string]any](t, c, "eth_getBlockByNumber", tag, false)
		if want := call[map[string]any](t, c, "eth_getBlockByNumber", "latest", false); got["hash"] != want["hash"] {
			t.Errorf("%s is %v, want %v", tag, got["hash"], want["hash"])
		}
	}
}

// Equal histories have equal hashes.
func TestBlocksAreReproducible(t *testing.T) {
	var heads []any
	for range 2 {
		c := openTest(t, testOptions(t.TempDir()))
		for nonce := range uint64(3) {
			receipt(t, c.Client(), send(t, c, nonce))
		}
		heads = append(heads, call[map[string]any](t, c, "eth_getBlockByNumber", "latest", false)["hash"])
	}
	if heads[0] != heads[1] {
		t.Errorf("heads differ: %v", heads)
	}
}

func TestEVMMethods(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	timeOf := func() uint64 {
		v := call[map[string]any](t, c, "eth_getBlockByNumber", "latest", false)["timestamp"].(string)
		return hexutil.MustDecodeUint64(v)
	}
	call[hexutil.Uint64](t, c, "evm_mine")
	start := timeOf()
	if start != fixedClock() {
		t.Errorf("first block is at %d, want %d", start, fixedClock())
	}
	call[uint64](t, c, "evm_increaseTime", 3600)
	call[hexutil.Uint64](t, c, "evm_mine")
	if got := timeOf(); got != start+3600 {
		t.Errorf("after evm_increaseTime: %d, want %d", got, start+3600)
	}
	call[uint64](t, c, "evm_setNextBlockTimestamp", start+10_000)
	call[hexutil.Uint64](t, c, "evm_mine")
	call[hexutil.Uint64](t, c, "evm_mine")
	if got := timeOf(); got != start+10_001 {
		t.Errorf("after evm_setNextBlockTimestamp and one more block: %d, want %d", got, start+10_001)
	}
	var ignored any
	if err := c.Client().Call(&ignored, "evm_setNextBlockTimestamp", start); err == nil {
		t.Error("a timestamp in the past was accepted")
	}
}

// A reorganisation drops the newest blocks; other transactions take their place.
func TestRevertAndRewind(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	kept := send(t, c, 0)
	receipt(t, c.Client(), kept)
	id := call[hexutil.Uint64](t, c, "evm_snapshot")
	dropped := send(t, c, 1)
	first := receipt(t, c.Client(), dropped)
	if !call[bool](t, c, "evm_revert", id) {
		t.Fatal("evm_revert says the snapshot is unknown")
	}
	if call[bool](t, c, "evm_revert", id) {
		t.Error("a used snapshot was accepted again")
	}
	client := ethclient.NewClient(c.Client())
	if _, err := client.TransactionReceipt(t.Context(), dropped); !errors.Is(err, ethereum.NotFound) {
		t.Errorf("the dropped transaction's receipt: %v, want not found", err)
	}
	receipt(t, c.Client(), kept)
	call[hexutil.Uint64](t, c, "evm_mine")
	again := receipt(t, c.Client(), send(t, c, 1))
	if again.BlockNumber.Cmp(first.BlockNumber) == 0 || again.BlockHash == first.BlockHash {
		t.Errorf("included again in %s, first in %s", again.BlockHash, first.BlockHash)
	}
	call[hexutil.Uint64](t, c, "evm_rewind", "0x0")
	if n := call[hexutil.Uint64](t, c, "eth_blockNumber"); n != 0 {
		t.Errorf("head is %d after a rewind to 0", n)
	}
	receipt(t, c.Client(), send(t, c, 0))
}

// A nonce is free again as soon as the rewind has returned, and what is sent again
// under a clock that stands still comes into a block that was never seen before.
func TestSendAfterRewind(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	seen := map[common.Hash]int{}
	for i := range 20 {
		for nonce := range uint64(2) {
			r := receipt(t, c.Client(), send(t, c, nonce))
			if before, ok := seen[r.BlockHash]; ok {
				t.Fatalf("after %d rewinds block %s comes again, which rewind %d had dropped", i, r.BlockHash, before+1)
			}
			seen[r.BlockHash] = i
		}
		call[hexutil.Uint64](t, c, "evm_rewind", hexutil.Uint64(i%2))
		if i%2 == 1 {
			call[hexutil.Uint64](t, c, "evm_rewind", "0x1") // leaves nothing
			call[hexutil.Uint64](t, c, "evm_rewind", "0x0")
		}
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, testOptions(dir))
	taken := strings.TrimPrefix(c.URL(), "http://")
	for _, tt := range []struct {
		name string
		o    Options
		want error
	}{
		{"locked directory", testOptions(dir), ErrLocked},
		{"port in use", Options{Dir: t.TempDir(), Listen: taken, Clock: fixedClock}, ErrPortInUse},
		{"all interfaces", Options{Dir: t.TempDir(), Listen: ":0", Clock: fixedClock}, ErrNotLoopback},
		{"public address", Options{Dir: t.TempDir(), Listen: "192.0.2.1:0", Clock: fixedClock}, ErrNotLoopback},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := Open(t.Context(), tt.o); !errors.Is(err, tt.want) {
				t.Errorf("Open = %v, %v; want %v", c, err, tt.want)
			}
		})
	}
	for _, o := range []Options{
		{Dir: t.TempDir()},
		{Clock: fixedClock},
		{Dir: t.TempDir(), Listen: "127.0.0.1", Clock: fixedClock},
		{Dir: t.TempDir(), Listen: "127.0.0.1:x", Clock: fixedClock},
	} {
		if _, err := Open(t.Context(), o); err == nil {
			t.Errorf("Open(%+v) was accepted", o)
		}
	}
	receipt(t, c.Client(), send(t, c, 0)) // the first chain is unharmed
}

func TestPausedWhileDiskIsFull(t *testing.T) {
	full := errors.New("2 MiB free")
	var refuse atomic.Bool
	asked := make(chan struct{})
	o := testOptions(t.TempDir())
	o.CanWrite = func() error {
		select {
		case asked <- struct{}{}:
		default:
		}
		if refuse.Load() {
			return full
		}
		return nil
	}
	c := openTest(t, o)
	refuse.Store(true)
	if err := c.Mine(); !errors.Is(err, ErrPaused) || !errors.Is(err, full) {
		t.Fatalf("Mine = %v, want ErrPaused with the guard's error", err)
	}
	hash := send(t, c, 0)
	for range 2 { // the automatic sealer asks, and asks again
		select {
		case <-asked:
		case <-t.Context().Done():
			t.Fatal("the sealer stopped asking")
		}
	}
	if n := call[hexutil.Uint64](t, c, "eth_blockNumber"); n != 0 {
		t.Fatalf("block %d was sealed against the guard", n)
	}
	var ignored any
	if err := c.Client().Call(&ignored, "evm_rewind", "0x0"); err == nil {
		t.Error("a rewind, which writes, went past the guard")
	}
	refuse.Store(false)
	receipt(t, c.Client(), hash)
}

func TestOpenHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("changed my mind")
	cancel(cause)
	if c, err := Open(ctx, testOptions(t.TempDir())); !errors.Is(err, cause) {
		t.Errorf("Open = %v, %v; want the cause", c, err)
	}
}

func BenchmarkOpen1000(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "chain")
	c, err := Open(b.Context(), testOptions(dir))
	if err != nil {
		b.Fatal(err)
	}
	for range 1000 {
		if err := c.Mine(); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
	for b.Loop() {
		c, err := Open(b.Context(), testOptions(dir))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		c.Close()
		b.StartTimer()
	}
}
