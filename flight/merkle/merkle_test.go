package merkle_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"golang.org/x/crypto/sha3"
	"pgregory.net/rapid"

	"karatum/flight/merkle"
)

type hash = [32]byte

func keccak(parts ...[]byte) (h hash) {
	k := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		k.Write(p)
	}
	k.Sum(h[:0])
	return h
}

func items(n int) []hash {
	out := make([]hash, n)
	for i := range out {
		out[i] = keccak(binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	return out
}

// model is RFC 6962's recursive definition: a tree of n splits at the largest
// power of two below n. It equals the level by level one with promotion.
func model(items []hash) hash {
	if len(items) == 1 {
		return keccak([]byte{0}, items[0][:])
	}
	split := 1
	for split*2 < len(items) {
		split *= 2
	}
	l, r := model(items[:split]), model(items[split:])
	return keccak([]byte{1}, l[:], r[:])
}

func TestRootAgainstRecursiveModel(t *testing.T) {
	for n := 1; n <= 600; n++ {
		its := items(n)
		kept := slices.Clone(its)
		root, err := merkle.Root(its)
		if err != nil || root != model(its) {
			t.Fatalf("Root of %d = %x, %v, want %x", n, root, err, model(its))
		}
		if !slices.Equal(its, kept) {
			t.Fatalf("Root of %d changed its items", n)
		}
	}
}

// checkSize proves every item of a tree of n and tries every proof at every other
// index and, in small trees, for every other item.
func checkSize(t testing.TB, n int) {
	its := items(n)
	root, proofs, err := merkle.Proofs(its)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := merkle.Root(its); err != nil || again != root {
		t.Fatalf("size %d: Proofs has root %x, Root %x, %v", n, root, again, err)
	}
	for i, p := range proofs {
		if err := merkle.Verify(root, uint64(n), its[i], p); err != nil {
			t.Fatalf("size %d: proof %d: %v", n, i, err)
		}
		for j := range n {
			if j == i {
				continue
			}
			moved := p
			moved.Index = uint64(j)
			if merkle.Verify(root, uint64(n), its[i], moved) == nil {
				t.Fatalf("size %d: the proof of %d verifies at %d", n, i, j)
			}
			if n <= 64 && merkle.Verify(root, uint64(n), its[j], p) == nil {
				t.Fatalf("size %d: the proof of %d verifies for item %d", n, i, j)
			}
		}
	}
}

func TestProofVerifiesForNoOtherIndex(t *testing.T) {
	for n := 1; n <= 64; n++ {
		checkSize(t, n)
	}
}

func TestProofVerifiesForNoOtherIndexDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(65, 600).Draw(t, "size")
		its := items(n)
		root, err := merkle.Root(its)
		if err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, n-1).Draw(t, "index")
		p, err := merkle.Prove(its, i)
		if err != nil || merkle.Verify(root, uint64(n), its[i], p) != nil {
			t.Fatalf("size %d: proof %d: %v", n, i, err)
		}
		for j := range uint64(n + 2) {
			moved := p
			moved.Index = j
			if err := merkle.Verify(root, uint64(n), its[i], moved); (err == nil) != (j == uint64(i)) {
				t.Fatalf("size %d: the proof of %d at %d: %v", n, i, j, err)
			}
		}
	})
}

func TestProveAndProofsAgree(t *testing.T) {
	for n := 1; n <= 70; n++ {
		its := items(n)
		_, proofs, err := merkle.Proofs(its)
		if err != nil {
			t.Fatal(err)
		}
		for i := range its {
			p, err := merkle.Prove(its, i)
			if err != nil || p.Index != proofs[i].Index || p.Size != proofs[i].Size || !slices.Equal(p.Siblings, proofs[i].Siblings) {
				t.Fatalf("size %d, index %d: Prove has %v, %v, Proofs %v", n, i, p, err, proofs[i])
			}
		}
	}
}

