package flight

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// Limits of a batch (spec sections 1 and 4).
const (
	MaxSpan       = 65536    // steps of one batch
	MaxBatchBytes = 16 << 10 // body of one batch
	maxBatchDepth = 8        // a batch is three containers deep
)

// A Scheme says how a header was signed.
type Scheme string

// The two signature schemes of spec section 3.
const (
	EIP712 Scheme = "eip712"
	EIP191 Scheme = "eip191"
)

// A Header is what the agent signs: a run of consecutive steps of one stream
// (seed section 2.5). Every integer is at most 2^53-1.
type Header struct {
	Agent     Address `json:"agent"`
	Stream    string  `json:"stream"`
	Index     uint64  `json:"index"`     // batch counter of (agent, stream)
	FromSeq   uint64  `json:"fromSeq"`   // first step
	ToSeq     uint64  `json:"toSeq"`     // last step, inclusive
	PrevHead  Hash    `json:"prevHead"`  // prev of the first step
	Head      Hash    `json:"head"`      // hash of the last step
	Root      Hash    `json:"root"`      // Merkle root over the step hashes
	CreatedAt uint64  `json:"createdAt"` // unix seconds
}

// Span returns the number of steps, 0 where ToSeq is below FromSeq.
func (h *Header) Span() uint64 {
	if h.ToSeq < h.FromSeq {
		return 0
	}
	return h.ToSeq - h.FromSeq + 1
}

// SameHistory reports whether two headers are equal in all but CreatedAt: the
// same history, perhaps signed again later.
func (h Header) SameHistory(o Header) bool {
	h.CreatedAt, o.CreatedAt = 0, 0
	return h == o
}

// Check refuses a header that is impossible by itself (spec section 4): a bad
// stream name, a span of no step or over [MaxSpan], index 0 that does not start
// the stream, a later index with a zero prevHead or fewer steps before it than
// batches, a one-step batch whose root is not leaf(head). The error is a
// [*FieldError] that names the header's field.
func (h *Header) Check() error {
	if err := CheckStream(h.Stream); err != nil {
		return err
	}
	if err := h.checkRange(); err != nil {
		return err
	}
	switch {
	case h.ToSeq < h.FromSeq:
		return fieldErr("toSeq", "is below fromSeq")
	case h.Span() > MaxSpan:
		return fieldErr("toSeq", "a batch spans at most %d steps", MaxSpan)
	case h.Index == 0 && h.FromSeq != 0:
		return fieldErr("fromSeq", "must be 0 at index 0")
	case h.Index == 0 && !h.PrevHead.IsZero():
		return fieldErr("prevHead", "must be zero at index 0")
	case h.Index > 0 && h.PrevHead.IsZero():
		return fieldErr("prevHead", "must not be zero above index 0")
	case h.FromSeq < h.Index:
		return fieldErr("fromSeq", "is below index, yet every earlier batch held a step")
	case h.Span() == 1 && h.Root != merkle.Leaf(h.Head):
		return fieldErr("root", "must be leaf(head) in a batch of one step")
	}
	return nil
}

// checkRange refuses integers that a header parsed from JSON cannot hold.
func (h *Header) checkRange() error {
	for _, f := range []struct {
		name string
		n    uint64
	}{{"index", h.Index}, {"fromSeq", h.FromSeq}, {"toSeq", h.ToSeq}, {"createdAt", h.CreatedAt}} {
		if f.n > canon.MaxInt {
			return fieldErr(f.name, "must be at most 2^53-1")
		}
	}
	return nil
}

const (
	domainType = "EIP712Domain(string name,string version)"
	batchType  = "FlightBatch(address agent,string stream,uint64 index,uint64 fromSeq,uint64 toSeq,bytes32 prevHead,bytes32 head,bytes32 root,uint64 createdAt)"
)

// domainSeparator is the EIP-712 domain {name "Karatum Flight Record", version
// "1"}: name and version only, no chainId, for a record belongs to no chain.
func domainSeparator() Hash {
	t, n, v := Keccak256([]byte(domainType)), Keccak256([]byte("Karatum Flight Record")), Keccak256([]byte("1"))
	return Keccak256(t[:], n[:], v[:])
}

var (
	domainHash    = domainSeparator()
	batchTypeHash = Keccak256([]byte(batchType))
)

// ID returns the batchId: the EIP-712 digest of the header, whatever the scheme
// of its signature.
func (h *Header) ID() Hash { return h.digest712(domainHash) }

// IDUnder returns the EIP-712 digest under a domain that names a chain as well,
// which wallets add by mistake: what such a signature is over.
func (h *Header) IDUnder(chainID uint64) Hash {
	t := Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId)"))
	n, v := Keccak256([]byte("Karatum Flight Record")), Keccak256([]byte("1"))
	id := word(chainID)
	return h.digest712(Keccak256(t[:], n[:], v[:], id[:]))
}

func word(n uint64) (w [32]byte) {
	binary.BigEndian.PutUint64(w[24:], n)
	return w
}

