package recorder

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"karatum/flight"
	"karatum/flight/canon"
)

// Every line of a journal is one JSON object that begins with the CRC-32C of all
// that follows its first comma:
//
//	{"crc":"6d3f0a12","t":"step",…}
//
// Kinds of line: segment (the first of each file: the state that all lines
// before it add up to), step, batch, receipt, refused.
const (
	crcOpen   = `{"crc":"`
	crcClose  = `",`
	crcLen    = len(crcOpen) + 8 + len(crcClose)
	lineDepth = flight.MaxDisclosureDepth
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errLine reports a line whose checksum or content is wrong.
var errLine = errors.New("not a line of a journal")

// startLine begins a line of the kind; the checksum is filled in by endLine.
func startLine(b []byte, kind string) []byte {
	b = append(append(b, crcOpen...), `00000000`...)
	return append(append(append(append(b, crcClose...), `"t":"`...), kind...), '"')
}

// endLine closes the object that starts at from, sets its checksum and ends the
// line.
func endLine(b []byte, from int) []byte {
	b = append(b, '}')
	sum := crc32.Checksum(b[from+crcLen:], castagnoli)
	for i := range 8 {
		b[from+len(crcOpen)+i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return append(b, '\n')
}

// sound reports whether a line, without its newline, has the right checksum.
func sound(line []byte) bool {
	if len(line) <= crcLen || string(line[:len(crcOpen)]) != crcOpen || string(line[crcLen-len(crcClose):crcLen]) != crcClose {
		return false
	}
	var sum uint32
	for _, c := range line[len(crcOpen) : len(crcOpen)+8] {
		n := bytes.IndexByte([]byte("0123456789abcdef"), c)
		if n < 0 {
			return false
		}
		sum = sum<<4 | uint32(n)
	}
	return sum == crc32.Checksum(line[crcLen:], castagnoli)
}

// A cursor is what the lines of a journal add up to so far. It stands at the head
// of every segment, so that opening a journal reads the last file only.
type cursor struct {
	Agent    flight.Address  `json:"agent"`
	Stream   string          `json:"stream"`
	Seq      uint64          `json:"seq"`                // of the next step
	Prev     flight.Hash     `json:"prev"`               // hash of the step before it
	Index    uint64          `json:"index"`              // of the next batch
	From     uint64          `json:"from"`               // first step in no signed batch
	PrevHead flight.Hash     `json:"prevHead"`           // hash of the step before that
	Node     flight.Address  `json:"node,omitzero"`      // signed the last receipt
	Moved    *moved          `json:"moved,omitempty"`    // of the stream
	Inflight json.RawMessage `json:"inflight,omitempty"` // signed batch without a definitive answer, maybe of an earlier stream
}

// moved says that the first Count steps of a stream repeat those from From on of
// the stream that it follows.
type moved struct {
	Stream string `json:"stream"`
	From   uint64 `json:"from"`
	Count  uint64 `json:"count"`
}

type segmentLine struct {
	T     string `json:"t"`
	V     int    `json:"v"`
	N     uint64 `json:"n"` // number of the file
	State cursor `json:"state"`
}

// A record is one parsed line; only the fields of its kind are set.
type record struct {
	kind    string
	n       uint64 // of a segment; of an SDK's receipt the batch's index
	state   cursor
	step    flight.Step
	hash    flight.Hash
	open    []flight.Opening
	body    []byte // the batch as it is sent
	batch   flight.Batch
	receipt flight.Receipt
	batchID flight.Hash // refused
}

func appendSegment(b []byte, n uint64, state cursor) ([]byte, error) {
	from := len(b)
	raw, err := json.Marshal(segmentLine{T: "segment", V: 1, N: n, State: state})
	if err != nil {
		return nil, err
	}
	// The first member of raw is t, which startLine writes.
	b = append(startLine(b, "segment"), raw[len(`{"t":"segment"`):len(raw)-1]...)
	return endLine(b, from), nil
}

// appendStep writes a step with what opens it. Values are canonical JSON.
func appendStep(b []byte, s *flight.Step, hash flight.Hash, open []opening) []byte {
	from := len(b)
	b = hex.AppendEncode(append(startLine(b, "step"), `,"hash":"0x`...), hash[:])
	b = s.Append(append(b, `","step":`...))
	if len(open) > 0 {
		b = append(b, `,"open":{`...)
		for i, o := range open {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), o.field...), `":{"salt":"0x`...)
			b = append(hex.AppendEncode(b, o.salt[:]), `","value":`...)
			b = append(append(b, o.value...), '}')
		}
		b = append(b, '}')
	}
	return endLine(b, from)
}

