package replay

import (
	"bytes"
	"fmt"
	"slices"

	"karatum/chain"
)

// compare lists what differs between the replayed receipt and the chain's, and
// says whether status and logs agree; gas is listed, but does not decide.
func compare(replayed, told chain.Receipt) (same bool, differences []string) {
	same = true
	decisive := func(format string, args ...any) {
		same = false
		differences = append(differences, fmt.Sprintf(format, args...))
	}
	if replayed.Status != told.Status {
		decisive("status is %d, the chain has %d", replayed.Status, told.Status)
	}
	if r, t := len(replayed.Logs), len(told.Logs); r != t {
		decisive("%d logs, the chain has %d", r, t)
	}
	for i := range min(len(replayed.Logs), len(told.Logs)) {
		if what := logDifference(replayed.Logs[i], told.Logs[i]); what != "" {
			decisive("log %d: %s", i, what)
		}
	}
	if replayed.GasUsed != told.GasUsed {
		differences = append(differences, fmt.Sprintf("gas used is %d, the chain has %d", replayed.GasUsed, told.GasUsed))
	}
	if r, t := replayed.ContractAddress, told.ContractAddress; r != nil && t != nil && *r != *t {
		differences = append(differences, fmt.Sprintf("created contract is %s, the chain has %s", r, t))
	}
	if r, t := replayed.L1Fee, told.L1Fee; r != nil && t != nil && r.Cmp(t) != 0 {
		differences = append(differences, fmt.Sprintf("L1 fee is %s wei, the chain has %s", r, t))
	}
	return same, differences
}

func logDifference(r, t chain.Log) string {
	switch {
	case r.Address != t.Address:
		return fmt.Sprintf("address is %s, the chain has %s", r.Address, t.Address)
	case !slices.Equal(r.Topics, t.Topics):
		return fmt.Sprintf("topics are %v, the chain has %v", r.Topics, t.Topics)
	case !bytes.Equal(r.Data, t.Data):
		word := differsAt(r.Data, t.Data) / 32
		return fmt.Sprintf("data is %#x from word %d on, the chain has %#x", from(r.Data, word), word, from(t.Data, word))
	}
	return ""
}

func differsAt(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// from is a word of 32 bytes, or what there is of it.
func from(b []byte, word int) []byte {
	b = b[min(len(b), 32*word):]
	return b[:min(len(b), 32)]
}
