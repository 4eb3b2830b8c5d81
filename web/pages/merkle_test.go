package pages

import (
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/merkle"
)

// TestDrawTree holds the drawing against real proofs: as many siblings, and a path
// from the leaf's level to the top.
func TestDrawTree(t *testing.T) {
	for _, size := range []uint64{1, 2, 3, 5, 19, 64, 65, 500, 4096} {
		items := make([]flight.Hash, size)
		for i := range items {
			items[i] = flight.Keccak256([]byte{byte(i), byte(i >> 8)})
		}
		_, proofs, err := merkle.Proofs(items)
		if err != nil {
			t.Fatal(err)
		}
		for _, index := range []uint64{0, size / 2, size - 1} {
			v := DrawTree(index, size, "leaf", "root")
			if got, want := strings.Count(v.Siblings, "M"), len(proofs[index].Siblings); got != want {
				t.Errorf("leaf %d of %d: %d siblings, the proof has %d", index, size, got, want)
			}
			levels := 0
			for n := size; n > 1; n = (n + 1) / 2 {
				levels++
			}
			if got := strings.Count(v.Nodes, "M"); got != levels+1 || strings.Count(v.Path, "L") != levels {
				t.Errorf("leaf %d of %d: %d nodes on the path, want %d", index, size, got, levels+1)
			}
			if others := strings.Count(v.Others, "M"); size == 19 && others+strings.Count(v.Siblings, "M")+levels+1 != 19+10+5+3+2+1 {
				t.Errorf("leaf %d of 19: %d other nodes", index, others)
			}
			for _, l := range []label{v.Leaf, v.Root} {
				if l.X < 0 || l.X > treeWidth || l.Y < 0 || l.Y > float64(v.Height) {
					t.Errorf("leaf %d of %d: label %+v is outside", index, size, l)
				}
			}
		}
	}
	if v := DrawTree(9, 0, "leaf", "root"); v.Siblings != "" || v.Height <= 0 {
		t.Errorf("an empty tree: %+v", v)
	}
}
