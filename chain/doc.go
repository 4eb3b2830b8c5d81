// Package chain reads EVM chains over JSON-RPC: what verdicts, anchoring and
// replays need, and no more. Its subpackages encode attestations (eas), send them
// (anchor), run a chain of our own (devchain), prove the state of a foreign one
// (fork) and execute its transactions again on it (replay).
//
// The RPC node is not trusted. It can at most:
//
//   - withhold: every failure is an error of a known class, never a verdict;
//   - lie about what is on the chain: headers, receipts and logs are taken as it
//     tells them, and whoever relies on them says so ("as told by RPC"). It can
//     not answer for another transaction or block than the one that was asked
//     for, nor pass off a receipt whose logs name another transaction or block;
//   - suggest any fee: callers bound fees, see [Fees.Limit];
//   - cost memory and time up to [Options.MaxResponseBytes] and
//     [Options.Timeout] a call. It cannot redirect a call to another server;
//   - put text into error messages: it is cut short and quoted.
//
// Of several nodes the client asks one at a time: more nodes make it more
// available, not more truthful. To compare what they say, see [Client.Nodes]; to
// have it proved, see package fork.
//
// It never sees a private key: transactions are signed here.
package chain
