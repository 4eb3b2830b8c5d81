package flight

import (
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/crypto/sha3"
)

// ErrHex reports text that is not lower-case 0x hex of the length asked for.
// Upper-case hex is refused anywhere in the protocol (spec section 2).
var ErrHex = errors.New("flight: not lower-case 0x hex")

// A Hash is a keccak-256 digest.
type Hash [32]byte

// An Address is an Ethereum account.
type Address [20]byte

// String returns the hash as lower-case 0x hex.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// String returns the address as lower-case 0x hex, without checksum casing.
func (a Address) String() string { return "0x" + hex.EncodeToString(a[:]) }

// IsZero reports whether every byte is zero.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText writes lower-case 0x hex.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// MarshalText writes lower-case 0x hex.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads lower-case 0x hex of 32 bytes, or returns [ErrHex].
func (h *Hash) UnmarshalText(b []byte) error { return unhex(h[:], string(b)) }

// UnmarshalText reads lower-case 0x hex of 20 bytes, or returns [ErrHex].
func (a *Address) UnmarshalText(b []byte) error { return unhex(a[:], string(b)) }

// ParseHash reads lower-case 0x hex of 32 bytes, or returns [ErrHex].
func ParseHash(s string) (h Hash, err error) {
	err = unhex(h[:], s)
	return h, err
}

// ParseAddress reads lower-case 0x hex of 20 bytes, or returns [ErrHex].
func ParseAddress(s string) (a Address, err error) {
	err = unhex(a[:], s)
	return a, err
}

// ParseHex reads lower-case 0x hex of any whole number of bytes, or returns [ErrHex].
func ParseHex(s string) ([]byte, error) {
	if len(s) < 2 || len(s)%2 != 0 {
		return nil, fmt.Errorf("%w: %d characters", ErrHex, len(s))
	}
	b := make([]byte, len(s)/2-1)
	return b, unhex(b, s)
}

func unhex(dst []byte, s string) error {
	if len(s) != 2+2*len(dst) || s[:2] != "0x" {
		return fmt.Errorf("%w of %d bytes", ErrHex, len(dst))
	}
	for i := range dst {
		hi, lo := nibble(s[2+2*i]), nibble(s[3+2*i])
		if hi > 15 || lo > 15 {
			return fmt.Errorf("%w of %d bytes", ErrHex, len(dst))
		}
		dst[i] = hi<<4 | lo
	}
	return nil
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// Keccak256 hashes the concatenation of the parts.
func Keccak256(parts ...[]byte) (h Hash) {
	k := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		k.Write(p)
	}
	k.Sum(h[:0])
	return h
}
