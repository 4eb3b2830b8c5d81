package flight_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/canon"
)

var update = flag.Bool("update", false, "write the sample disclosures anew")

// sampleDisclosure opens the transfer in the middle of a batch of seven steps.
func sampleDisclosure(t *testing.T) *flight.Disclosure {
	t.Helper()
	k := testKey(t, 7)
	steps := chain(k.Address(), "treasury-3f9c21aa", 7, 1)
	chainID, tx := uint64(84532), flight.Keccak256([]byte("sample transaction"))
	claim := opening(t, "claim", map[string]any{"kind": "native.transfer", "to": someAddress, "value": "250000000000000000"})
	args := opening(t, "args", map[string]any{"tool": "send_payment", "invoice": "2026-0117", "amountEth": "0.25"})
	for i := range steps {
		if i > 0 {
			steps[i].Prev = steps[i-1].Hash()
		}
		if i == 3 {
			steps[i].Kind, steps[i].Name, steps[i].ChainID, steps[i].TxHash = "tx", "send_payment", &chainID, &tx
			steps[i].Args, steps[i].Claim = commitTo(t, args), commitTo(t, claim)
		}
	}
	d, err := flight.NewDisclosure(header(t, 0, steps).Sign(k, flight.EIP191), steps, 3, args, claim)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// opening derives its salt from the field, so that the samples never change.
func opening(t *testing.T, field string, x any) flight.Opening {
	t.Helper()
	v, err := canon.From(x)
	if err != nil {
		t.Fatal(err)
	}
	return flight.Opening{Field: field, Salt: flight.Keccak256([]byte("sample salt " + field)), Value: v}
}

func commitTo(t *testing.T, o flight.Opening) *flight.Hash {
	t.Helper()
	h, err := flight.CommitValue(o.Value, o.Salt)
	if err != nil {
		t.Fatal(err)
	}
	return &h
}

// The samples are what the code makes today: one that verifies, and the same one
// in which somebody changed the paid amount.
func TestSamples(t *testing.T) {
	var b bytes.Buffer
	if err := json.Indent(&b, mustMarshal(t, sampleDisclosure(t)), "", "  "); err != nil {
		t.Fatal(err)
	}
	good := b.String() + "\n"
	tampered := strings.Replace(good, `"250000000000000000"`, `"950000000000000000"`, 1)
	for file, want := range map[string]struct{ text, verdict string }{
		"../testvectors/sample-disclosure.json":          {good, "ok"},
		"../testvectors/sample-disclosure-tampered.json": {tampered, string(flight.CheckCommitment)},
	} {
		if *update {
			if err := os.WriteFile(file, []byte(want.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil || string(text) != want.text {
			t.Errorf("%s is not current (%v); run: go test ./flight -run TestSamples -update", file, err)
		}
		if got := judge(text); got != want.verdict {
			t.Errorf("%s: %s, want %s", file, got, want.verdict)
		}
	}
}
