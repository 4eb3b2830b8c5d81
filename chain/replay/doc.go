// Package replay executes one mined transaction again, in process, on the state
// that package fork reads and proves, and compares the outcome with the receipt
// (spec section 9).
//
// A [Result] says what was reproduced and how much of it rests on the word of the
// RPC node. What could not be replayed at all is an error with a stable [Code]:
// missing history is HISTORY_PRUNED, never "not reproduced".
//
// The package needs no node of ours, no data directory and no database. It knows
// nothing of claims: the caller evaluates them on the replayed receipt.
package replay
