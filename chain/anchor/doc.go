// Package anchor makes, replaces and checks the transactions that put an epoch's
// root on a chain (spec section 7).
//
// It decides nothing about durability: it hands out signed bytes, and the caller
// stores them before it sends them. Building the same epoch again under the same
// nonce and fees gives the same bytes, because signatures are deterministic.
//
// The RPC node is not trusted, see package chain: gas and fees that it suggests
// are bounded here, and an anchor counts only if the transaction's input is byte
// for byte what root and count demand.
package anchor
