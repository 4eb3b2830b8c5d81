package anchor

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain"
	"karatum/chain/eas"
)

// MaxGas bounds the gas limit of every transaction made here. An attestation
// takes about 275,000 gas and registering the schema 120,000.
const MaxGas = 1_000_000

var (
	// ErrRefused reports that the contract would revert; the message names its
	// custom error.
	ErrRefused = errors.New("anchor: contract refuses")

	// ErrGas reports an estimate above [MaxGas].
	ErrGas = errors.New("anchor: gas estimate is too high")

	// ErrForeignTx reports raw bytes that are not an EIP-1559 transaction of the
	// signer on the network.
	ErrForeignTx = errors.New("anchor: not a transaction of this signer")
)

// A Signer holds the key that pays for anchors and is named as their attester.
type Signer interface {
	Address() common.Address
	// SignHash returns the 65-byte signature R ++ S ++ V, V being 0 or 1. It must
	// be deterministic (RFC 6979).
	SignHash(hash [32]byte) ([]byte, error)
}

// A KeySigner signs with a key in memory.
type KeySigner struct{ key *ecdsa.PrivateKey }

// NewKeySigner wraps a secp256k1 key.
func NewKeySigner(key *ecdsa.PrivateKey) KeySigner { return KeySigner{key} }

// Address is the key's account.
func (s KeySigner) Address() common.Address { return crypto.PubkeyToAddress(s.key.PublicKey) }

// SignHash implements [Signer].
func (s KeySigner) SignHash(hash [32]byte) ([]byte, error) { return crypto.Sign(hash[:], s.key) }

// A Tx is a signed transaction, ready to be stored and then sent.
type Tx struct {
	Raw   []byte
	Hash  common.Hash
	Nonce uint64
	Gas   uint64 // limit
	Fees  chain.Fees
}

// MaxCost is the most that the transaction can cost, in wei. On OP-stack chains
// the fee for the parent chain comes on top.
func (t Tx) MaxCost() *big.Int {
	return new(big.Int).Mul(t.Fees.Cap, new(big.Int).SetUint64(t.Gas))
}

// BuildAttest signs the transaction that attests the epoch of root and count.
// The node is asked for a gas estimate only.
func BuildAttest(ctx context.Context, c *chain.Client, n eas.Network, s Signer, nonce uint64, fees chain.Fees, root [32]byte, count uint32) (Tx, error) {
	input := eas.Epoch{Root: root, Count: count, Spec: eas.SpecV1}.Calldata()
	return build(ctx, c, n, s, nonce, fees, n.EAS, input)
}

// BuildRegister signs the transaction that registers the epoch schema.
func BuildRegister(ctx context.Context, c *chain.Client, n eas.Network, s Signer, nonce uint64, fees chain.Fees) (Tx, error) {
	return build(ctx, c, n, s, nonce, fees, n.Registry, eas.RegisterCalldata(eas.Schema, common.Address{}, false))
}

func build(ctx context.Context, c *chain.Client, n eas.Network, s Signer, nonce uint64, fees chain.Fees, to common.Address, input []byte) (Tx, error) {
	estimate, err := c.EstimateGas(ctx, chain.Call{From: s.Address(), To: to, Data: input})
	if err != nil {
		return Tx{}, explain(err)
	}
	// A fifth more, because an equal attestation in the same second costs another
	// round of the contract's search for a free UID.
	gas := estimate + estimate/5
	if estimate > MaxGas || gas > MaxGas {
		return Tx{}, fmt.Errorf("%w: %d, limit %d", ErrGas, estimate, MaxGas)
	}
	return sign(n, s, &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(n.ChainID), Nonce: nonce, Gas: gas,
		GasFeeCap: fees.Cap, GasTipCap: fees.Tip, To: &to, Data: input,
	})
}

// explain names the contract's error in a revert.
func explain(err error) error {
	var call *chain.CallError
	if errors.As(err, &call) && errors.Is(err, chain.ErrReverted) {
		return fmt.Errorf("%w: %s: %w", ErrRefused, eas.RevertName(call.Data), err)
	}
	return err
}

func sign(n eas.Network, s Signer, inner *types.DynamicFeeTx) (Tx, error) {
	signer := types.LatestSignerForChainID(new(big.Int).SetUint64(n.ChainID))
	unsigned := types.NewTx(inner)
	sig, err := s.SignHash(signer.Hash(unsigned))
	if err != nil {
		return Tx{}, fmt.Errorf("anchor: sign: %w", err)
	}
	tx, err := unsigned.WithSignature(signer, sig)
	if err != nil {
		return Tx{}, fmt.Errorf("anchor: signature: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return Tx{}, fmt.Errorf("anchor: encode: %w", err)
	}
	return describe(raw, tx), nil
}

func describe(raw []byte, tx *types.Transaction) Tx {
	return Tx{Raw: raw, Hash: tx.Hash(), Nonce: tx.Nonce(), Gas: tx.Gas(), Fees: chain.Fees{Cap: tx.GasFeeCap(), Tip: tx.GasTipCap()}}
}

// ParseTx reads stored bytes. They must be an EIP-1559 transaction on the
// network, signed by the account; the error wraps [ErrForeignTx].
func ParseTx(raw []byte, n eas.Network, account common.Address) (Tx, error) {
	_, t, err := parseTx(raw, n, account)
	return t, err
}

func parseTx(raw []byte, n eas.Network, account common.Address) (*types.Transaction, Tx, error) {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		return nil, Tx{}, fmt.Errorf("%w: %w", ErrForeignTx, err)
	}
	chainID := new(big.Int).SetUint64(n.ChainID)
	from, err := types.Sender(types.LatestSignerForChainID(chainID), tx)
	switch {
	case err != nil:
		return nil, Tx{}, fmt.Errorf("%w: %w", ErrForeignTx, err)
	case tx.Type() != types.DynamicFeeTxType || tx.ChainId().Cmp(chainID) != 0:
		return nil, Tx{}, fmt.Errorf("%w: type %d on chain %s", ErrForeignTx, tx.Type(), tx.ChainId())
	case from != account:
		return nil, Tx{}, fmt.Errorf("%w: signed by %s", ErrForeignTx, from)
	}
	return tx, describe(raw, tx), nil
}

// Bump signs a replacement of a transaction made here: same nonce, gas, target
// and input, both fees raised by an eighth, or to those given if they are higher
// (pass the node's newest suggestion, or the zero Fees). It asks no node.
func Bump(raw []byte, n eas.Network, s Signer, fees chain.Fees) (Tx, error) {
	tx, old, err := parseTx(raw, n, s.Address())
	if err != nil {
		return Tx{}, err
	}
	next := old.Fees.Bump()
	if fees.Cap != nil && fees.Tip != nil {
		next = next.Max(fees)
	}
	return sign(n, s, &types.DynamicFeeTx{
		ChainID: tx.ChainId(), Nonce: tx.Nonce(), Gas: tx.Gas(), GasFeeCap: next.Cap, GasTipCap: next.Tip,
		To: tx.To(), Value: tx.Value(), Data: tx.Data(), AccessList: tx.AccessList(),
	})
}
