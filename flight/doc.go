// Package flight is the flight record, version 1: the signed, hash-chained log of
// what an agent did, and everything a stranger needs to check it offline. It reads,
// hashes, signs, proves and judges; it has no clock, no network and no storage.
// This page describes the format so that it can be implemented anew; the vectors
// in testvectors/v1.json pin every value.
//
// # Notation
//
// H is keccak256 (the original Keccak padding, as in Ethereum). || joins bytes.
// "text" stands for its UTF-8 bytes, \n for the byte 0x0a. Numbers inside hash
// inputs are decimal text in JSON and in the EIP-191 text, and 32-byte big-endian
// words under EIP-712. Hex is 0x and lower-case digits, always; upper case is
// refused. Integers are 0 to 2^53-1 and compared by value: 1.0 is 1. A JSON object
// of the protocol has exactly the keys named here: no other, none twice, null
// nowhere, an optional key left out when absent.
//
// # Canonical JSON
//
// What ECMAScript's JSON.stringify prints for the value, without space, the keys of
// every object sorted by UTF-16 code unit. So: numbers are doubles in the shortest
// form that reads back, plain from 1e-6 to below 1e21 and with exponent otherwise
// (1e+21, 1e-7), -0 is 0; in strings only the double quote, the backslash, control
// characters below U+0020 (\b \t \n \f \r, else \u00xx) and lone surrogates (\udxxx)
// are escaped, with lower-case hex; everything else stands as it is, unnormalised.
// A committed value has at most 64 containers inside each other and 1 MiB of
// canonical bytes. A text is refused that is not one JSON value in UTF-8, repeats a
// key (after unescaping), holds a number beyond the doubles, or writes an integer
// that ECMAScript would print as another number; such integers go as strings. See
// package [karatum/flight/canon] for the codes.
//
// # Commitment
//
//	commitment = H( "karatum.fr.v1.commit" || salt (32 bytes) || canonical JSON of the value )
//
// The salt is drawn anew for every field. Salt and value together open the
// commitment. See [Commit].
//
// # Step
//
// One thing the agent did, see [Step] and [ParseStep]:
//
//	v        "karatum.fr.v1"
//	agent    address of the key, 20 bytes as hex
//	stream   name, 1 to 64 code points, rules at [CheckStream]
//	seq      integer, 0 for the first step of the stream, then one more each
//	prev     hash of the step before, 32 bytes as hex, all zero at seq 0
//	at       integer, unix milliseconds
//	kind     "tool", "llm", "tx", "message" or "note"
//	status   "ok" or "error"
//	name     optional, 1 to 128 code points
//	prompt, args, result, claim     optional commitments, at least one of them
//	chainId, txHash                 optional, both or neither
//
//	step hash = H( "karatum.fr.v1.step\n" || canonical JSON of the step )
//
// As every step holds the hash of the one before, it commits to all that came
// earlier. A step without any commitment could be guessed from its hash, so it is
// refused.
//
// # Claim
//
// The one content that is interpreted, opened from the step's claim. Amounts are
// decimal strings without leading zeros, below 2^256:
//
//	{"kind":"tx.success"}
//	{"kind":"native.transfer","to":ADDRESS,"value":WEI}
//	{"kind":"erc20.transfer","token":ADDRESS,"to":ADDRESS,"amount":BASE UNITS}
//
// # Merkle tree
//
// A binary tree over 32-byte items, the unpaired last node of a level promoted
// unchanged:
//
//	leaf = H( 0x00 || item )         33 bytes hashed
//	node = H( 0x01 || left || right )   65 bytes hashed
//
// A proof is {index, size, siblings}, siblings from the leaf up, none at a level
// where the node is promoted, none left over. Whoever verifies takes the size from
// a signed or attested source: the bare fold of a 4-leaf proof of item 0 also
// passes as size 3. Within one size a proof holds for one index only. See package
// [karatum/flight/merkle].
//
// # Batch
//
// The agent signs the [Header] of a run of up to 65,536 consecutive steps:
//
//	agent, stream     of every step in it
//	index             0, 1, 2, ... batch counter of (agent, stream)
//	fromSeq, toSeq    first and last step, both inside
//	prevHead          prev of the first step, zero at index 0 and only there
//	head              hash of the last step
//	root              Merkle root over the step hashes
//	createdAt         integer, unix seconds
//
// Some headers are impossible by themselves and refused unseen, see [Header.Check].
//
// The batchId is the EIP-712 digest of the header whatever the scheme of the
// signature:
//
//	domain   = H( H("EIP712Domain(string name,string version)") || H("Karatum Flight Record") || H("1") )
//	struct   = H( H(type) || agent || H(stream) || index || fromSeq || toSeq || prevHead || head || root || createdAt )
//	batchId  = H( 0x19 0x01 || domain || struct )
//
//	type     = "FlightBatch(address agent,string stream,uint64 index,uint64 fromSeq,uint64 toSeq,bytes32 prevHead,bytes32 head,bytes32 root,uint64 createdAt)"
//
// Each member of struct takes 32 bytes; the address is padded with zeros on the
// left. Scheme "eip712" signs the batchId. Scheme "eip191" signs
//
//	H( 0x19 "Ethereum Signed Message:\n" || length of text in bytes, decimal || text )
//
//	text = "Karatum Flight Batch v1\nagent: A\nstream: S\nindex: I\nfromSeq: F\ntoSeq: T\nprevHead: P\nhead: D\nroot: R\ncreatedAt: C"
//
// with hashes and address as hex and no line break at the end. Stream names hold no
// control, format or separator characters, so that no name can pose as a line.
//
// A [Signature] is r, s and v of secp256k1: 65 bytes with v one of 0, 1, 27, 28, or
// the 64 bytes of EIP-2098. r and s are in range and not zero, s is in the lower
// half; anything else is refused. It is kept as 65 bytes with v 27 or 28. The body
// of a batch is {header, scheme, signature}, at most 16 KiB.
//
// # Disclosure
//
// {step, reveal, proof, batch} opens fields of one step: reveal maps a field name to
// {salt, value}, batch is the signed body. At most 5 MiB and 80 containers deep.
// [Disclosure.Verify] makes these checks; a refusal names the first that fails:
//
//	STEP_SCHEMA   the step keeps the rules above
//	SIGNATURE     the signature recovers to header.agent
//	STEP_BATCH    agent and stream agree, seq is inside the span, proof.index is
//	              seq - fromSeq, proof.size is the span
//	PROOF         the proof leads from the step hash to header.root
//	PREV_HEAD     the first step's prev is header.prevHead
//	HEAD          the last step's hash is header.head
//	REVEAL_KEY    every opened field is one that the step commits to
//	COMMITMENT    every opening meets its commitment
//	CLAIM         an opened claim of a known kind is well formed
//
// The other steps of the batch appear as hashes of salted content only.
//
// # Equivocation
//
// Let a and b be validly signed headers of one agent and stream, a.index <=
// b.index, different in more than createdAt; di = b.index - a.index - 1 batches and
// ds = b.fromSeq - a.toSeq - 1 steps lie between. No honest history holds both where
// one of these applies, the first that does being the [Reason]:
//
//	SAME_INDEX            a.index = b.index
//	OVERLAP               some seq is in both
//	ORDER                 b lies wholly before a
//	ADJACENT_INDEX_GAP    di = 0 and ds > 0
//	TOO_FEW_STEPS         ds < di: a batch holds at least one step
//	PREV_HEAD             ds = 0 and b.prevHead is not a.head
//
// A pair that none fits is a gap at most, and a gap is no offence. BROKEN_CHAIN is
// told by two disclosures: proven steps s and s+1 of one stream where the second's
// prev is not the first's hash. [Evidence] is {type: "karatum.equivocation.v1",
// reason, a, b} and is checked from its own text alone.
//
// # Receipt, epoch, rating
//
// A node answers for a stored batch with an EIP-191 signature over [Receipt.Text]:
//
//	"Karatum Flight Receipt v1\nbatchId: B\nposition: N\nreceivedAt: MS\nanchorBy: S"
//
// or, for receipts written together, over [GroupText], "Karatum Flight Receipt Group
// v1\nroot: R\nsize: N", where R is the Merkle root over H(text) of each. An epoch
// is a Merkle tree over up to 512 batchIds in storage order; its root and count are
// attested on a chain. [Evaluate] compares a claim with a mined transaction, and
// [Rating] is 24 times the Wilson lower bound (z = 1.959963984540054) of confirmed
// among decided transactions, rounded half up to two places.
//
// # Whom to trust for what
//
// The agent's key is trusted for nothing but authorship: whoever holds it can write
// any log, and only one. The recorder is trusted by its operator, for it sees the
// plain text. The node is not trusted: it can withhold or drop what it was sent,
// which its signed receipt then shows, but can neither forge nor change a batch.
// The chain is trusted for time and order alone. A disclosure's step, proof and
// openings are not trusted at all until Verify has judged them.
//
// # What is proved
//
// Somebody with a disclosure or evidence in hand can rely on this: the holder of the
// key signed the batch; this step is in it, at this place, unchanged; the opened
// values are the ones committed to when it was signed; the step was not taken out,
// put in or moved afterwards without another signature; and two histories under one
// stream name contradict each other for everyone to see, once both are seen. With an
// anchored epoch: all of it existed before the block.
//
// # What is not proved
//
// That a recorder was running, or that it recorded all; a step that was never
// written leaves no trace. That what a step says about the world off chain is true.
// That the prev links between steps that nobody opened hold: the root fixes their
// hashes, but only an opened pair shows its link. That createdAt and at are right,
// beyond the anchor's block. That there is no second stream, or no second node with
// other batches: such forks stay hidden until somebody compares.
package flight
