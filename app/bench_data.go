package app

import (
	"crypto/rand"
	"math/big"
	"strings"
	"time"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// benchText returns n characters that a model might have written.
func benchText(n int) string {
	return strings.Repeat("the quick brown fox jumps over the lazy dog; ", n/44+1)[:n]
}

// bareStep does what no recorder can do without: commit to two values under fresh
// salts, and hash the step.
func bareStep(text string) error {
	s := flight.Step{Stream: "bench", Kind: "tool", Status: "ok", Name: "bench", Prev: flight.Hash{1}, Seq: 1, At: 1}
	for _, field := range []**flight.Hash{&s.Args, &s.Result} {
		var salt flight.Hash
		if _, err := rand.Read(salt[:]); err != nil {
			return err
		}
		h, err := flight.CommitValue(canon.Str(text), salt)
		if err != nil {
			return err
		}
		*field = &h
	}
	s.Hash()
	return nil
}

// benchSteps chains n steps, the one at 100 with a claim, and returns what opens
// that claim.
func benchSteps(agent flight.Address, stream string, n int) ([]flight.Step, flight.Opening, error) {
	claim := flight.Claim{Kind: flight.ClaimERC20, Token: flight.Address{1}, To: flight.Address{2}, Amount: big.NewInt(25_000_000)}
	opening := flight.Opening{Field: "claim", Salt: flight.Keccak256([]byte(stream)), Value: claim.Value()}
	commitment, err := flight.CommitValue(opening.Value, opening.Salt)
	if err != nil {
		return nil, opening, err
	}
	chainID := uint64(31337)
	steps := make([]flight.Step, n)
	var prev flight.Hash
	for i := range steps {
		tx := flight.Keccak256([]byte{byte(i), byte(i >> 8)})
		steps[i] = flight.Step{
			Agent: agent, Stream: stream, Seq: uint64(i), Prev: prev, At: 1_760_000_000_000, Kind: "tx", Status: "ok", Name: "pay",
			Claim: &commitment, ChainID: &chainID, TxHash: &tx,
		}
		prev = steps[i].Hash()
	}
	return steps, opening, nil
}

// headerOf returns the header of the first batch of a stream, over all steps.
func headerOf(steps []flight.Step) (flight.Header, error) {
	hashes := make([]flight.Hash, len(steps))
	for i := range steps {
		hashes[i] = steps[i].Hash()
	}
	root, err := merkle.Root(hashes)
	if err != nil {
		return flight.Header{}, err
	}
	last := &steps[len(steps)-1]
	return flight.Header{
		Agent: last.Agent, Stream: last.Stream, ToSeq: last.Seq, Head: hashes[len(hashes)-1], Root: root, CreatedAt: uint64(time.Now().Unix()),
	}, nil
}
