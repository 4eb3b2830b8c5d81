// Package recorder is the client side of the flight record (spec section 10): it
// writes down what an agent did, signs it in batches and delivers it to a node.
//
// [Recorder.Record] commits to the values of a step, chains it and appends it to
// the journal, a directory of JSON lines on the agent's own machine. A background
// sender merges the waiting steps into batches and posts them. Record never waits
// for the network and nothing here makes the agent fail: every error goes to
// Options.OnError.
//
// What keeps one key from ever signing two histories:
//
//   - One journal has one writer, by file lock, and draws its own stream name, so
//     that two journals never write one stream.
//   - A header is signed only when it is about to be sent, one at a time. The
//     signed batch and its steps reach the disk before the first byte leaves, and
//     the same bytes are sent until the node answers definitively.
//   - DIR/guard.json holds the highest index ever handed to the network and the
//     file's own inode number. A journal that lost its tail or was copied does not
//     match it and goes on under a new stream.
//   - After each start the node is asked for the stream's head before anything is
//     signed. A node that knows more than the journal means a restored snapshot:
//     again a new stream.
//
// Steps that were in no signed batch when a stream was given up are recorded once
// more in the new one, with the same commitments: a step may then stand in both
// streams, but none is lost.
//
// Trust: the journal holds the plaintext and salts of every step (unless
// RetainPlaintext is false), so whoever reads it can open them all; whoever
// edits it is found out at the next open, at first use of an old segment or by
// [Check], for every line carries a checksum and the steps are chained. The node
// is not trusted: it can at most withhold service or make the recorder begin a
// new stream. Its receipts count only under one key: the first one that the journal
// holds, or Options.NodeAddress.
package recorder
