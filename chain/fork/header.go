package fork

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"karatum/chain"
)

// ErrContradiction reports an answer that the node's own block disproves: a
// header that does not hash to its hash, a proof that does not end in the state
// root, code with another hash. It wraps [chain.ErrMalformed].
var ErrContradiction = fmt.Errorf("fork: the node contradicts its own block: %w", chain.ErrMalformed)

func contradiction(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrContradiction, fmt.Sprintf(format, args...))
}

func malformed(what string, err error) error {
	return fmt.Errorf("fork: %s: %w: %.200q", what, chain.ErrMalformed, err.Error())
}

// A Header is a block header as the node told it.
type Header struct {
	*types.Header
	Hash     common.Hash // as told
	Unproved string      // why Hash could not be recomputed; "" if it was, and matched
}

// knownMembers are the members of a block object that are in the hashed header,
// or known not to be. Another member may be a header field of a later fork.
var knownMembers = map[string]bool{
	"parentHash": true, "sha3Uncles": true, "miner": true, "stateRoot": true, "transactionsRoot": true, "receiptsRoot": true,
	"logsBloom": true, "difficulty": true, "number": true, "gasLimit": true, "gasUsed": true, "timestamp": true, "extraData": true,
	"mixHash": true, "nonce": true, "baseFeePerGas": true, "withdrawalsRoot": true, "blobGasUsed": true, "excessBlobGas": true,
	"parentBeaconBlockRoot": true, "requestsHash": true, "blockAccessListHash": true, "slotNumber": true,

	"hash": true, "totalDifficulty": true, "size": true, "uncles": true, "transactions": true, "withdrawals": true, "author": true,
}

// parseHeader reads a block object and hashes its header. A header whose hash
// differs is a contradiction, unless the node sent members that are not known
// here: then they may explain it, and the header is as told.
func parseHeader(raw json.RawMessage) (Header, error) {
	var told struct {
		Hash *common.Hash `json:"hash"`
	}
	h := Header{Header: new(types.Header)}
	if err := json.Unmarshal(raw, &told); err != nil {
		return h, malformed("block", err)
	}
	if err := json.Unmarshal(raw, h.Header); err != nil {
		return h, malformed("header", err)
	}
	if told.Hash == nil || !h.Number.IsUint64() {
		return h, malformed("header", errors.New("hash is missing or number exceeds 64 bits"))
	}
	h.Hash = *told.Hash
	computed := h.Header.Hash()
	if computed == h.Hash {
		return h, nil
	}
	unknown, err := unknownMembers(raw)
	if err != nil {
		return h, malformed("header", err)
	}
	if len(unknown) == 0 {
		return h, contradiction("header fields of block %d hash to %s, told %s", h.Number, computed, h.Hash)
	}
	h.Unproved = fmt.Sprintf("header of block %d has members that are not known here (%s)", h.Number, strings.Join(unknown, ", "))
	return h, nil
}

// unknownMembers names at most five, each cut short: they are foreign text.
func unknownMembers(raw json.RawMessage) ([]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	var out []string
	for name := range members {
		if !knownMembers[name] {
			out = append(out, fmt.Sprintf("%.40q", name))
		}
	}
	slices.Sort(out)
	return out[:min(len(out), 5)], nil
}
