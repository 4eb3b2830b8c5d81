package merkle

// Proofs returns the root over the items and the proof of each, in one pass of
// O(n log n); proving them one by one with [Prove] would hash the tree anew each
// time. The error is [ErrEmpty].
func Proofs[H ~[32]byte](items []H) (H, []Proof[H], error) {
	if len(items) == 0 {
		return H{}, nil, ErrEmpty
	}
	proofs := make([]Proof[H], len(items))
	for i := range proofs {
		proofs[i] = Proof[H]{Index: uint64(i), Size: uint64(len(items)), Siblings: []H{}}
	}
	level := leaves(items)
	for depth := 0; len(level) > 1; depth++ {
		for i := range proofs {
			if sib := i>>depth ^ 1; sib < len(level) {
				proofs[i].Siblings = append(proofs[i].Siblings, level[sib])
			}
		}
		level = up(level)
	}
	return level[0], proofs, nil
}
