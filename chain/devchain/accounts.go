package devchain

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Mnemonic is the phrase that every development chain uses. Its keys are public
// knowledge: value sent to them on a live network is gone at once.
const Mnemonic = "test test test test test test test test test test test junk"

// An Account is one of the ten funded accounts of the dev chain.
type Account struct {
	Address common.Address
	Key     *ecdsa.PrivateKey
}

// WellKnownAccounts derives the ten accounts m/44'/60'/0'/0/0 to 9 of
// [Mnemonic]. The app uses it to refuse these keys on public networks.
func WellKnownAccounts() ([]Account, error) {
	// BIP-39: the seed of a phrase without passphrase.
	seed, err := pbkdf2.Key(sha512.New, Mnemonic, []byte("mnemonic"), 2048, 64)
	if err != nil {
		return nil, fmt.Errorf("devchain: seed: %w", err)
	}
	parent := masterKey(seed)
	const hardened = 1 << 31
	for _, index := range []uint32{hardened + 44, hardened + 60, hardened, 0} {
		parent = parent.child(index)
	}
	accounts := make([]Account, 10)
	for i := range accounts {
		child := parent.child(uint32(i))
		key, err := crypto.ToECDSA(child.key[:])
		if err != nil {
			return nil, fmt.Errorf("devchain: account %d: %w", i, err)
		}
		accounts[i] = Account{Address: crypto.PubkeyToAddress(key.PublicKey), Key: key}
	}
	return accounts, nil
}

// An extendedKey is a private key with its chain code (BIP-32).
type extendedKey struct{ key, chain [32]byte }

func masterKey(seed []byte) extendedKey {
	return splitHMAC([]byte("Bitcoin seed"), seed)
}

// child derives a private child. The two cases that BIP-32 calls invalid have a
// probability below 2^-127 and do not occur on the one path that is derived.
func (k extendedKey) child(index uint32) extendedKey {
	data := make([]byte, 0, 37)
	if index >= 1<<31 {
		data = append(append(data, 0), k.key[:]...)
	} else {
		data = append(data, secp256k1.PrivKeyFromBytes(k.key[:]).PubKey().SerializeCompressed()...)
	}
	out := splitHMAC(k.chain[:], binary.BigEndian.AppendUint32(data, index))
	sum := new(big.Int).Add(new(big.Int).SetBytes(out.key[:]), new(big.Int).SetBytes(k.key[:]))
	sum.Mod(sum, crypto.S256().Params().N).FillBytes(out.key[:])
	return out
}

func splitHMAC(key, data []byte) (out extendedKey) {
	mac := hmac.New(sha512.New, key)
	mac.Write(data)
	sum := mac.Sum(nil)
	copy(out.key[:], sum[:32])
	copy(out.chain[:], sum[32:])
	return out
}
