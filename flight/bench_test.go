package flight_test

import (
	"encoding/json"
	"testing"

	"karatum/flight"
)

func BenchmarkParseBatchAndID(b *testing.B) {
	text := sampleBatchText(b)
	b.ReportAllocs()
	for b.Loop() {
		batch, err := flight.ParseBatch(text)
		if err != nil {
			b.Fatal(err)
		}
		batch.ID()
	}
}

func BenchmarkParseBatch(b *testing.B) {
	text := sampleBatchText(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := flight.ParseBatch(text); err != nil {
			b.Fatal(err)
		}
	}
}

func sampleBatchText(tb testing.TB) []byte {
	k, _ := flight.KeyFromBytes(append(make([]byte, 31), 7))
	h := flight.Header{Agent: k.Address(), Stream: "main-1a2b3c4d", Index: 3, FromSeq: 40, ToSeq: 80, PrevHead: flight.Hash{1}, Head: flight.Hash{2}, Root: flight.Hash{3}, CreatedAt: 1760000000}
	text, err := json.Marshal(h.Sign(k, flight.EIP712))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