func TestChangedProofIsRefused(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 13} {
		its := items(n)
		root, proofs, err := merkle.Proofs(its)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range proofs {
			verify := func(what string, root, item hash, siblings []hash) {
				q := merkle.Proof[hash]{Index: p.Index, Size: p.Size, Siblings: siblings}
				if merkle.Verify(root, uint64(n), item, q) == nil {
					t.Errorf("size %d, index %d: %s is accepted", n, i, what)
				}
			}
			for bit := range 256 {
				flip := func(h hash) hash { h[bit/8] ^= 1 << (bit % 8); return h }
				verify("another root", flip(root), its[i], p.Siblings)
				verify("another item", root, flip(its[i]), p.Siblings)
				for s := range p.Siblings {
					changed := slices.Clone(p.Siblings)
					changed[s] = flip(changed[s])
					verify("another sibling", root, its[i], changed)
				}
			}
			verify("a sibling more", root, its[i], append(slices.Clone(p.Siblings), root))
			verify("a sibling more in front", root, its[i], append([]hash{root}, p.Siblings...))
			if k := len(p.Siblings); k > 0 {
				verify("a sibling less", root, its[i], p.Siblings[:k-1])
				verify("a sibling less in front", root, its[i], p.Siblings[1:])
			}
		}
	}
}

// The bare fold takes item 0 of a 4-leaf tree for item 0 of a 3-leaf one, so the
// size must come from elsewhere.
func TestSizeIsNeverTakenFromTheProof(t *testing.T) {
	its := items(4)
	root, err := merkle.Root(its)
	if err != nil {
		t.Fatal(err)
	}
	p, err := merkle.Prove(its, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Size = 3
	if got, err := merkle.Fold(its[0], p); err != nil || got != root {
		t.Fatalf("Fold as size 3 = %x, %v; the ambiguity that this test is about is gone", got, err)
	}
	if err := merkle.Verify(root, 4, its[0], p); !errors.Is(err, merkle.ErrIndex) {
		t.Errorf("Verify with size 3 in a tree of 4 = %v, want %v", err, merkle.ErrIndex)
	}
	for n := 1; n <= 64; n++ {
		its := items(n)
		root, proofs, err := merkle.Proofs(its)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range proofs {
			for size := range uint64(70) {
				p.Size = size
				if err := merkle.Verify(root, uint64(n), its[i], p); (err == nil) != (size == uint64(n)) {
					t.Fatalf("item %d of %d, proof of size %d: %v", i, n, size, err)
				}
			}
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := merkle.Root[hash](nil); !errors.Is(err, merkle.ErrEmpty) {
		t.Errorf("Root of nothing: %v", err)
	}
	if _, _, err := merkle.Proofs[hash](nil); !errors.Is(err, merkle.ErrEmpty) {
		t.Errorf("Proofs of nothing: %v", err)
	}
	if _, err := merkle.Prove[hash](nil, 0); !errors.Is(err, merkle.ErrEmpty) {
		t.Errorf("Prove in nothing: %v", err)
	}
	for _, i := range []int{-1, 3} {
		if _, err := merkle.Prove(items(3), i); !errors.Is(err, merkle.ErrIndex) {
			t.Errorf("Prove %d of 3: %v", i, err)
		}
	}
	its := items(5)
	root, err := merkle.Root(its)
	if err != nil {
		t.Fatal(err)
	}
	p, err := merkle.Prove(its, 4)
	if err != nil {
		t.Fatal(err)
	}
	for want, q := range map[error]merkle.Proof[hash]{
		merkle.ErrShort:  {Index: 4, Size: 5},
		merkle.ErrUnused: {Index: 4, Size: 5, Siblings: append(slices.Clone(p.Siblings), hash{})},
		merkle.ErrIndex:  {Index: 5, Size: 5, Siblings: p.Siblings},
		merkle.ErrRoot:   {Index: 4, Size: 5, Siblings: []hash{{1}}},
	} {
		if err := merkle.Verify(root, 5, its[4], q); !errors.Is(err, want) {
			t.Errorf("Verify = %v, want %v", err, want)
		}
	}
	// A size of 2^64-1 must neither loop nor overflow.
	if _, err := merkle.Fold(hash{}, merkle.Proof[hash]{Index: 1<<64 - 2, Size: 1<<64 - 1}); !errors.Is(err, merkle.ErrShort) {
		t.Errorf("Fold in the largest tree: %v", err)
	}
}

func TestProofOfOneItemHasAnEmptyArray(t *testing.T) {
	p, err := merkle.Prove(items(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if want := `{"index":0,"size":1,"siblings":[]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}

func BenchmarkRoot512(b *testing.B) {
	its := items(512)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := merkle.Root(its); err != nil {
			b.Fatal(err)
		}
	}
}
