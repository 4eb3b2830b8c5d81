package anchor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/eas"
)

var (
	// ErrPending reports a transaction that is known but in no block.
	ErrPending = errors.New("anchor: transaction is pending")

	// ErrReverted reports an anchoring transaction that was mined and reverted.
	ErrReverted = errors.New("anchor: transaction reverted")

	// ErrMismatch reports a transaction that does not anchor the epoch asked for.
	ErrMismatch = errors.New("anchor: transaction does not anchor this epoch")
)

// An Anchor is a checked attestation of an epoch in a block.
type Anchor struct {
	TxHash         common.Hash
	Attester       common.Address // who attested: anyone can, so name it
	AttestationUID common.Hash
	BlockNumber    uint64
	BlockHash      common.Hash
	GasUsed        uint64
}

// Check decides from a transaction and its receipt whether they anchor the
// epoch: to is EAS, the input is byte for byte the calldata of root and count,
// the receipt is this transaction's, succeeded, and has the log of the
// attestation by the sender. It asks nobody.
func Check(tx chain.Tx, r chain.Receipt, n eas.Network, root [32]byte, count uint32) (Anchor, error) {
	want := eas.Epoch{Root: root, Count: count, Spec: eas.SpecV1}.Calldata()
	switch {
	case tx.To == nil || *tx.To != n.EAS:
		return Anchor{}, fmt.Errorf("%w: it does not call EAS at %s", ErrMismatch, n.EAS)
	case !bytes.Equal(tx.Input, want):
		return Anchor{}, fmt.Errorf("%w: its input is not the calldata of this root and count", ErrMismatch)
	case r.TxHash != tx.Hash || r.From != tx.From || r.To == nil || *r.To != n.EAS:
		return Anchor{}, fmt.Errorf("%w: the receipt is of another transaction", ErrMismatch)
	case !tx.Mined:
		return Anchor{}, fmt.Errorf("%w: %s", ErrPending, tx.Hash)
	case tx.BlockHash != r.BlockHash || tx.BlockNumber != r.BlockNumber:
		return Anchor{}, fmt.Errorf("%w: transaction and receipt name different blocks", ErrMismatch)
	case r.Status != 1:
		return Anchor{}, fmt.Errorf("%w: %s in block %d", ErrReverted, tx.Hash, r.BlockNumber)
	}
	uid, err := attestation(r.Logs, n, tx.From)
	if err != nil {
		return Anchor{}, err
	}
	return Anchor{
		TxHash: tx.Hash, Attester: tx.From, AttestationUID: uid,
		BlockNumber: r.BlockNumber, BlockHash: r.BlockHash, GasUsed: r.GasUsed,
	}, nil
}

// attestation finds the one Attested log of the epoch schema by the attester.
func attestation(logs []chain.Log, n eas.Network, attester common.Address) (uid common.Hash, err error) {
	found := 0
	for _, l := range logs {
		a, err := eas.ParseAttested(l.Topics, l.Data)
		if err != nil || l.Address != n.EAS || l.Removed {
			continue
		}
		if a.Schema == eas.EpochSchemaUID() && a.Attester == attester && a.Recipient == (common.Address{}) {
			found, uid = found+1, a.UID
		}
	}
	if found != 1 {
		return common.Hash{}, fmt.Errorf("%w: %d logs of an attestation, want 1", ErrMismatch, found)
	}
	return uid, nil
}

// Find fetches a transaction with its receipt and checks them. The error wraps
// [chain.ErrNotFound] if the node does not know the transaction, [ErrPending]
// if it is in no block, [ErrReverted], [ErrMismatch], or another class of
// package chain.
func Find(ctx context.Context, c *chain.Client, n eas.Network, txHash common.Hash, root [32]byte, count uint32) (Anchor, error) {
	tx, err := c.TransactionByHash(ctx, txHash)
	if err != nil {
		return Anchor{}, err
	}
	if !tx.Mined {
		return Anchor{}, fmt.Errorf("%w: %s", ErrPending, txHash)
	}
	r, err := c.TransactionReceipt(ctx, txHash)
	if err != nil {
		return Anchor{}, err
	}
	return Check(tx, r, n, root, count)
}

// A State is how settled a block is.
type State string

// States, from the least to the most settled; Orphaned is none of them.
const (
	Orphaned State = "orphaned" // not on the canonical chain (any more)
	Included State = "included"
	Safe     State = "safe"
	Final    State = "final"
)

// BlockState tells how settled a block is, and how many blocks are on the chain
// from it to the newest, itself included. Safe and Final come from the node's
// own tags only, never from the count: a node without them gives Included.
func BlockState(ctx context.Context, c *chain.Client, number uint64, hash common.Hash) (s State, confirmations uint64, err error) {
	// Tags first: a reorganisation in between then shows in the block itself.
	final, err := tagged(ctx, c, chain.Finalized)
	if err != nil {
		return "", 0, err
	}
	safe, err := tagged(ctx, c, chain.Safe)
	if err != nil {
		return "", 0, err
	}
	head, err := c.BlockNumber(ctx)
	if err != nil {
		return "", 0, err
	}
	block, err := c.HeaderByNumber(ctx, number)
	switch {
	case errors.Is(err, chain.ErrNotFound):
		return Orphaned, 0, nil
	case err != nil:
		return "", 0, err
	case block.Hash != hash:
		return Orphaned, 0, nil
	}
	// A node may have a block on its chain a moment before it counts it as the head.
	confirmations = max(head, number) - number + 1
	switch {
	case number <= final:
		return Final, confirmations, nil
	case number <= safe:
		return Safe, confirmations, nil
	}
	return Included, confirmations, nil
}

// tagged is the number of the block that a tag names; 0, genesis, if the node
// has no such tag.
func tagged(ctx context.Context, c *chain.Client, tag string) (uint64, error) {
	h, err := c.HeaderByTag(ctx, tag)
	if errors.Is(err, chain.ErrNotFound) || errors.Is(err, chain.ErrRPC) {
		return 0, nil
	}
	return h.Number, err
}
