package app

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"karatum/flight"
)

// fillStreams are the streams of a filled database, by how they are used: one
// agent with most of the batches in one stream, one whose every batch is opened,
// one stream full of gaps, one agent with very many streams, and a long tail of
// agents of which the last have sent once.
type fillStreams struct {
	rng         *rand.Rand
	made        map[int]*fillStream
	many, agent int // streams of the agent with many; agents of the tail
}

// A fillStream is how far a stream has come.
type fillStream struct {
	key         *flight.Key
	name        string
	dense, gaps bool
	index, seq  uint64
	head        flight.Hash
	rng         *rand.Rand
}

// Numbers of the streams that are unlike the others, in fillStreams.made.
const (
	fillHuge = iota
	fillTools
	fillPayments
	fillGaps
	fillMany // the first of many; the tail follows
)

func newFillStreams(rng *rand.Rand, batches int) fillStreams {
	return fillStreams{rng: rng, made: map[int]*fillStream{}, many: max(batches/500, 3), agent: max(batches/100, 10)}
}

// pick draws the stream that the next batch continues.
func (f *fillStreams) pick() (*fillStream, error) {
	switch p := f.rng.Float64(); {
	case p < .30:
		return f.stream(fillHuge, 0, "main")
	case p < .34:
		return f.stream(fillTools, 0, "tools")
	case p < .35:
		return f.stream(fillPayments, 0, "payments")
	case p < .40:
		return f.stream(fillGaps, 1, "radio")
	case p < .45:
		n := f.rng.IntN(f.many)
		return f.stream(fillMany+n, 2, fmt.Sprintf("task-%05d", n))
	}
	const each = 3 // streams of an agent of the tail
	n := int(float64(f.agent) * math.Pow(f.rng.Float64(), 2.5))
	k := f.rng.IntN(1 + n%each)
	return f.stream(fillMany+f.many+n*each+k, 3+n, []string{"main", "trading", "support 2026"}[k])
}

func (f *fillStreams) stream(number, agent int, name string) (*fillStream, error) {
	if s, ok := f.made[number]; ok {
		return s, nil
	}
	secret := flight.Keccak256(binary.BigEndian.AppendUint64([]byte("karatum bench pages"), uint64(agent)))
	key, err := flight.KeyFromBytes(secret[:])
	if err != nil {
		return nil, err
	}
	s := &fillStream{key: key, name: name, dense: number == fillPayments, gaps: number == fillGaps, rng: f.rng}
	f.made[number] = s
	return s, nil
}

// next returns the header of the next batch, of n steps, with the hashes left to
// the caller. A stream with gaps leaves batches out before it, now and then.
func (s *fillStream) next(n int, createdAt uint64) flight.Header {
	if s.gaps && s.index > 0 && s.rng.IntN(20) == 0 {
		lost := 1 + s.rng.Uint64N(3)
		s.index, s.seq, s.head = s.index+lost, s.seq+lost*5, fillHash(s.rng)
	}
	h := flight.Header{
		Agent: s.key.Address(), Stream: s.name, Index: s.index, FromSeq: s.seq, ToSeq: s.seq + uint64(n) - 1, PrevHead: s.head, CreatedAt: createdAt,
	}
	s.index, s.seq = s.index+1, s.seq+uint64(n)
	return h
}

func fillHash(rng *rand.Rand) (h flight.Hash) {
	for i := range 4 {
		binary.BigEndian.PutUint64(h[8*i:], rng.Uint64())
	}
	return h
}
