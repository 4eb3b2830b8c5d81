package eas

import (
	"encoding/binary"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

const wordSize = 32

func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }

// An encoder appends 32-byte ABI words.
type encoder []byte

func (e encoder) bytes32(v [32]byte) encoder { return append(e, v[:]...) }

func (e encoder) address(v common.Address) encoder {
	return append(append(e, make([]byte, wordSize-len(v))...), v[:]...)
}

func (e encoder) uint(v uint64) encoder {
	return binary.BigEndian.AppendUint64(append(e, make([]byte, wordSize-8)...), v)
}

func (e encoder) bool(v bool) encoder {
	if v {
		return e.uint(1)
	}
	return e.uint(0)
}

// tail is the length and the bytes of a dynamic value, padded with zeros.
func (e encoder) tail(v []byte) encoder {
	e = append(e.uint(uint64(len(v))), v...)
	return append(e, make([]byte, (wordSize-len(v)%wordSize)%wordSize)...)
}

var errShort = errors.New("too short")

// A decoder reads words at fixed places. Its methods need not check padding and
// offsets: every parser re-encodes what it read and compares.
type decoder []byte

func (d decoder) word(i int) (w [wordSize]byte, err error) {
	if len(d) < (i+1)*wordSize {
		return w, errShort
	}
	copy(w[:], d[i*wordSize:])
	return w, nil
}

func (d decoder) uint(i int) (uint64, error) {
	w, err := d.word(i)
	return binary.BigEndian.Uint64(w[wordSize-8:]), err
}

func (d decoder) address(i int) (common.Address, error) {
	w, err := d.word(i)
	return common.BytesToAddress(w[:]), err
}

// tail reads the length at word i and the bytes that follow it.
func (d decoder) tail(i int) ([]byte, error) {
	n, err := d.uint(i)
	if err != nil {
		return nil, err
	}
	start := (i + 1) * wordSize
	if n > uint64(len(d)-start) {
		return nil, errShort
	}
	return d[start : start+int(n)], nil
}
