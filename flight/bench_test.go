package flight_test

import (
	"testing"

	"karatum/flight"
)

func benchBatch(b *testing.B) flight.Batch {
	b.Helper()
	k := testKey(b, 7)
	return header(b, 1, chain(k.Address(), "main-1a2b3c4d", 30, 0)[10:]).Sign(k, flight.EIP712)
}

func BenchmarkStepHash(b *testing.B) {
	s := chain(flight.Address{1}, "main", 1, 0)[0]
	b.ReportAllocs()
	for b.Loop() {
		s.Hash()
	}
}

func BenchmarkParseBatchAndID(b *testing.B) {
	text := mustMarshal(b, benchBatch(b))
	b.ReportAllocs()
	for b.Loop() {
		batch, err := flight.ParseBatch(text)
		if err != nil {
			b.Fatal(err)
		}
		batch.ID()
	}
}

// BenchmarkBatchVerify is to be read beside BenchmarkRecover, the curve
// arithmetic that no verification can do without.
func BenchmarkBatchVerify(b *testing.B) {
	batch := benchBatch(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecover(b *testing.B) {
	batch := benchBatch(b)
	digest := batch.ID()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := batch.Signature.Recover(digest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDisclosureVerify(b *testing.B) {
	d, err := flight.ParseDisclosure(load(b).Disclosures[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Verify().Err(); err != nil {
			b.Fatal(err)
		}
	}
}
