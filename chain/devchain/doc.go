// Package devchain is the EVM chain inside the binary: chain id 31337, blocks
// sealed by this process, state kept in one directory, JSON-RPC on loopback.
//
// It runs go-ethereum's own node, pool and state transition under a sealer of
// ours. What it promises:
//
//   - Genesis is a constant: same accounts, contracts and hash on every machine.
//   - A transaction that waits alone is in a block within milliseconds; without
//     transactions there are no blocks, and the chain idles at nothing.
//   - A block is on disk, fsynced, before anyone can see it: after a kill or a
//     power cut every receipt that was ever served is still there.
//   - While [Options.CanWrite] reports an error nothing is sealed. Transactions
//     wait in the pool (in memory), reads work, and sealing resumes by itself.
//   - A failed write never ends the process, see [ErrDead].
//
// What it does not promise: the well-known keys are known to everybody, whoever
// reaches the RPC port may rewind the chain and move its clock, and there is no
// consensus. Nothing on it proves anything to a third party.
package devchain
