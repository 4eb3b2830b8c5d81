package load

import (
	"encoding/json"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A Stream signs the batches of one stream one after another, each of one
// step.
type Stream struct {
	key  *flight.Key
	next flight.Header
}

// NewStream begins a stream of the key's; every batch bears createdAt, unix
// seconds.
func NewStream(key *flight.Key, stream string, createdAt uint64) *Stream {
	return &Stream{key: key, next: flight.Header{Agent: key.Address(), Stream: stream, CreatedAt: createdAt}}
}

// Sign returns the next batch.
func (c *Stream) Sign() flight.Batch {
	h := c.next
	h.Head = flight.Keccak256(h.PrevHead[:], []byte(h.Stream))
	h.Root = merkle.Leaf(h.Head)
	c.next.Index, c.next.FromSeq, c.next.ToSeq, c.next.PrevHead = h.Index+1, h.FromSeq+1, h.ToSeq+1, h.Head
	return h.Sign(c.key, flight.EIP712)
}

// Bodies draws n keys, each with a stream of per signed batches, as the bodies of
// requests. bodies[i] are to be sent in order.
func Bodies(n, per int, createdAt uint64) (bodies [][][]byte, batches []flight.Batch, err error) {
	for range n {
		key, err := flight.NewKey()
		if err != nil {
			return nil, nil, err
		}
		s := NewStream(key, "load", createdAt)
		mine := make([][]byte, per)
		for i := range mine {
			b := s.Sign()
			if mine[i], err = json.Marshal(b); err != nil {
				return nil, nil, err
			}
			batches = append(batches, b)
		}
		bodies = append(bodies, mine)
	}
	return bodies, batches, nil
}
