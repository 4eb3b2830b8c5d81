package flight

import (
	"cmp"
	"errors"
	"fmt"

	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// A CheckCode names one check of a disclosure, in the order in which a refusal
// names the first that fails (spec section 6).
type CheckCode string

// The checks of a disclosure.
const (
	CheckStepSchema CheckCode = "STEP_SCHEMA" // the step keeps the rules of spec section 2
	CheckSignature  CheckCode = "SIGNATURE"   // the batch signature recovers to header.agent
	CheckStepBatch  CheckCode = "STEP_BATCH"  // agent, stream, span, proof index and size agree
	CheckProof      CheckCode = "PROOF"       // the path from the step reaches header.root
	CheckPrevHead   CheckCode = "PREV_HEAD"   // prev is header.prevHead in the first step, the step beside it in the proof in others
	CheckHead       CheckCode = "HEAD"        // the last step's hash is header.head
	CheckRevealKey  CheckCode = "REVEAL_KEY"  // only committed fields are opened
	CheckCommitment CheckCode = "COMMITMENT"  // every opened value matches its commitment
	CheckClaim      CheckCode = "CLAIM"       // an opened claim is well formed
)

// A CheckState is the outcome of one check.
type CheckState string

// A skipped check had nothing to judge, or an earlier failure took its ground
// away; it is never shown as passed.
const (
	Pass CheckState = "pass"
	Fail CheckState = "fail"
	Skip CheckState = "skip"
)

// A Check is one line of a report.
type Check struct {
	Code   CheckCode  `json:"code"`
	State  CheckState `json:"state"`
	Detail string     `json:"detail"` // what was computed, or what is wrong
}

// A CheckError is the first failing check of a report.
type CheckError struct{ Check }

func (e *CheckError) Error() string { return string(e.Code) + ": " + e.Detail }

// A Report is the outcome of [Disclosure.Verify].
type Report struct {
	Checks   []Check // all nine, in order
	Step     Step    // valid when STEP_SCHEMA passed
	StepHash Hash
	BatchID  Hash
	Signer   Address // recovered, zero where none was
	// Claim is the opened claim where it matches the step's commitment, is well
	// formed and of a known kind. It is the agent's word only if Err is nil.
	Claim *Claim
	// Unsupported is set where such a claim is of an unknown kind.
	Unsupported bool
}

// Err returns the first failing check as a [*CheckError], or nil.
func (r *Report) Err() error {
	for _, c := range r.Checks {
		if c.State == Fail {
			return &CheckError{c}
		}
	}
	return nil
}

func (r *Report) add(code CheckCode, state CheckState, format string, args ...any) {
	r.Checks = append(r.Checks, Check{code, state, fmt.Sprintf(format, args...)})
}

// Verify runs every check of seed section 2.6 on the disclosure, offline and
// trusting nobody. It is the one entry point for the API, the command line, the
// crons and the pages, and never stops at the first failure.
func (d *Disclosure) Verify() *Report {
	r := &Report{BatchID: d.Batch.ID()}
	schemaOK := d.checkSchema(r)
	d.checkSignature(r)
	if !schemaOK {
		for _, c := range []CheckCode{CheckStepBatch, CheckProof, CheckPrevHead, CheckHead, CheckRevealKey, CheckCommitment, CheckClaim} {
			r.add(c, Skip, "the step itself is not valid")
		}
		return r
	}
	d.checkPlace(r)
	reached := d.checkProof(r)
	d.checkPrev(r, reached)
	d.checkHead(r)
	d.checkReveal(r)
	return r
}

func (d *Disclosure) checkSchema(r *Report) bool {
	s, err := ParseStep(d.Step)
	if err != nil {
		r.add(CheckStepSchema, Fail, "%s", err)
		return false
	}
	r.Step, r.StepHash = s, s.Hash()
	r.add(CheckStepSchema, Pass, "step hash %s", r.StepHash)
	return true
}

func (d *Disclosure) checkSignature(r *Report) {
	if d.malformed != nil {
		r.add(CheckSignature, Fail, "%s", ErrSignatureForm)
		return
	}
	var err error
	if r.Signer, err = d.Batch.Recover(); err != nil {
		r.add(CheckSignature, Fail, "%s", err)
		return
	}
	if r.Signer != d.Batch.Header.Agent {
		r.add(CheckSignature, Fail, "recovers to %s, the header says %s", r.Signer, d.Batch.Header.Agent)
		return
	}
	r.add(CheckSignature, Pass, "%s signed batch %s (%s)", r.Signer, r.BatchID, d.Batch.Scheme)
}

func (d *Disclosure) checkPlace(r *Report) {
	h, s, p := &d.Batch.Header, &r.Step, &d.Proof
	why := ""
	switch {
	case s.Agent != h.Agent:
		why = "the step is of another agent than the header"
	case s.Stream != h.Stream:
		why = "the step is of another stream than the header"
	case h.Span() == 0 || h.Span() > MaxSpan || h.FromSeq < h.Index || h.Index == 0 && h.FromSeq != 0:
		why = fmt.Sprintf("batch %d cannot span steps %d to %d", h.Index, h.FromSeq, h.ToSeq)
	case s.Seq < h.FromSeq || s.Seq > h.ToSeq:
		why = fmt.Sprintf("step %d is outside %d to %d", s.Seq, h.FromSeq, h.ToSeq)
	case p.Index != s.Seq-h.FromSeq:
		why = fmt.Sprintf("proof.index is %d, step %d stands at %d", p.Index, s.Seq, s.Seq-h.FromSeq)
	case p.Size != h.Span():
		why = fmt.Sprintf("proof.size is %d, the batch has %d steps", p.Size, h.Span())
	default:
		r.add(CheckStepBatch, Pass, "step %d is number %d of %d in batch %d", s.Seq, p.Index+1, p.Size, h.Index)
		return
	}
	r.add(CheckStepBatch, Fail, "%s", why)
}

// checkProof takes index and size from the signed header, never from the proof;
// that the proof says the same is for checkPlace.
func (d *Disclosure) checkProof(r *Report) (reached bool) {
	h, seq := &d.Batch.Header, r.Step.Seq
	if !h.spans(seq) {
		r.add(CheckProof, Fail, "step %d has no place in the tree of steps %d to %d", seq, h.FromSeq, h.ToSeq)
		return false
	}
	p := Proof{Index: seq - h.FromSeq, Size: h.Span(), Siblings: d.Proof.Siblings}
	if err := merkle.Verify(h.Root, p.Size, r.StepHash, p); err != nil {
		r.add(CheckProof, Fail, "%s", err)
		return false
	}
	r.add(CheckProof, Pass, "the path reaches the signed root %s", h.Root)
	return true
}

func (h *Header) spans(seq uint64) bool { return seq >= h.FromSeq && seq <= h.ToSeq }

// checkPrev compares the first step's prev with the header. Any other step follows
// the one that stands before it in the tree: at an odd place that leaf is the
// nearest sibling of a path that reaches the root, at an even one the proof does
// not hold it. A leaf that is not the one named refutes the agent's chain, not this
// disclosure, which is as the agent signed it: evidence of a broken chain
// consists of such (spec section 5).
func (d *Disclosure) checkPrev(r *Report, reached bool) {
	h, s := &d.Batch.Header, &r.Step
	switch {
	case !h.spans(s.Seq):
		r.add(CheckPrevHead, Skip, "the step has no place in this batch")
	case s.Seq == h.FromSeq && s.Prev != h.PrevHead:
		r.add(CheckPrevHead, Fail, "the first step's prev is %s, header.prevHead is %s", s.Prev, h.PrevHead)
	case s.Seq == h.FromSeq:
		r.add(CheckPrevHead, Pass, "the first step follows %s", h.PrevHead)
	case !reached:
		r.add(CheckPrevHead, Skip, "the path does not reach the signed root")
	case (s.Seq-h.FromSeq)%2 == 0:
		r.add(CheckPrevHead, Skip, "the proof does not hold the step before this one")
	case d.Proof.Siblings[0] != merkle.Leaf(s.Prev):
		r.add(CheckPrevHead, Skip, "the agent signed another step %d than the one that prev names", s.Seq-1)
	default:
		r.add(CheckPrevHead, Pass, "it follows step %d of the signed tree", s.Seq-1)
	}
}

func (d *Disclosure) checkHead(r *Report) {
	h, s := &d.Batch.Header, &r.Step
	switch {
	case s.Seq != h.ToSeq || !h.spans(s.Seq):
		r.add(CheckHead, Skip, "not the last step of the batch")
	case r.StepHash != h.Head:
		r.add(CheckHead, Fail, "the last step's hash is %s, header.head is %s", r.StepHash, h.Head)
	default:
		r.add(CheckHead, Pass, "the last step is header.head")
	}
}

func (d *Disclosure) checkReveal(r *Report) {
	if len(d.Reveal) == 0 {
		for _, c := range []CheckCode{CheckRevealKey, CheckCommitment, CheckClaim} {
			r.add(c, Skip, "nothing is opened")
		}
		return
	}
	matched := map[string]bool{}
	badKey, badValue, committed := "", "", 0
	for _, o := range d.Reveal {
		want := r.Step.Commitment(o.Field)
		if want == nil {
			badKey = cmp.Or(badKey, fmt.Sprintf("the step commits to no %q", clip(o.Field)))
			continue
		}
		committed++
		got, err := CommitValue(o.Value, o.Salt)
		switch {
		case err != nil:
			badValue = cmp.Or(badValue, fmt.Sprintf("%s: %v", o.Field, err))
		case got != *want:
			badValue = cmp.Or(badValue, fmt.Sprintf("%s commits to %s, the step holds %s", o.Field, got, want))
		default:
			matched[o.Field] = true
		}
	}
	r.addIf(CheckRevealKey, badKey, "every opened field is committed")
	if committed == 0 {
		r.add(CheckCommitment, Skip, "no opened field is committed")
	} else {
		r.addIf(CheckCommitment, badValue, fmt.Sprintf("%d opened, each matches its commitment", committed))
	}
	d.checkClaim(r, matched["claim"])
}

// addIf fails the check with the fault where there is one.
func (r *Report) addIf(code CheckCode, fault, fine string) {
	if fault != "" {
		r.add(code, Fail, "%s", fault)
		return
	}
	r.add(code, Pass, "%s", fine)
}

// checkClaim judges the opened claim, if the step really commits to it.
func (d *Disclosure) checkClaim(r *Report, matched bool) {
	v, ok := d.opened("claim")
	switch {
	case !ok:
		r.add(CheckClaim, Skip, "no claim is opened")
		return
	case !matched:
		r.add(CheckClaim, Skip, "the opened claim is not the committed one")
		return
	}
	c, err := ParseClaim(v)
	switch {
	case errors.Is(err, ErrUnsupportedClaim):
		r.Unsupported = true
		r.add(CheckClaim, Skip, "a claim of kind %q is not interpreted here", clip(c.Kind))
	case err != nil:
		r.add(CheckClaim, Fail, "%s", err)
	default:
		r.Claim = &c
		r.add(CheckClaim, Pass, "%s", c.Kind)
	}
}

func (d *Disclosure) opened(field string) (canon.Value, bool) {
	for _, o := range d.Reveal {
		if o.Field == field {
			return o.Value, true
		}
	}
	return canon.Value{}, false
}
