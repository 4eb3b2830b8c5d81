package app

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"karatum/flight"
)

// Files of the data directory that hold secrets, each 0600 and made at the first
// start. Anchoring and receipts have separate keys (spec section 7).
const (
	anchorKeyFile  = "anchor.key"
	receiptKeyFile = "receipt.key"
	operatorFile   = "operator.token"
	productionFile = "production-addresses" // not a secret: the operator's list
)

// Keys are the secrets of a node.
type Keys struct {
	Anchor   *flight.Key // pays for and signs attestations
	Receipt  *flight.Key // signs receipts
	operator [32]byte    // sha256 of the operator token
}

// ErrProductionKey reports an anchoring key that is listed as a production key,
// with which a test network's node must never sign.
var ErrProductionKey = errors.New("the anchoring key is listed as a production key")

// LoadKeys reads the secrets of dir. They are never printed. Only in a fresh
// directory, one without a database, are they drawn: a key that went missing
// later is an error, for a new one would disown what the old one signed.
func LoadKeys(dir string, fresh bool) (*Keys, error) {
	k := &Keys{}
	var err error
	if k.Anchor, err = loadKey(filepath.Join(dir, anchorKeyFile), fresh); err != nil {
		return nil, err
	}
	if k.Receipt, err = loadKey(filepath.Join(dir, receiptKeyFile), fresh); err != nil {
		return nil, err
	}
	token, err := loadSecret(filepath.Join(dir, operatorFile), true)
	if err != nil {
		return nil, err
	}
	k.operator = sha256.Sum256([]byte(token))
	return k, k.guard(filepath.Join(dir, productionFile))
}

// guard refuses an anchoring key whose address the operator has listed, one a
// line, as belonging to production.
func (k *Keys) guard(list string) error {
	b, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, line := range strings.Fields(strings.ToLower(string(b))) {
		if line == k.Anchor.Address().String() {
			return fmt.Errorf("%w: %s stands in %s", ErrProductionKey, line, list)
		}
	}
	return nil
}

func loadKey(file string, draw bool) (*flight.Key, error) {
	text, err := loadSecret(file, draw)
	if err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, fmt.Errorf("%s does not hold a private key of 32 bytes in hex", file)
	}
	k, err := flight.KeyFromBytes(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// loadSecret reads a secret of one line. Where draw is set it makes a missing one
// from 32 random bytes, so that a crash leaves either no file or a whole one. It
// refuses a file that others may read.
func loadSecret(file string, draw bool) (string, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && draw {
		return drawSecret(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is missing beside a database that was written with it; restore it from a copy", file)
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others; run: chmod 600 %s", file, file)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("%s is empty; restore it, or remove it to have a new one drawn", file)
	}
	return s, nil
}

func drawSecret(file string) (string, error) {
	var raw [32]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	s := hex.EncodeToString(raw[:])
	return s, WriteSecret(file, []byte(s+"\n"))
}

// WriteSecret writes a file of mode 0600 durably, whole or not at all.
func WriteSecret(file string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".secret-*") // made with 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	_, err = tmp.Write(b)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), file); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(file))
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// CheckOperator reports whether token is the operator's, in constant time.
func (k *Keys) CheckOperator(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], k.operator[:]) == 1
}
