package eas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
)

// ErrMalformed reports bytes that are not the canonical encoding of what they
// should be.
var ErrMalformed = errors.New("eas: malformed")

// A Request is the argument of EAS.attest.
type Request struct {
	Schema         common.Hash
	Recipient      common.Address
	ExpirationTime uint64 // Unix seconds, 0 = never
	Revocable      bool
	RefUID         common.Hash
	Data           []byte
	Value          uint256.Int // wei for the schema's resolver; 0 without one
}

// An Epoch is what Karatum attests.
type Epoch struct {
	Root  [32]byte
	Count uint32 // batches, at least 1
	Spec  string // SpecV1
}

// Data is abi.encode(bytes32 root, uint32 count, string spec).
func (e Epoch) Data() []byte {
	return encoder(nil).bytes32(e.Root).uint(uint64(e.Count)).uint(3 * wordSize).tail([]byte(e.Spec))
}

// Calldata is the input of the transaction that attests the epoch: no recipient,
// no expiry, not revocable, no reference, no value.
func (e Epoch) Calldata() []byte {
	return Request{Schema: EpochSchemaUID(), Data: e.Data()}.Calldata()
}

// Calldata calls EAS.attest((bytes32,(address,uint64,bool,bytes32,bytes,uint256))).
//
//	word  0  offset of the request, 0x20
//	      1  schema
//	      2  offset of its data, 0x40
//	      3  recipient
//	      4  expirationTime
//	      5  revocable
//	      6  refUID
//	      7  offset of data, 0xc0
//	      8  value
//	      9  length of data, then data, padded with zeros
func (r Request) Calldata() []byte {
	e := encoder(selector(attestSignature)).uint(wordSize).bytes32(r.Schema).uint(2 * wordSize)
	e = e.address(r.Recipient).uint(r.ExpirationTime).bool(r.Revocable).bytes32(r.RefUID)
	return e.uint(6 * wordSize).bytes32(r.Value.Bytes32()).tail(r.Data)
}

const attestSignature = "attest((bytes32,(address,uint64,bool,bytes32,bytes,uint256)))"

// UID is the attestation's identifier, as EAS computes it:
//
//	keccak256(schema ++ recipient ++ attester ++ time u64 ++ expiration u64 ++
//	          revocable u8 ++ refUID ++ data ++ bump u32)
//
// time is the block's, in Unix seconds; bump counts equal attestations in it.
func (r Request) UID(attester common.Address, time uint64, bump uint32) common.Hash {
	var b []byte
	b = append(append(append(b, r.Schema[:]...), r.Recipient[:]...), attester[:]...)
	b = binary.BigEndian.AppendUint64(b, time)
	b = binary.BigEndian.AppendUint64(b, r.ExpirationTime)
	if r.Revocable {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(append(b, r.RefUID[:]...), r.Data...)
	return crypto.Keccak256Hash(binary.BigEndian.AppendUint32(b, bump))
}

// ParseCalldata reads the input of an attest transaction. It accepts exactly
// what [Request.Calldata] produces.
func ParseCalldata(input []byte) (Request, error) {
	r, err := parseRequest(input)
	if err != nil {
		return Request{}, fmt.Errorf("%w attest calldata: %w", ErrMalformed, err)
	}
	if !bytes.Equal(r.Calldata(), input) {
		return Request{}, fmt.Errorf("%w attest calldata: not canonical", ErrMalformed)
	}
	return r, nil
}

func parseRequest(input []byte) (r Request, err error) {
	if !bytes.HasPrefix(input, selector(attestSignature)) {
		return r, errors.New("another function")
	}
	d := decoder(input[4:])
	if r.Data, err = d.tail(9); err != nil {
		return r, err
	}
	// The words below exist, as word 9 does.
	schema, _ := d.word(1)
	refUID, _ := d.word(6)
	revocable, _ := d.uint(5)
	value, _ := d.word(8)
	r.Schema, r.RefUID, r.Revocable = schema, refUID, revocable != 0
	r.Recipient, _ = d.address(3)
	r.ExpirationTime, _ = d.uint(4)
	r.Value.SetBytes32(value[:])
	r.Data = bytes.Clone(r.Data)
	return r, nil
}

// ParseEpoch reads attestation data. It accepts exactly what [Epoch.Data]
// produces for an epoch of format [SpecV1] with at least one batch.
func ParseEpoch(data []byte) (Epoch, error) {
	d := decoder(data)
	spec, err := d.tail(3)
	if err != nil {
		return Epoch{}, fmt.Errorf("%w attestation data: %w", ErrMalformed, err)
	}
	root, _ := d.word(0)
	count, _ := d.uint(1)
	e := Epoch{Root: root, Count: uint32(count), Spec: string(spec)}
	switch {
	case count == 0 || count > math.MaxUint32:
		return Epoch{}, fmt.Errorf("%w attestation data: %d batches", ErrMalformed, count)
	case !bytes.Equal(e.Data(), data):
		return Epoch{}, fmt.Errorf("%w attestation data: not canonical", ErrMalformed)
	case e.Spec != SpecV1:
		return Epoch{}, fmt.Errorf("%w attestation data: spec %q, want %q", ErrMalformed, e.Spec, SpecV1)
	}
	return e, nil
}

// ParseEpochCalldata reads the input of an anchoring transaction. It accepts
// exactly what [Epoch.Calldata] produces.
func ParseEpochCalldata(input []byte) (Epoch, error) {
	r, err := ParseCalldata(input)
	if err != nil {
		return Epoch{}, err
	}
	e, err := ParseEpoch(r.Data)
	if err != nil {
		return Epoch{}, err
	}
	if !bytes.Equal(e.Calldata(), input) {
		return Epoch{}, fmt.Errorf("%w: an attestation, but not of an epoch", ErrMalformed)
	}
	return e, nil
}
