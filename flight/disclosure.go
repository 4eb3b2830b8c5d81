package flight

import (
	"encoding/hex"
	"encoding/json"
	"errors"

	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// Limits of a disclosure document (spec section 1).
const (
	MaxDisclosureBytes = 5 << 20
	MaxDisclosureDepth = 80
	maxSiblings        = 64 // more than any tree of 2^53 items needs
)

// A Proof is an inclusion proof over hashes.
type Proof = merkle.Proof[Hash]

// An Opening publishes one committed field of a step.
type Opening struct {
	Field string
	Salt  Hash
	Value canon.Value
}

// A Disclosure opens chosen fields of one step (seed section 2.6). [Verify]
// judges it; until then every part is only what somebody sent.
type Disclosure struct {
	Step   canon.Value // judged against the step rules by Verify
	Reveal []Opening   // in the order given
	Proof  Proof
	Batch  Batch

	// malformed is the signature as sent where it has no accepted form, which
	// Verify reports; nil otherwise.
	malformed []byte
}

// ParseDisclosure reads a disclosure's outer shape (a wrong one is answered with
// 400 before any check, spec section 6). What the checks of [Disclosure.Verify]
// are about is let through: the step may be any object, a reveal may open any key,
// and the signature may be any bytes. Time and memory are linear in the text; at
// worst, an array of short elements, a value keeps 50 times the bytes of its text
// and takes 250 times in passing, so a server bounds how many it reads at once.
// The error is a [*FieldError].
func ParseDisclosure(text []byte) (*Disclosure, error) {
	v, err := parseDoc(text, MaxDisclosureDepth, MaxDisclosureBytes)
	if err != nil {
		return nil, err
	}
	return readDisclosure(v, "")
}

func readDisclosure(v canon.Value, path string) (*Disclosure, error) {
	if err := object(v, path, []string{"step", "reveal", "proof", "batch"}); err != nil {
		return nil, err
	}
	d := &Disclosure{}
	d.Step, _ = v.Get("step")
	if d.Step.Kind != canon.Object {
		return nil, fieldErr(join(path, "step"), "must be an object, not %s", d.Step.Kind)
	}
	reveal, _ := v.Get("reveal")
	proof, _ := v.Get("proof")
	batch, _ := v.Get("batch")
	var err error
	if d.Reveal, err = readReveal(reveal, join(path, "reveal")); err != nil {
		return nil, err
	}
	if d.Proof, err = readProof(proof, join(path, "proof")); err != nil {
		return nil, err
	}
	at := join(path, "batch")
	b, raw, err := readBatch(batch, at, join(at, "header"))
	if err != nil {
		return nil, err
	}
	if b.Signature, err = ParseSignature(raw); err != nil {
		d.malformed = raw
	}
	d.Batch = b
	return d, nil
}

func readReveal(v canon.Value, path string) ([]Opening, error) {
	if v.Kind != canon.Object {
		return nil, fieldErr(path, "must be an object, not %s", v.Kind)
	}
	var out []Opening
	for i := range v.Obj {
		m := &v.Obj[i]
		at := join(path, clip(m.Key))
		if err := object(m.Value, at, []string{"salt", "value"}); err != nil {
			return nil, err
		}
		r := reader{v: m.Value, path: at}
		o := Opening{Field: m.Key, Salt: r.hash("salt")}
		o.Value, _ = m.Value.Get("value")
		if r.err != nil {
			return nil, r.err
		}
		if _, err := o.Value.Canonical(); err != nil {
			var ce *canon.Error
			errors.As(err, &ce)
			return nil, &FieldError{Field: join(at, "value"), Code: ce.Code, Reason: ce.Reason}
		}
		out = append(out, o)
	}
	return out, nil
}

func readProof(v canon.Value, path string) (Proof, error) {
	if err := object(v, path, []string{"index", "size", "siblings"}); err != nil {
		return Proof{}, err
	}
	r := reader{v: v, path: path}
	p := Proof{Index: r.integer("index"), Size: r.integer("size"), Siblings: []Hash{}}
	sib, _ := v.Get("siblings")
	if sib.Kind != canon.Array || len(sib.Arr) > maxSiblings {
		r.fail("siblings", "must be an array of at most %d hashes", maxSiblings)
		return p, r.err
	}
	for _, s := range sib.Arr {
		var h Hash
		if s.Kind != canon.String || unhex(h[:], s.Str) != nil {
			r.fail("siblings", "must hold 32 bytes as lower-case 0x hex")
		}
		p.Siblings = append(p.Siblings, h)
	}
	return p, r.err
}

// ParseProof reads {index, size, siblings}. The error is a [*FieldError].
func ParseProof(text []byte) (Proof, error) {
	v, err := parseDoc(text, maxBatchDepth, MaxBatchBytes)
	if err != nil {
		return Proof{}, err
	}
	return readProof(v, "")
}

// Value returns the step as the JSON value that a disclosure carries.
func (s *Step) Value() canon.Value {
	v, err := canon.Parse(s.Canonical(), canon.MaxDepth)
	if err != nil { // only a step that Check refuses can get here
		return canon.Value{}
	}
	return v
}

// NewDisclosure returns a disclosure built in Go, of steps[i] of a batch that
// holds exactly these steps. The error is of the merkle package, or a
// [*FieldError] of a step that breaks the rules.
func NewDisclosure(b Batch, steps []Step, i int, reveal ...Opening) (*Disclosure, error) {
	hashes := make([]Hash, len(steps))
	for j := range steps {
		hashes[j] = steps[j].Hash()
	}
	p, err := merkle.Prove(hashes, i)
	if err != nil {
		return nil, err
	}
	if err := steps[i].Check(); err != nil {
		return nil, err
	}
	return &Disclosure{Step: steps[i].Value(), Reveal: reveal, Proof: p, Batch: b}, nil
}

// WithoutReveal returns the disclosure with nothing opened, the form in which
// evidence carries it.
func (d *Disclosure) WithoutReveal() *Disclosure {
	c := *d
	c.Reveal = nil
	return &c
}

// MarshalJSON writes the disclosure; values and step in canonical form, the
// signature in its kept form, or as it was sent where it has none.
func (d *Disclosure) MarshalJSON() ([]byte, error) {
	b := append([]byte(`{"step":`), canon.Append(nil, d.Step)...)
	b = append(b, `,"reveal":{`...)
	for i, o := range d.Reveal {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(canon.AppendString(b, o.Field), `:{"salt":"`...)
		b = append(append(b, o.Salt.String()...), `","value":`...)
		b = append(canon.Append(b, o.Value), '}')
	}
	rest, err := d.marshalRest()
	if err != nil {
		return nil, err
	}
	return append(append(b, `},`...), rest[1:]...), nil
}

func (d *Disclosure) marshalRest() ([]byte, error) {
	type batch struct {
		Header    Header `json:"header"`
		Scheme    Scheme `json:"scheme"`
		Signature string `json:"signature"`
	}
	sig := d.Batch.Signature.String()
	if d.malformed != nil {
		sig = "0x" + hex.EncodeToString(d.malformed)
	}
	return json.Marshal(struct {
		Proof Proof `json:"proof"`
		Batch batch `json:"batch"`
	}{d.Proof, batch{d.Batch.Header, d.Batch.Scheme, sig}})
}
