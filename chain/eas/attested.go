package eas

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Attested is the event that EAS emits for a new attestation.
type Attested struct {
	Recipient common.Address
	Attester  common.Address
	UID       common.Hash
	Schema    common.Hash
}

// AttestedTopic is the first topic of the event's log.
func AttestedTopic() common.Hash {
	return crypto.Keccak256Hash([]byte("Attested(address,address,bytes32,bytes32)"))
}

// ParseAttested reads the topics and data of a log. Whether the log came from
// EAS is for the caller to check: it is the log's address.
func ParseAttested(topics []common.Hash, data []byte) (Attested, error) {
	if len(topics) != 4 || topics[0] != AttestedTopic() || len(data) != wordSize {
		return Attested{}, fmt.Errorf("%w: not an Attested log", ErrMalformed)
	}
	a := Attested{
		Recipient: common.BytesToAddress(topics[1][:]),
		Attester:  common.BytesToAddress(topics[2][:]),
		UID:       common.BytesToHash(data),
		Schema:    topics[3],
	}
	if common.BytesToHash(a.Recipient[:]) != topics[1] || common.BytesToHash(a.Attester[:]) != topics[2] {
		return Attested{}, fmt.Errorf("%w Attested log: address with more than 20 bytes", ErrMalformed)
	}
	return a, nil
}

// GetAttestationCalldata calls EAS.getAttestation(bytes32).
func GetAttestationCalldata(uid common.Hash) []byte {
	return encoder(selector("getAttestation(bytes32)")).bytes32(uid)
}

// IsAttestationValidCalldata calls EAS.isAttestationValid(bytes32), which is
// true for every attestation that exists.
func IsAttestationValidCalldata(uid common.Hash) []byte {
	return encoder(selector("isAttestationValid(bytes32)")).bytes32(uid)
}

// GetSchemaRegistryCalldata calls EAS.getSchemaRegistry().
func GetSchemaRegistryCalldata() []byte { return selector("getSchemaRegistry()") }

// ParseAddress reads a result that is one address.
func ParseAddress(result []byte) (common.Address, error) {
	a := common.BytesToAddress(result)
	if len(result) != wordSize || common.BytesToHash(result) != common.BytesToHash(a[:]) {
		return common.Address{}, fmt.Errorf("%w: not an address", ErrMalformed)
	}
	return a, nil
}
