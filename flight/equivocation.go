package flight

import (
	"encoding/json"
	"errors"
	"fmt"

	"karatum/flight/canon"
)

// EvidenceType is the "type" of equivocation evidence (spec section 5).
const EvidenceType = "karatum.equivocation.v1"

// A Reason says which rule of an honest history two statements break.
type Reason string

// The reasons of spec section 5; the first that applies is given, in this order.
const (
	SameIndex        Reason = "SAME_INDEX"         // one index, two contents
	Overlap          Reason = "OVERLAP"            // their seq ranges intersect
	Order            Reason = "ORDER"              // the higher index lies wholly before
	AdjacentIndexGap Reason = "ADJACENT_INDEX_GAP" // next index, yet steps between
	TooFewSteps      Reason = "TOO_FEW_STEPS"      // fewer steps between than batches
	PrevHead         Reason = "PREV_HEAD"          // contiguous, yet prevHead is not head
	BrokenChain      Reason = "BROKEN_CHAIN"       // proven steps s, s+1 do not link
)

// Conflict reports why no honest history of one stream contains both headers,
// or "" where one does. Headers of two streams, and the same history signed
// again, never conflict. The order of the arguments does not matter.
func Conflict(a, b *Header) Reason {
	if a.Agent != b.Agent || a.Stream != b.Stream || a.SameHistory(*b) {
		return ""
	}
	if a.Index > b.Index {
		a, b = b, a
	}
	switch {
	case a.Index == b.Index:
		return SameIndex
	case a.FromSeq <= b.ToSeq && b.FromSeq <= a.ToSeq:
		return Overlap
	case b.ToSeq < a.FromSeq:
		return Order
	}
	di, ds := b.Index-a.Index-1, b.FromSeq-a.ToSeq-1
	switch {
	case di == 0 && ds > 0:
		return AdjacentIndexGap
	case ds < di:
		return TooFewSteps
	case ds == 0 && b.PrevHead != a.Head:
		return PrevHead
	}
	return ""
}

// Evidence proves by itself that one key signed two histories: anyone can check
// both signatures and the contradiction from the JSON alone. A and B are set for
// header conflicts, lower index first, the stored one first on a tie; StepA and
// StepB for [BrokenChain], without reveals.
type Evidence struct {
	Reason       Reason
	A, B         Batch
	StepA, StepB *Disclosure
}

// NewEvidence packs a stored and a new statement that conflict. It returns nil
// where they do not.
func NewEvidence(stored, other Batch) *Evidence {
	reason := Conflict(&stored.Header, &other.Header)
	if reason == "" {
		return nil
	}
	if other.Header.Index < stored.Header.Index {
		stored, other = other, stored
	}
	return &Evidence{Reason: reason, A: stored, B: other}
}

// NewBrokenChain packs two disclosures whose steps s and s+1 of one stream do not
// link. It returns nil where they do, or are no such pair.
func NewBrokenChain(a, b *Disclosure) *Evidence {
	if a == nil || b == nil {
		return nil
	}
	e := &Evidence{Reason: BrokenChain, StepA: a.WithoutReveal(), StepB: b.WithoutReveal()}
	if e.Verify() != nil {
		return nil
	}
	return e
}

// ErrEvidence reports evidence that proves nothing.
var ErrEvidence = errors.New("flight: not evidence")

// Agent returns whose equivocation it is, the zero address where the evidence has
// no statements.
func (e *Evidence) Agent() Address {
	if e.Reason != BrokenChain {
		return e.A.Header.Agent
	}
	if e.StepA == nil {
		return Address{}
	}
	return e.StepA.Batch.Header.Agent
}

// Verify checks both signatures and the contradiction. The error wraps
// [ErrEvidence].
func (e *Evidence) Verify() error {
	if e.Reason == BrokenChain {
		return e.verifyChain()
	}
	for i, b := range []*Batch{&e.A, &e.B} {
		if err := b.Verify(); err != nil {
			return fmt.Errorf("%w: statement %c: %w", ErrEvidence, 'a'+i, err)
		}
	}
	if e.A.Header.Index > e.B.Header.Index {
		return fmt.Errorf("%w: the lower index must come first", ErrEvidence)
	}
	switch got := Conflict(&e.A.Header, &e.B.Header); got {
	case e.Reason:
		return nil
	case "":
		return fmt.Errorf("%w: one honest history holds both statements", ErrEvidence)
	default:
		return fmt.Errorf("%w: the reason is %s, not %s", ErrEvidence, got, clip(string(e.Reason)))
	}
}

func (e *Evidence) verifyChain() error {
	if e.StepA == nil || e.StepB == nil {
		return fmt.Errorf("%w: it needs two steps", ErrEvidence)
	}
	a, b := e.StepA.Verify(), e.StepB.Verify()
	for i, r := range []*Report{a, b} {
		if err := r.Err(); err != nil {
			return fmt.Errorf("%w: step %c: %w", ErrEvidence, 'a'+i, err)
		}
	}
	switch {
	case len(e.StepA.Reveal)+len(e.StepB.Reveal) > 0:
		return fmt.Errorf("%w: it must not open anything", ErrEvidence)
	case a.Step.Agent != b.Step.Agent || a.Step.Stream != b.Step.Stream:
		return fmt.Errorf("%w: the steps are of two streams", ErrEvidence)
	case b.Step.Seq != a.Step.Seq+1:
		return fmt.Errorf("%w: step b must follow step a", ErrEvidence)
	case b.Step.Prev == a.StepHash:
		return fmt.Errorf("%w: the steps link", ErrEvidence)
	}
	return nil
}

// MarshalJSON writes {type, reason, a, b}.
func (e *Evidence) MarshalJSON() ([]byte, error) {
	doc := struct {
		Type   string `json:"type"`
		Reason Reason `json:"reason"`
		A      any    `json:"a"`
		B      any    `json:"b"`
	}{EvidenceType, e.Reason, e.A, e.B}
	if e.Reason == BrokenChain {
		doc.A, doc.B = e.StepA, e.StepB
	}
	return json.Marshal(doc)
}

// ParseEvidence reads evidence strictly. It does not judge it; [Evidence.Verify]
// does. The error is a [*FieldError].
func ParseEvidence(text []byte) (*Evidence, error) {
	v, err := parseDoc(text, MaxDisclosureDepth, MaxDisclosureBytes)
	if err != nil {
		return nil, err
	}
	if err := object(v, "", []string{"type", "reason", "a", "b"}); err != nil {
		return nil, err
	}
	r := reader{v: v}
	if r.text("type") != EvidenceType {
		r.fail("type", "must be %q", EvidenceType)
	}
	e := &Evidence{Reason: Reason(r.text("reason"))}
	if r.err != nil {
		return nil, r.err
	}
	a, _ := v.Get("a")
	b, _ := v.Get("b")
	if e.Reason == BrokenChain {
		e.StepA, err = readDisclosure(a, "a")
		if err == nil {
			e.StepB, err = readDisclosure(b, "b")
		}
	} else {
		e.A, err = readStatement(a, "a")
		if err == nil {
			e.B, err = readStatement(b, "b")
		}
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

func readStatement(v canon.Value, path string) (Batch, error) {
	b, raw, err := readBatch(v, path, join(path, "header"))
	if err != nil {
		return b, err
	}
	if b.Signature, err = ParseSignature(raw); err != nil {
		return b, fieldErr(join(path, "signature"), "%s", err)
	}
	return b, nil
}