func (h *Header) digest712(domain Hash) Hash {
	var b [10 * 32]byte
	copy(b[0:], batchTypeHash[:])
	copy(b[32+12:], h.Agent[:])
	stream := Keccak256([]byte(h.Stream))
	copy(b[64:], stream[:])
	for i, n := range []uint64{h.Index, h.FromSeq, h.ToSeq} {
		binary.BigEndian.PutUint64(b[96+32*i+24:], n)
	}
	copy(b[192:], h.PrevHead[:])
	copy(b[224:], h.Head[:])
	copy(b[256:], h.Root[:])
	binary.BigEndian.PutUint64(b[288+24:], h.CreatedAt)
	s := Keccak256(b[:])
	return Keccak256([]byte{0x19, 1}, domain[:], s[:])
}

// Text returns the EIP-191 text, the form that personal_sign shows to a person.
func (h *Header) Text() string {
	b := append(make([]byte, 0, 512), "Karatum Flight Batch v1"...)
	line := func(key, val string) { b = append(append(append(append(b, '\n'), key...), ": "...), val...) }
	num := func(key string, n uint64) { line(key, strconv.FormatUint(n, 10)) }
	line("agent", h.Agent.String())
	line("stream", h.Stream)
	num("index", h.Index)
	num("fromSeq", h.FromSeq)
	num("toSeq", h.ToSeq)
	line("prevHead", h.PrevHead.String())
	line("head", h.Head.String())
	line("root", h.Root.String())
	num("createdAt", h.CreatedAt)
	return string(b)
}

// Digest returns what the key signs under the scheme: the EIP-191 digest of
// [Header.Text] or the batchId.
func (h *Header) Digest(s Scheme) Hash {
	if s == EIP191 {
		return TextDigest(h.Text())
	}
	return h.ID()
}

// A Batch is a signed header: the statement that an agent sends and cannot deny.
type Batch struct {
	Header    Header    `json:"header"`
	Scheme    Scheme    `json:"scheme"`
	Signature Signature `json:"signature"`
}

// Sign signs the header with the key.
func (h Header) Sign(k *Key, s Scheme) Batch {
	return Batch{Header: h, Scheme: s, Signature: k.Sign(h.Digest(s))}
}

// ID returns the header's batchId.
func (b *Batch) ID() Hash { return b.Header.ID() }

// Recover returns the signer. The error wraps [ErrSignature], also for a scheme
// that is none of spec section 3.
func (b *Batch) Recover() (Address, error) {
	if b.Scheme != EIP712 && b.Scheme != EIP191 {
		return Address{}, fmt.Errorf("%w: unknown scheme %q", ErrSignature, clip(string(b.Scheme)))
	}
	return b.Signature.Recover(b.Header.Digest(b.Scheme))
}

// Verify reports whether the signature recovers to the header's agent, else an
// error that wraps [ErrSignature].
func (b *Batch) Verify() error {
	signer, err := b.Recover()
	if err != nil {
		return err
	}
	if signer != b.Header.Agent {
		return signerErr(signer, b.Header.Agent)
	}
	return nil
}

// ParseBatch reads the body of an ingest request, at most [MaxBatchBytes], and
// refuses what spec section 4 answers with 400: wrong JSON, unknown keys, wrong
// types, a signature of bad form, a header impossible by itself. It does not
// recover the signer. The error is a [*FieldError].
func ParseBatch(text []byte) (Batch, error) {
	v, err := parseDoc(text, maxBatchDepth, MaxBatchBytes)
	if err != nil {
		return Batch{}, err
	}
	b, raw, err := readBatch(v, "", "")
	if err != nil {
		return Batch{}, err
	}
	if b.Signature, err = ParseSignature(raw); err != nil {
		return Batch{}, fieldErr("signature", "%s", err)
	}
	if err := b.Header.Check(); err != nil {
		return Batch{}, err
	}
	return b, nil
}

// readBatch reads {header, scheme, signature} and leaves the signature as raw
// bytes. headerPath is how errors name the header's fields.
func readBatch(v canon.Value, path, headerPath string) (Batch, []byte, error) {
	if err := object(v, path, []string{"header", "scheme", "signature"}); err != nil {
		return Batch{}, nil, err
	}
	r := reader{v: v, path: path}
	b := Batch{Scheme: Scheme(r.text("scheme"))}
	raw, err := ParseHex(r.text("signature"))
	if err != nil {
		r.fail("signature", "must be lower-case 0x hex")
	}
	if b.Scheme != EIP712 && b.Scheme != EIP191 {
		r.fail("scheme", "must be eip712 or eip191")
	}
	if r.err != nil {
		return b, nil, r.err
	}
	hv, _ := v.Get("header")
	if hv.Kind != canon.Object {
		return b, nil, fieldErr(join(path, "header"), "must be an object, not %s", hv.Kind)
	}
	b.Header, err = readHeader(hv, headerPath)
	return b, raw, err
}

func readHeader(v canon.Value, path string) (Header, error) {
	keys := []string{"agent", "stream", "index", "fromSeq", "toSeq", "prevHead", "head", "root", "createdAt"}
	if err := object(v, path, keys); err != nil {
		return Header{}, err
	}
	r := reader{v: v, path: path}
	h := Header{
		Agent: r.address("agent"), Stream: r.text("stream"), Index: r.integer("index"),
		FromSeq: r.integer("fromSeq"), ToSeq: r.integer("toSeq"),
		PrevHead: r.hash("prevHead"), Head: r.hash("head"), Root: r.hash("root"), CreatedAt: r.integer("createdAt"),
	}
	return h, r.err
}
