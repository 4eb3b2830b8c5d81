package signer

import (
	"strconv"

	"karatum/flight"
)

// A field is one member of an EIP-712 type.
type field struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// typedData is the document of eth_signTypedData_v4. Integers are decimal strings,
// which every wallet reads; the domain has a name and a version only, for a record
// belongs to no chain (seed section 2.5).
type typedData struct {
	Types       map[string][]field `json:"types"`
	PrimaryType string             `json:"primaryType"`
	Domain      map[string]string  `json:"domain"`
	Message     map[string]string  `json:"message"`
}

func newTypedData(h *flight.Header) typedData {
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return typedData{
		Types: map[string][]field{
			"EIP712Domain": {{"name", "string"}, {"version", "string"}},
			"FlightBatch": {
				{"agent", "address"}, {"stream", "string"}, {"index", "uint64"}, {"fromSeq", "uint64"}, {"toSeq", "uint64"},
				{"prevHead", "bytes32"}, {"head", "bytes32"}, {"root", "bytes32"}, {"createdAt", "uint64"},
			},
		},
		PrimaryType: "FlightBatch",
		Domain:      map[string]string{"name": "Karatum Flight Record", "version": "1"},
		Message: map[string]string{
			"agent": h.Agent.String(), "stream": h.Stream, "index": num(h.Index), "fromSeq": num(h.FromSeq), "toSeq": num(h.ToSeq),
			"prevHead": h.PrevHead.String(), "head": h.Head.String(), "root": h.Root.String(), "createdAt": num(h.CreatedAt),
		},
	}
}