// appendRaw writes a line with one member of given JSON.
func appendRaw(b []byte, kind, key string, raw []byte) []byte {
	from := len(b)
	b = append(append(append(startLine(b, kind), `,"`...), key...), `":`...)
	return endLine(append(b, raw...), from)
}

// parseLine reads a line, without its newline. The error wraps errLine.
func parseLine(line []byte) (record, error) {
	if !sound(line) {
		return record{}, errLine
	}
	kind, _, ok := bytes.Cut(line[min(len(line), crcLen+len(`"t":"`)):], []byte(`"`))
	if !ok {
		return record{}, errLine
	}
	r := record{kind: string(kind)}
	var err error
	switch r.kind {
	case "segment":
		var s segmentLine
		err = json.Unmarshal(line, &s)
		r.n, r.state = s.N, s.State
		if err == nil && s.V != 1 {
			err = fmt.Errorf("segment version %d is unknown here", s.V)
		}
	case "step":
		err = r.readStep(line)
	case "batch":
		r.body = line[crcLen+len(`"t":"batch","batch":`) : len(line)-1]
		r.batch, err = flight.ParseBatch(r.body)
	case "receipt":
		err = json.Unmarshal(line, &struct {
			Receipt *flight.Receipt `json:"receipt"`
		}{&r.receipt})
	case "refused":
		err = json.Unmarshal(line, &struct {
			BatchID *flight.Hash `json:"batchId"`
		}{&r.batchID})
	default:
		err = fmt.Errorf("unknown kind %q", r.kind)
	}
	if err != nil {
		return record{}, fmt.Errorf("%w: %w", errLine, err)
	}
	return r, nil
}

func (r *record) readStep(line []byte) error {
	v, err := canon.Parse(line, lineDepth)
	if err != nil {
		return err
	}
	return r.stepFrom(v, "open")
}

// stepFrom reads a step line whose openings stand under the key.
func (r *record) stepFrom(v canon.Value, openings string) (err error) {
	hash, _ := v.Get("hash")
	if r.hash, err = flight.ParseHash(hash.Str); err != nil {
		return err
	}
	step, _ := v.Get("step")
	if r.step, err = flight.ParseStep(step); err != nil {
		return err
	}
	if r.step.Hash() != r.hash {
		return errors.New("the step's hash is another")
	}
	open, _ := v.Get(openings)
	for _, m := range open.Obj {
		salt, _ := m.Value.Get("salt")
		o := flight.Opening{Field: m.Key}
		if o.Salt, err = flight.ParseHash(salt.Str); err != nil {
			return err
		}
		o.Value, _ = m.Value.Get("value")
		r.open = append(r.open, o)
	}
	return nil
}

// apply checks that a record follows from the state and advances it.
func (c *cursor) apply(r *record) error {
	switch r.kind {
	case "step":
		s := &r.step
		if s.Agent != c.Agent || s.Stream != c.Stream || s.Seq != c.Seq || s.Prev != c.Prev {
			return fmt.Errorf("%w: step %d does not follow step %d of the chain", errLine, s.Seq, int64(c.Seq)-1)
		}
		c.Seq, c.Prev = c.Seq+1, r.hash
	case "batch":
		h := &r.batch.Header
		if h.Agent != c.Agent || h.Stream != c.Stream || h.Index != c.Index || h.FromSeq != c.From ||
			h.PrevHead != c.PrevHead || h.ToSeq >= c.Seq || c.Inflight != nil {
			return fmt.Errorf("%w: batch %d does not follow from the lines before it", errLine, h.Index)
		}
		c.Index, c.From, c.PrevHead = c.Index+1, h.ToSeq+1, h.Head
		c.Inflight = bytes.Clone(r.body)
	case "receipt", "refused":
		id := r.batchID
		if r.kind == "receipt" {
			id = r.receipt.BatchID
		}
		b, err := flight.ParseBatch(c.Inflight)
		if err != nil || b.ID() != id {
			return fmt.Errorf("%w: an answer to batch %s, which was not sent", errLine, id)
		}
		c.Inflight = nil
		if r.kind == "receipt" {
			c.Node = r.receipt.Node
		}
	default:
		return fmt.Errorf("%w: a %s line in the middle of a file", errLine, r.kind)
	}
	return nil
}
