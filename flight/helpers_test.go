package flight_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
	"karatum/testvectors"
)

// vectors is the part of v1.json that these tests start from; the whole file is
// checked by the conformance command.
type vectors struct {
	Batches []struct {
		Header     json.RawMessage
		Signatures map[flight.Scheme]string
	}
	SignatureForms struct{ Accept, Reject []struct{ Signature string } }
	Equivocations  []struct {
		A, B struct {
			Header     json.RawMessage
			Signatures map[flight.Scheme]string
		}
	}
	BrokenChain json.RawMessage
	Disclosures []json.RawMessage
	Tampered    []struct {
		Why, Code  string
		Disclosure json.RawMessage
	}
}

func load(tb testing.TB) vectors {
	tb.Helper()
	var file struct{ Flight vectors }
	if err := json.Unmarshal(testvectors.V1, &file); err != nil {
		tb.Fatal(err)
	}
	return file.Flight
}

func body(header []byte, scheme flight.Scheme, signature string) []byte {
	return fmt.Appendf(nil, `{"header":%s,"scheme":%q,"signature":%q}`, header, scheme, signature)
}

func testKey(tb testing.TB, n byte) *flight.Key {
	tb.Helper()
	k, err := flight.KeyFromBytes(append(make([]byte, 31), n))
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// chain returns n linked steps of one stream; salt makes two histories differ.
func chain(agent flight.Address, stream string, n int, salt byte) []flight.Step {
	steps := make([]flight.Step, n)
	var prev flight.Hash
	for i := range steps {
		args := flight.Commit([]byte(`null`), flight.Hash{salt, byte(i), byte(i >> 8)})
		steps[i] = flight.Step{
			Agent: agent, Stream: stream, Seq: uint64(i), Prev: prev, At: 1760000000000 + uint64(i),
			Kind: "tool", Status: "ok", Name: "call", Args: &args,
		}
		prev = steps[i].Hash()
	}
	return steps
}

// header returns the header of a batch of the steps.
func header(tb testing.TB, index uint64, steps []flight.Step) flight.Header {
	tb.Helper()
	return headerOf(tb, index, steps)
}

// headerOf is header for tests and properties alike.
func headerOf(tb interface{ Fatal(...any) }, index uint64, steps []flight.Step) flight.Header {
	hashes := make([]flight.Hash, len(steps))
	for i := range steps {
		hashes[i] = steps[i].Hash()
	}
	root, err := merkle.Root(hashes)
	if err != nil {
		tb.Fatal(err)
	}
	first, last := &steps[0], &steps[len(steps)-1]
	return flight.Header{
		Agent: first.Agent, Stream: first.Stream, Index: index, FromSeq: first.Seq, ToSeq: last.Seq,
		PrevHead: first.Prev, Head: last.Hash(), Root: root, CreatedAt: 1760000000,
	}
}

func mustMarshal(tb testing.TB, x any) []byte {
	tb.Helper()
	b, err := json.Marshal(x)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func mustParse(tb testing.TB, text string) canon.Value {
	tb.Helper()
	v, err := canon.Parse([]byte(text), canon.MaxDepth)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// field returns what a refusal names: the field, or "none" where err is nil.
func field(err error) string {
	var fe *flight.FieldError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &fe):
		return fe.Field
	}
	return err.Error()
}
