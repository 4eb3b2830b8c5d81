package eas

import (
	"bytes"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Schema is the attestation schema of epochs: no resolver, not revocable.
const Schema = "bytes32 epochRoot,uint32 batchCount,string spec"

// SpecV1 names the format whose roots are attested.
const SpecV1 = "karatum.flightrec.v1"

// SchemaUID is the registry's identifier of a schema:
//
//	keccak256(schema ++ resolver (20 bytes) ++ revocable (1 byte))
func SchemaUID(schema string, resolver common.Address, revocable bool) common.Hash {
	flag := []byte{0}
	if revocable {
		flag[0] = 1
	}
	return crypto.Keccak256Hash([]byte(schema), resolver[:], flag)
}

// EpochSchemaUID is the UID of [Schema].
func EpochSchemaUID() common.Hash { return SchemaUID(Schema, common.Address{}, false) }

// RegisterCalldata calls SchemaRegistry.register(string,address,bool).
func RegisterCalldata(schema string, resolver common.Address, revocable bool) []byte {
	e := encoder(selector("register(string,address,bool)"))
	return e.uint(3 * wordSize).address(resolver).bool(revocable).tail([]byte(schema))
}

// GetSchemaCalldata calls SchemaRegistry.getSchema(bytes32).
func GetSchemaCalldata(uid common.Hash) []byte {
	return encoder(selector("getSchema(bytes32)")).bytes32(uid)
}

// ParseEpochSchema reads the result of getSchema for [EpochSchemaUID] and
// reports whether the schema is registered. A record that is neither absent nor
// exactly [Schema] is an error: the contract is no EAS registry.
func ParseEpochSchema(result []byte) (registered bool, err error) {
	record := func(uid common.Hash, schema string) []byte {
		e := encoder(nil).uint(wordSize).bytes32(uid).address(common.Address{}).bool(false)
		return e.uint(4 * wordSize).tail([]byte(schema))
	}
	switch {
	case bytes.Equal(result, record(EpochSchemaUID(), Schema)):
		return true, nil
	case bytes.Equal(result, record(common.Hash{}, "")):
		return false, nil
	}
	return false, fmt.Errorf("eas: schema record: %w", ErrMalformed)
}
