// Package store keeps a node's data in one SQLite file: signed batches in storage
// order, receipts, evidence, epochs, opened steps and their verdicts.
//
// One goroutine writes. [Store.Update] hands it a function; functions of
// concurrent callers share a transaction and its fsync, and each caller is
// answered only after that fsync (group commit). [Store.View] reads a snapshot on
// a connection that cannot write.
//
// What is lost when the process dies at any point: nothing that was answered. The
// write-ahead log is synced at every commit (synchronous=FULL); the transaction
// that was under way is rolled back by SQLite at the next start, and every cache
// in this package is rebuilt from the file.
//
// Trust: the database is trusted. Whoever can edit the file can drop batches or
// change counters; what she cannot do is make up a signed batch, evidence, a
// receipt or an anchored root, and [Check] recomputes those.
package store
