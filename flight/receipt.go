package flight

import (
	"fmt"

	"karatum/flight/merkle"
)

// A Receipt is the node's signed promise for one batch (spec section 4): it is
// stored at Position and will be anchored by AnchorBy. A node that drops the
// batch is caught by it.
type Receipt struct {
	BatchID    Hash          `json:"batchId"`
	Position   uint64        `json:"position"`   // storage order
	ReceivedAt uint64        `json:"receivedAt"` // unix milliseconds
	AnchorBy   uint64        `json:"anchorBy"`   // unix seconds
	Node       Address       `json:"node"`
	Signature  Signature     `json:"signature"`
	Group      *ReceiptGroup `json:"group,omitempty"` // where one signature covers a commit group
}

// A ReceiptGroup places a receipt among those that one signature covers.
type ReceiptGroup struct {
	Root  Hash   `json:"root"`
	Size  uint64 `json:"size"`
	Proof Proof  `json:"proof"`
}

// Text returns the lines that the node signs, or whose hash is an item of the
// group's tree.
func (r *Receipt) Text() string {
	return fmt.Sprintf("Karatum Flight Receipt v1\nbatchId: %s\nposition: %d\nreceivedAt: %d\nanchorBy: %d",
		r.BatchID, r.Position, r.ReceivedAt, r.AnchorBy)
}

// Item returns the receipt's item of its group's tree: keccak256 of the text.
func (r *Receipt) Item() Hash { return Keccak256([]byte(r.Text())) }

// GroupText returns the lines that the node signs for a group of receipts.
func GroupText(root Hash, size uint64) string {
	return fmt.Sprintf("Karatum Flight Receipt Group v1\nroot: %s\nsize: %d", root, size)
}

// Verify checks the signature, through the group where there is one. The error
// wraps [ErrSignature] or is one of the merkle package's.
func (r *Receipt) Verify() error {
	digest := TextDigest(r.Text())
	if g := r.Group; g != nil {
		if err := merkle.Verify(g.Root, g.Size, r.Item(), g.Proof); err != nil {
			return err
		}
		digest = TextDigest(GroupText(g.Root, g.Size))
	}
	signer, err := r.Signature.Recover(digest)
	if err != nil {
		return err
	}
	if signer != r.Node {
		return signerErr(signer, r.Node)
	}
	return nil
}
