package flight

import (
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"karatum/flight/canon"
)

// StepVersion is the value of every step's "v" (spec section 2).
const StepVersion = "karatum.fr.v1"

const stepTag = "karatum.fr.v1.step\n"

// Kinds and statuses of a step (spec section 2).
var (
	Kinds    = []string{"tool", "llm", "tx", "message", "note"}
	Statuses = []string{"ok", "error"}
)

// Fields are the four that a step may commit to and a disclosure may open.
var Fields = []string{"prompt", "args", "result", "claim"}

// A Step is one thing that an agent did (spec section 2). Name is empty and the
// pointers are nil where the record lacks the key; ChainID and TxHash come
// together or not at all, and at least one commitment is there.
type Step struct {
	Agent  Address
	Stream string
	Seq    uint64
	Prev   Hash   // hash of the step before, zero at Seq 0
	At     uint64 // unix milliseconds
	Kind   string
	Status string
	Name   string

	Prompt, Args, Result, Claim *Hash // commitments

	ChainID *uint64
	TxHash  *Hash
}

// Commitment returns the commitment to one of [Fields], nil where the step has
// none or the field is unknown.
func (s *Step) Commitment(field string) *Hash {
	switch field {
	case "prompt":
		return s.Prompt
	case "args":
		return s.Args
	case "result":
		return s.Result
	case "claim":
		return s.Claim
	}
	return nil
}

// Append appends the step's canonical JSON, keys in order, absent keys left out.
func (s *Step) Append(b []byte) []byte {
	b = appendHex(append(b, `{"agent":`...), s.Agent[:])
	b = appendOpt(b, "args", s.Args)
	b = strconv.AppendUint(append(b, `,"at":`...), s.At, 10)
	if s.ChainID != nil {
		b = strconv.AppendUint(append(b, `,"chainId":`...), *s.ChainID, 10)
	}
	b = appendOpt(b, "claim", s.Claim)
	b = canon.AppendString(append(b, `,"kind":`...), s.Kind)
	if s.Name != "" {
		b = canon.AppendString(append(b, `,"name":`...), s.Name)
	}
	b = appendHex(append(b, `,"prev":`...), s.Prev[:])
	b = appendOpt(b, "prompt", s.Prompt)
	b = appendOpt(b, "result", s.Result)
	b = strconv.AppendUint(append(b, `,"seq":`...), s.Seq, 10)
	b = canon.AppendString(append(b, `,"status":`...), s.Status)
	b = canon.AppendString(append(b, `,"stream":`...), s.Stream)
	b = appendOpt(b, "txHash", s.TxHash)
	return append(b, `,"v":"`+StepVersion+`"}`...)
}

func appendOpt(b []byte, key string, h *Hash) []byte {
	if h == nil {
		return b
	}
	return appendHex(append(append(append(b, ',', '"'), key...), '"', ':'), h[:])
}

func appendHex(b, raw []byte) []byte {
	b = append(b, '"', '0', 'x')
	for _, c := range raw {
		b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
	}
	return append(b, '"')
}

// Canonical returns the step's canonical JSON.
func (s *Step) Canonical() []byte { return s.Append(nil) }

// MarshalJSON writes the canonical form.
func (s Step) MarshalJSON() ([]byte, error) { return s.Append(nil), nil }

// Hash returns keccak256("karatum.fr.v1.step\n" || canonical JSON). Because each
// step holds Prev, it commits to the whole history before it.
func (s *Step) Hash() Hash {
	return Keccak256(s.Append(append(make([]byte, 0, 1024), stepTag...)))
}

// ParseStep reads a step strictly: no other key, no null, every rule of spec
// section 2. The error is a [*FieldError].
func ParseStep(v canon.Value) (Step, error) {
	required := []string{"v", "agent", "stream", "seq", "prev", "at", "kind", "status"}
	if err := object(v, "", required, "name", "prompt", "args", "result", "claim", "chainId", "txHash"); err != nil {
		return Step{}, err
	}
	r := reader{v: v}
	if r.text("v") != StepVersion {
		r.fail("v", "must be %q", StepVersion)
	}
	s := Step{
		Agent: r.address("agent"), Stream: r.text("stream"), Seq: r.integer("seq"), Prev: r.hash("prev"),
		At: r.integer("at"), Kind: r.text("kind"), Status: r.text("status"),
		Prompt: r.optHash("prompt"), Args: r.optHash("args"), Result: r.optHash("result"), Claim: r.optHash("claim"),
		TxHash: r.optHash("txHash"),
	}
	if _, ok := v.Get("name"); ok {
		if s.Name = r.text("name"); s.Name == "" {
			r.fail("name", "must have 1 to %d code points", maxName)
		}
	}
	if _, ok := v.Get("chainId"); ok {
		id := r.integer("chainId")
		s.ChainID = &id
	}
	if r.err != nil {
		return Step{}, r.err
	}
	return s, s.Check()
}

// Check applies the rules of spec section 2 to a step built in Go. The error is
// a [*FieldError].
func (s *Step) Check() error {
	switch {
	case s.Seq > canon.MaxInt:
		return fieldErr("seq", "must be at most 2^53-1")
	case s.At > canon.MaxInt:
		return fieldErr("at", "must be at most 2^53-1")
	case s.Seq == 0 && !s.Prev.IsZero():
		return fieldErr("prev", "must be 32 zero bytes at seq 0")
	case !slices.Contains(Kinds, s.Kind):
		return fieldErr("kind", "must be one of tool, llm, tx, message, note")
	case !slices.Contains(Statuses, s.Status):
		return fieldErr("status", "must be ok or error")
	case canon.CodePoints(s.Name) > maxName || !canon.ValidString(s.Name):
		return fieldErr("name", "must have 1 to %d code points", maxName)
	case (s.ChainID == nil) != (s.TxHash == nil):
		return fieldErr("txHash", "chainId and txHash come together or not at all")
	case s.ChainID != nil && *s.ChainID > canon.MaxInt:
		return fieldErr("chainId", "must be at most 2^53-1")
	case s.Prompt == nil && s.Args == nil && s.Result == nil && s.Claim == nil:
		return fieldErr("args", "a step needs at least one commitment, or it could be guessed")
	}
	return CheckStream(s.Stream)
}

// The most code points of a stream's name and of a step's.
const (
	maxStream = 64
	maxName   = 128
)

// CheckStream applies the rules for stream names (spec section 2): 1 to 64 code
// points, none of categories Cc, Cf, Cs, Zl and Zp, which would forge lines in
// the EIP-191 text, no "/", no space at either end, not "." or "..". Names are
// not normalised. The categories are those of Unicode 15.0, the edition of the
// unicode package. The error is a [*FieldError].
func CheckStream(s string) error {
	if n := canon.CodePoints(s); n < 1 || n > maxStream {
		return fieldErr("stream", "must have 1 to %d code points", maxStream)
	}
	if !utf8.ValidString(s) {
		return fieldErr("stream", "must not contain a lone surrogate or bytes that are no UTF-8")
	}
	if s == "." || s == ".." {
		return fieldErr("stream", "must not be . or ..")
	}
	if s[0] == ' ' || s[len(s)-1] == ' ' {
		return fieldErr("stream", "must not begin or end with a space")
	}
	for _, r := range s {
		if r == '/' {
			return fieldErr("stream", "must not contain /")
		}
		if ' ' <= r && r <= '~' {
			continue // quick: every step is checked as it is recorded
		}
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return fieldErr("stream", "must not contain U+%04X, a control, format or separator character", r)
		}
	}
	return nil
}
