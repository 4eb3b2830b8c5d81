//go:build soak

package merkle_test

import "testing"

// TestProofVerifiesForNoOtherIndexSoak tries 72 million pairs, which takes minutes.
func TestProofVerifiesForNoOtherIndexSoak(t *testing.T) {
	for n := 65; n <= 600; n++ {
		checkSize(t, n)
	}
}
