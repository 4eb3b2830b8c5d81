// Package signer holds the agent's key elsewhere than in plain memory files: in an
// encrypted Ethereum keystore, or in a wallet that is asked over JSON-RPC, so that
// the key never enters the agent's process.
package signer

import (
	"errors"
	"fmt"
	"os"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/flight"
	"karatum/flight/recorder"
)

// ErrKeystore reports a keystore file that cannot be read or decrypted.
var ErrKeystore = errors.New("signer: keystore")

// Keystore decrypts an Ethereum keystore file (version 3) and returns a signer over
// its key, which then stays in memory. The error wraps [ErrKeystore]; a wrong
// passphrase also wraps go-ethereum's keystore.ErrDecrypt.
func Keystore(path, passphrase string) (recorder.Signer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeystore, err)
	}
	k, err := keystore.DecryptKey(raw, passphrase)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKeystore, path, err)
	}
	secret := crypto.FromECDSA(k.PrivateKey)
	key, err := flight.KeyFromBytes(secret)
	clear(secret)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKeystore, path, err)
	}
	if key.Address() != flight.Address(k.Address) {
		return nil, fmt.Errorf("%w: %s: the key is that of %s, the file says %s", ErrKeystore, path, key.Address(), k.Address)
	}
	return recorder.Local(key), nil
}
