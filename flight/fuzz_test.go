package flight_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// fieldError expects every refusal to name what is at fault.
func fieldError(t *testing.T, err error) {
	t.Helper()
	var fe *flight.FieldError
	if !errors.As(err, &fe) || fe.Field == "" && fe.Code == "" && fe.Reason == "" {
		t.Fatalf("refusal without a field or code: %#v", err)
	}
}

func FuzzDisclosure(f *testing.F) {
	v := load(f)
	for _, d := range v.Disclosures {
		f.Add([]byte(d))
	}
	for _, c := range v.Tampered {
		f.Add([]byte(c.Disclosure))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := flight.ParseDisclosure(text)
		if err != nil {
			fieldError(t, err)
			return
		}
		r := d.Verify()
		if len(r.Checks) != 9 {
			t.Fatalf("%d checks", len(r.Checks))
		}
		written := mustMarshal(t, d)
		back, err := flight.ParseDisclosure(written)
		if err != nil {
			t.Fatalf("%s is written as %s and refused: %v", text, written, err)
		}
		if again := back.Verify(); (r.Err() == nil) != (again.Err() == nil) {
			t.Fatalf("%v, and after a round trip %v", r.Err(), again.Err())
		}
	})
}

func FuzzEvidence(f *testing.F) {
	v := load(f)
	f.Add([]byte(v.BrokenChain))
	for _, p := range v.Equivocations {
		for _, s := range []flight.Scheme{flight.EIP712, flight.EIP191} {
			a, err := flight.ParseBatch(body(p.A.Header, s, p.A.Signatures[s]))
			if err != nil {
				f.Fatal(err)
			}
			b, err := flight.ParseBatch(body(p.B.Header, s, p.B.Signatures[s]))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(mustMarshal(f, flight.NewEvidence(a, b)))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := flight.ParseEvidence(text)
		if err != nil {
			fieldError(t, err)
			return
		}
		e.Agent()
		verdict := e.Verify()
		back, err := flight.ParseEvidence(mustMarshal(t, e))
		if err != nil || (back.Verify() == nil) != (verdict == nil) {
			t.Fatalf("%v, and after a round trip %v", verdict, err)
		}
	})
}

func FuzzBatch(f *testing.F) {
	v := load(f)
	for _, b := range v.Batches {
		for s, sig := range b.Signatures {
			f.Add(body(b.Header, s, sig))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := flight.ParseBatch(text)
		if err != nil {
			fieldError(t, err)
			return
		}
		if err := b.Header.Check(); err != nil {
			t.Fatalf("an impossible header was read: %v", err)
		}
		b.Verify()
		if back, err := flight.ParseBatch(mustMarshal(t, b)); err != nil || back != b {
			t.Fatalf("%s comes back as %+v, %v", text, back, err)
		}
	})
}

func FuzzSignature(f *testing.F) {
	v := load(f)
	for _, c := range append(v.SignatureForms.Accept, v.SignatureForms.Reject...) {
		raw, err := flight.ParseHex(c.Signature)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := bytes.Clone(raw)
		s, err := flight.ParseSignature(raw)
		if !bytes.Equal(raw, kept) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if !errors.Is(err, flight.ErrSignatureForm) || s != (flight.Signature{}) {
				t.Fatalf("%s, %v", s, err)
			}
			return
		}
		if again, err := flight.ParseSignature(s[:]); err != nil || again != s {
			t.Fatalf("the kept form %s reads as %s, %v", s, again, err)
		}
		s.Recover(flight.Hash{1})
	})
}

func FuzzProof(f *testing.F) {
	f.Add([]byte(`{"index":2,"size":5,"siblings":["0x` + strings.Repeat("ab", 32) + `"]}`))
	f.Add([]byte(`{"index":0,"size":1,"siblings":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := flight.ParseProof(text)
		if err != nil {
			fieldError(t, err)
			return
		}
		if len(p.Siblings) > 0 && merkle.Verify(flight.Hash{}, p.Size, flight.Hash{1}, p) == nil {
			t.Fatalf("%s reaches the zero root", text)
		}
		back, err := flight.ParseProof(mustMarshal(t, p))
		if err != nil || back.Index != p.Index || back.Size != p.Size || !slices.Equal(back.Siblings, p.Siblings) {
			t.Fatalf("%s comes back as %+v, %v", text, back, err)
		}
	})
}

func FuzzClaim(f *testing.F) {
	for _, text := range []string{
		`{"kind":"tx.success"}`, `{"kind":"native.transfer","to":"` + someAddress + `","value":"25"}`,
		`{"kind":"erc20.transfer","token":"` + someAddress + `","to":"` + someAddress + `","amount":"0"}`, `{"kind":"mint"}`, `{"kind":1}`, `[]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := canon.Parse(text, canon.MaxDepth)
		if err != nil {
			return
		}
		c, err := flight.ParseClaim(v)
		switch {
		case errors.Is(err, flight.ErrUnsupportedClaim), errors.Is(err, flight.ErrClaim):
			return
		case err != nil:
			t.Fatalf("%v is of neither class", err)
		case c.Amount != nil && (c.Amount.Sign() < 0 || c.Amount.BitLen() > 256):
			t.Fatalf("accepted the amount %s", c.Amount)
		}
		a, err := v.Canonical()
		b, err2 := c.Value().Canonical()
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s is written as %s (%v, %v)", a, b, err, err2)
		}
		if got := flight.Evaluate(c, flight.Address{}, flight.Tx{}); got.State != flight.Contradicted {
			t.Fatalf("%s is %s by a reverted transaction", a, got.State)
		}
	})
}

func FuzzHex(f *testing.F) {
	for _, s := range []string{"", "0x", "0xab", "0xAB", "0x0", someAddress, flight.Hash{1}.String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw, err := flight.ParseHex(s)
		if (err == nil) != (s == fmt.Sprintf("0x%x", raw)) || err != nil && !errors.Is(err, flight.ErrHex) {
			t.Fatalf("ParseHex(%q) = %x, %v", s, raw, err)
		}
		h, errHash := flight.ParseHash(s)
		a, errAddress := flight.ParseAddress(s)
		if (errHash == nil) != (err == nil && len(raw) == 32) || errHash == nil && h.String() != s {
			t.Fatalf("ParseHash(%q) = %s, %v", s, h, errHash)
		}
		if (errAddress == nil) != (err == nil && len(raw) == 20) || errAddress == nil && a.String() != s {
			t.Fatalf("ParseAddress(%q) = %s, %v", s, a, errAddress)
		}
	})
}
