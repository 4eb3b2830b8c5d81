package flight

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// ErrSignatureForm reports a signature that no form of spec section 3 allows.
var ErrSignatureForm = errors.New("signature must be 65 bytes r||s||v with v in {0,1,27,28} or 64 bytes EIP-2098, r and s in range, s in the lower half")

// ErrSignature reports a signature that recovers no key, or another key than the
// one claimed.
var ErrSignature = errors.New("flight: bad signature")

// ErrKey reports bytes that are not the secret of a secp256k1 key.
var ErrKey = errors.New("flight: not a secp256k1 private key")

// A Signature is r||s||v with v 27 or 28 and s in the lower half of the order,
// the one form in which signatures are kept.
type Signature [65]byte

// String returns the signature as lower-case 0x hex.
func (s Signature) String() string { return fmt.Sprintf("0x%x", s[:]) }

// MarshalText writes lower-case 0x hex.
func (s Signature) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads any form that [ParseSignature] takes, as 0x hex.
func (s *Signature) UnmarshalText(b []byte) error {
	raw, err := ParseHex(string(b))
	if err != nil {
		return err
	}
	*s, err = ParseSignature(raw)
	return err
}

// ParseSignature reads any accepted form (spec section 3) into the kept one, or
// returns [ErrSignatureForm].
func ParseSignature(raw []byte) (Signature, error) {
	var s Signature
	switch {
	case len(raw) == 64: // EIP-2098: the top bit of s is the recovery id
		copy(s[:], raw)
		s[64] = 27 + raw[32]>>7
		s[32] &= 0x7f
	case len(raw) == 65 && (raw[64] == 27 || raw[64] == 28):
		copy(s[:], raw)
	case len(raw) == 65 && raw[64] <= 1:
		copy(s[:], raw)
		s[64] += 27
	default:
		return Signature{}, ErrSignatureForm
	}
	var r, sc secp256k1.ModNScalar
	if r.SetByteSlice(s[:32]) || sc.SetByteSlice(s[32:64]) || r.IsZero() || sc.IsZero() || sc.IsOverHalfOrder() {
		return Signature{}, ErrSignatureForm
	}
	return s, nil
}

// Recover returns the address whose key signed the digest, or an error that
// wraps [ErrSignature] where no key did, or where s was filled by hand with a form
// that [ParseSignature] refuses.
func (s Signature) Recover(digest Hash) (Address, error) {
	kept, err := ParseSignature(s[:])
	if err != nil {
		return Address{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	var compact [65]byte
	compact[0] = kept[64]
	copy(compact[1:], kept[:64])
	pub, _, err := ecdsa.RecoverCompact(compact[:], digest[:])
	if err != nil {
		return Address{}, fmt.Errorf("%w: it recovers to no key", ErrSignature)
	}
	return addressOf(pub), nil
}

func addressOf(pub *secp256k1.PublicKey) (a Address) {
	h := Keccak256(pub.SerializeUncompressed()[1:])
	copy(a[:], h[12:])
	return a
}

func signerErr(got, want Address) error {
	return fmt.Errorf("%w: it recovers to %s, not to %s", ErrSignature, got, want)
}

// TextDigest returns the EIP-191 digest of a text (personal_sign). The length is
// counted in UTF-8 bytes.
func TextDigest(text string) Hash {
	return Keccak256([]byte("\x19Ethereum Signed Message:\n"+strconv.Itoa(len(text))), []byte(text))
}

// A Key is a secp256k1 private key. It signs deterministically (RFC 6979).
type Key struct {
	priv *secp256k1.PrivateKey
	addr Address
}

// NewKey draws a key from the system's randomness.
func NewKey() (*Key, error) {
	for {
		var raw [32]byte
		if _, err := rand.Read(raw[:]); err != nil {
			return nil, fmt.Errorf("flight: draw a key: %w", err)
		}
		if k, err := KeyFromBytes(raw[:]); err == nil {
			return k, nil
		}
	}
}

// KeyFromBytes reads a 32-byte secret, which must be in 1 to order-1, or returns
// [ErrKey].
func KeyFromBytes(raw []byte) (*Key, error) {
	var sc secp256k1.ModNScalar
	if len(raw) != 32 || sc.SetByteSlice(raw) || sc.IsZero() {
		return nil, ErrKey
	}
	priv := secp256k1.NewPrivateKey(&sc)
	return &Key{priv: priv, addr: addressOf(priv.PubKey())}, nil
}

// Address returns the key's address.
func (k *Key) Address() Address { return k.addr }

// Bytes returns the 32-byte secret.
func (k *Key) Bytes() []byte { return k.priv.Serialize() }

// Sign signs a digest.
func (k *Key) Sign(digest Hash) Signature {
	c := ecdsa.SignCompact(k.priv, digest[:], false)
	var s Signature
	copy(s[:], c[1:])
	s[64] = c[0]
	return s
}

// SignText signs a text under EIP-191.
func (k *Key) SignText(text string) Signature { return k.Sign(TextDigest(text)) }
