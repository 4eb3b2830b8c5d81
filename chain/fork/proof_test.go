package fork

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"

	"karatum/chain"
)

// A world is a state made here, with the proofs that an honest node would give.
type world struct {
	accounts *trie.Trie
	storage  map[common.Address]*trie.Trie
}

// newWorld has n accounts; every third has as many slots as its number.
func newWorld(t testing.TB, n int) *world {
	t.Helper()
	db := func() *triedb.Database { return triedb.NewDatabase(rawdb.NewMemoryDatabase(), triedb.HashDefaults) }
	w := &world{trie.NewEmpty(db()), map[common.Address]*trie.Trie{}}
	for i := range n {
		a := types.NewEmptyStateAccount()
		a.Nonce, a.Balance = uint64(i), uint256.NewInt(uint64(i)*1000+1)
		addr := address(i)
		if i%3 == 0 {
			st := trie.NewEmpty(db())
			for k := range i {
				value, err := rlp.EncodeToBytes(common.TrimLeftZeroes(slotValue(i, k).Bytes()))
				if err != nil {
					t.Fatal(err)
				}
				st.MustUpdate(crypto.Keccak256(slot(k).Bytes()), value)
			}
			a.Root = st.Hash()
			w.storage[addr] = st
		}
		raw, err := rlp.EncodeToBytes(a)
		if err != nil {
			t.Fatal(err)
		}
		w.accounts.MustUpdate(crypto.Keccak256(addr[:]), raw)
	}
	return w
}

func address(i int) common.Address { return common.BytesToAddress([]byte{0xac, byte(i)}) }
func slot(k int) common.Hash       { return common.BytesToHash([]byte{byte(k)}) }
func slotValue(i, k int) common.Hash {
	return common.BytesToHash(bytes.Repeat([]byte{byte(i + 1)}, 1+k%32))
}

// path is a proof in the order of the path.
type path []hexutil.Bytes

func (p *path) Put(_, v []byte) error { *p = append(*p, bytes.Clone(v)); return nil }
func (p *path) Delete([]byte) error   { return nil }

var _ ethdb.KeyValueWriter = (*path)(nil)

// proof is eth_getProof's answer for the account i and the first n slots.
func (w *world) proof(t testing.TB, i, n int) map[string]any {
	t.Helper()
	addr := address(i)
	var p path
	if err := w.accounts.Prove(crypto.Keccak256(addr[:]), &p); err != nil {
		t.Fatal(err)
	}
	a := types.NewEmptyStateAccount()
	if raw := w.accounts.MustGet(crypto.Keccak256(addr[:])); raw != nil {
		if err := rlp.DecodeBytes(raw, a); err != nil {
			t.Fatal(err)
		}
	}
	slots := []any{}
	for k := range n {
		var sp path
		value := common.Hash{}
		if st := w.storage[addr]; st != nil {
			if err := st.Prove(crypto.Keccak256(slot(k).Bytes()), &sp); err != nil {
				t.Fatal(err)
			}
			if k < i {
				value = slotValue(i, k)
			}
		}
		slots = append(slots, map[string]any{"key": slot(k), "value": (*hexutil.Big)(value.Big()), "proof": []hexutil.Bytes(sp)})
	}
	return map[string]any{
		"address": addr, "balance": (*hexutil.Big)(a.Balance.ToBig()), "nonce": hexutil.Uint64(a.Nonce),
		"accountProof": []hexutil.Bytes(p), "storageProof": slots,
	}
}

func slots(n int) (out []common.Hash) {
	for k := range n {
		out = append(out, slot(k))
	}
	return out
}

func marshal(t testing.TB, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Every account and slot of the world is proved, and so is every absence.
func TestVerify(t *testing.T) {
	w := newWorld(t, 40)
	root := w.accounts.Hash()
	for i := range 45 {
		n := i + 3
		got, err := verify(marshal(t, w.proof(t, i, n)), root, address(i), slots(n))
		if err != nil {
			t.Fatalf("account %d: %v", i, err)
		}
		if (got.account == nil) != (i >= 40) {
			t.Errorf("account %d: %+v", i, got.account)
		}
		for k := range n {
			want := common.Hash{}
			if i < 40 && i%3 == 0 && k < i {
				want = slotValue(i, k)
			}
			if got.slots[slot(k)] != want {
				t.Errorf("slot %d of account %d is %s, want %s", k, i, got.slots[slot(k)], want)
			}
		}
	}
	if _, err := verify(marshal(t, w.proof(t, 9, 2)), root, address(9), slots(3)); !errors.Is(err, chain.ErrMalformed) {
		t.Errorf("a missing slot: %v", err)
	}
	if _, err := verify(marshal(t, w.proof(t, 9, 2)), root, address(10), slots(2)); !errors.Is(err, ErrContradiction) {
		t.Errorf("another account's proof: %v", err)
	}
	if _, err := verify(marshal(t, w.proof(t, 9, 2)), common.Hash{1}, address(9), slots(2)); !errors.Is(err, ErrContradiction) {
		t.Errorf("another root: %v", err)
	}
}

// Whatever digit is changed in an answer, it is refused or still says the same.
func TestEveryEditIsCaught(t *testing.T) {
	w := newWorld(t, 20)
	root := w.accounts.Hash()
	const i, n = 18, 4
	honest := marshal(t, w.proof(t, i, n))
	want, err := verify(honest, root, address(i), slots(n))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		edited := bytes.Clone(honest)
		at := rapid.IntRange(0, len(edited)-1).Draw(t, "at")
		edited[at] = "0123456789abcdef\"{}[],:"[rapid.IntRange(0, 22).Draw(t, "to")]
		got, err := verify(edited, root, address(i), slots(n))
		if err != nil {
			if !errors.Is(err, chain.ErrMalformed) {
				t.Fatalf("%v", err)
			}
			return
		}
		if got.account.Balance.Cmp(want.account.Balance) != 0 || got.account.Nonce != want.account.Nonce || got.account.Root != want.account.Root {
			t.Fatalf("accepted account %+v", got.account)
		}
		for _, s := range slots(n) {
			if got.slots[s] != want.slots[s] {
				t.Fatalf("accepted %s in slot %s", got.slots[s], s)
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	w := newWorld(f, 12)
	root := w.accounts.Hash()
	for _, i := range []int{0, 6, 9, 13} {
		f.Add([]byte(marshal(f, w.proof(f, i, 2))))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := verify(raw, root, address(9), slots(2))
		if err == nil && (got.account == nil || got.account.Nonce != 9 || got.slots[slot(1)] != slotValue(9, 1)) {
			t.Fatalf("accepted %+v", got)
		}
	})
}

func FuzzParseBlock(f *testing.F) {
	h := &types.Header{Difficulty: common.Big0, Number: common.Big1, Extra: []byte{}, TxHash: types.EmptyTxsHash}
	raw, err := json.Marshal(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(raw[:len(raw)-1]), []byte(`,"transactions":[]}`))
	f.Add([]byte(raw[:len(raw)-1]), []byte(`,"transactions":[{"type":"0x7e","hash":"0x11","from":"0x22"}],"newRoot":"0x"}`))
	f.Fuzz(func(t *testing.T, head, tail []byte) {
		b, err := parseBlock(append(bytes.Clone(head), tail...), true)
		if err == nil && b.Unproved == "" && b.Header.Header.Hash() != b.Hash {
			t.Fatalf("accepted %+v", b.Header)
		}
	})
}
