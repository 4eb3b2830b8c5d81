package flight

import (
	"errors"
	"fmt"

	"karatum/flight/merkle"
)

// MaxEpoch is the most batches of one epoch (seed section 2.7).
const MaxEpoch = 512

// ErrEpoch reports more than [MaxEpoch] batches.
var ErrEpoch = errors.New("flight: too many batches for an epoch")

// EpochRoot returns the root over the batchIds of an epoch, in storage order. The
// error wraps [ErrEpoch] or is [merkle.ErrEmpty].
func EpochRoot(batchIDs []Hash) (Hash, error) {
	if err := checkEpoch(batchIDs); err != nil {
		return Hash{}, err
	}
	return merkle.Root(batchIDs)
}

func checkEpoch(batchIDs []Hash) error {
	if len(batchIDs) > MaxEpoch {
		return fmt.Errorf("%w: %d, at most %d", ErrEpoch, len(batchIDs), MaxEpoch)
	}
	return nil
}

// EpochProof returns the proof of batchIDs[i]. The errors are those of
// [EpochRoot], or [merkle.ErrIndex].
func EpochProof(batchIDs []Hash, i int) (Proof, error) {
	if err := checkEpoch(batchIDs); err != nil {
		return Proof{}, err
	}
	return merkle.Prove(batchIDs, i)
}

// VerifyEpoch checks that a batch is in the epoch. count must come from the
// attestation's calldata, never from the proof (spec section 2). The error is one of
// the merkle package's.
func VerifyEpoch(root Hash, count uint64, batchID Hash, p Proof) error {
	return merkle.Verify(root, count, batchID, p)
}
