// Package merkle computes the roots and inclusion proofs of the flight record
// (seed section 2.4): a binary tree over 32-byte items, keccak-256 with RFC 6962
// style domain separation, the odd node of a level promoted unchanged.
//
//	leaf = keccak256(0x00 || item)        node = keccak256(0x01 || left || right)
//
// The size of the tree must come from a signed or attested source, never from
// the proof: item 0 of a 4-leaf tree also verifies as size 3 (spec section 2).
// Within one size a proof verifies for no other index.
package merkle

import (
	"errors"

	"golang.org/x/crypto/sha3"
)

// Errors of [Root], [Prove] and [Verify].
var (
	ErrEmpty  = errors.New("merkle: a tree needs at least one item")
	ErrIndex  = errors.New("merkle: index outside the tree")
	ErrShort  = errors.New("merkle: proof has too few siblings")
	ErrUnused = errors.New("merkle: proof has unused siblings")
	ErrRoot   = errors.New("merkle: proof does not reach the root")
)

// A Proof shows that an item stands at Index among Size. Siblings run from the
// leaf up; a level at which the node is the unpaired last one has none.
type Proof[H ~[32]byte] struct {
	Index    uint64 `json:"index"`
	Size     uint64 `json:"size"`
	Siblings []H    `json:"siblings"`
}

// Leaf returns the leaf of an item.
func Leaf[H ~[32]byte](item H) H {
	var b [33]byte
	copy(b[1:], item[:])
	return H(sum(b[:]))
}

// Node returns the parent of two nodes.
func Node[H ~[32]byte](left, right H) H {
	var b [65]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[33:], right[:])
	return H(sum(b[:]))
}

func sum(b []byte) (h [32]byte) {
	k := sha3.NewLegacyKeccak256()
	k.Write(b)
	k.Sum(h[:0])
	return h
}

func leaves[H ~[32]byte](items []H) []H {
	level := make([]H, len(items))
	for i, it := range items {
		level[i] = Leaf(it)
	}
	return level
}

// up computes the next level in place and returns it.
func up[H ~[32]byte](level []H) []H {
	n := len(level)
	for i := 0; i+1 < n; i += 2 {
		level[i/2] = Node(level[i], level[i+1])
	}
	if n%2 == 1 {
		level[n/2] = level[n-1]
	}
	return level[:(n+1)/2]
}

// Root returns the root over the items, or [ErrEmpty].
func Root[H ~[32]byte](items []H) (H, error) {
	if len(items) == 0 {
		return H{}, ErrEmpty
	}
	level := leaves(items)
	for len(level) > 1 {
		level = up(level)
	}
	return level[0], nil
}

// Prove returns the proof of items[index].
func Prove[H ~[32]byte](items []H, index int) (Proof[H], error) {
	if len(items) == 0 {
		return Proof[H]{}, ErrEmpty
	}
	if index < 0 || index >= len(items) {
		return Proof[H]{}, ErrIndex
	}
	p := Proof[H]{Index: uint64(index), Size: uint64(len(items)), Siblings: []H{}}
	level := leaves(items)
	for i := index; len(level) > 1; i /= 2 {
		if sib := i ^ 1; sib < len(level) {
			p.Siblings = append(p.Siblings, level[sib])
		}
		level = up(level)
	}
	return p, nil
}

// Fold walks the proof up from the item and returns the root that it reaches.
// Index and size are the proof's own; callers compare them with what they know.
func Fold[H ~[32]byte](item H, p Proof[H]) (H, error) {
	if p.Index >= p.Size {
		return H{}, ErrIndex
	}
	h, rest := Leaf(item), p.Siblings
	for i, n := p.Index, p.Size; n > 1; i, n = i/2, n/2+n%2 {
		if i == n-1 && n%2 == 1 {
			continue // promoted
		}
		if len(rest) == 0 {
			return H{}, ErrShort
		}
		if i%2 == 0 {
			h = Node(h, rest[0])
		} else {
			h = Node(rest[0], h)
		}
		rest = rest[1:]
	}
	if len(rest) != 0 {
		return H{}, ErrUnused
	}
	return h, nil
}

// Verify reports whether the proof shows item at its index of a tree of exactly
// size items under root. Size and root come from a source the caller trusts.
func Verify[H ~[32]byte](root H, size uint64, item H, p Proof[H]) error {
	if p.Size != size {
		return ErrIndex
	}
	got, err := Fold(item, p)
	if err != nil {
		return err
	}
	if got != root {
		return ErrRoot
	}
	return nil
}
