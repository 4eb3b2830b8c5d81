// Package fork reads the state after one block of a chain over JSON-RPC and
// proves what it reads, so that transactions can be executed on it in process.
//
// The node is not trusted where it can be helped:
//
//   - a block's header is hashed here, field by field, and its transactions must
//     hash to the header's transaction root;
//   - an account or slot comes with a Merkle proof (eth_getProof), which must
//     end in the header's state root; code must hash to the account's code hash;
//   - an answer that contradicts its block is [ErrContradiction].
//
// What cannot be proved is told: a header with fields that this package does not
// know, a node without eth_getProof, transactions of an impersonated sender. See
// [Block.Unproved] and [State.Unproved]. A proof is worth as much as the block
// hash that it ends in: whether that block is on the chain is for the caller to
// ask of other sources.
package fork
