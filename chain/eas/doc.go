// Package eas encodes and decodes what Karatum says to Ethereum Attestation
// Service: one schema, one kind of attestation, whose data is an epoch's root,
// its number of batches and the name of the format (spec section 7).
//
// Everything here is pure: no connection, no clock, no key. Encoders produce the
// one canonical ABI encoding. Parsers accept only that encoding: they rebuild
// the bytes from what they read and compare, so that for every epoch there is
// exactly one calldata, and a verifier can do the same with any tool.
package eas
