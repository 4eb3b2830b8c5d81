package recorder

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"karatum/flight"
	"karatum/flight/canon"
)

// A Step is what an agent tells the recorder. Prompt, Args, Result and Claim are
// committed to, never published; nil means that the step has none. Values are
// turned into canonical JSON when Record is called, as [canon.From] does; pass
// json.RawMessage("null") to commit to null.
type Step struct {
	Kind   string // tool, llm, tx, message or note
	Name   string // tool or model, at most 128 code points; public
	Status string // ok or error; empty means ok
	Prompt any
	Args   any
	Result any
	Claim  *flight.Claim // what the chain can confirm

	ChainID uint64      // with TxHash
	TxHash  flight.Hash // zero where the step has no transaction

	At time.Time // defaults to now
}

// A Ref says where a step was recorded. A step may later be repeated in a new
// stream ([StreamChange]); the journal finds it under the old Ref too.
type Ref struct {
	Stream string
	Seq    uint64
	Hash   flight.Hash
}

// An opening is one committed field: its salt and its canonical value.
type opening struct {
	field string
	salt  flight.Hash
	value []byte
}

func canonicalOpenings(open []flight.Opening) []opening {
	var out []opening
	for _, o := range open {
		out = append(out, opening{o.Field, o.Salt, canon.Append(nil, o.Value)})
	}
	return out
}

// salts hands out random salts, drawing many at a time.
type salts struct {
	mu sync.Mutex
	r  *bufio.Reader
}

func newSalts() *salts { return &salts{r: bufio.NewReaderSize(rand.Reader, 1024)} }

func (s *salts) draw() (h flight.Hash, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 0; n < len(h) && err == nil; {
		var got int
		got, err = s.r.Read(h[n:])
		n += got
	}
	return h, err
}

// commit turns a Step into a step record, yet without its place in the chain, and
// into what opens it. A step that commits to nothing gets args = commit(null), or
// it could be guessed (spec section 2). The error wraps [ErrStep].
func (s *Step) commit(salt *salts, now time.Time) (flight.Step, []opening, error) {
	rec, err := s.plain(now)
	if err != nil {
		return rec, nil, fmt.Errorf("%w: %w", ErrStep, err)
	}
	values := []any{s.Prompt, s.Args, s.Result, nil}
	if s.Claim != nil {
		if values[3], err = checkedClaim(s.Claim); err != nil {
			return rec, nil, fmt.Errorf("%w: %w", ErrStep, err)
		}
	}
	open := make([]opening, 0, len(values))
	for i, x := range values {
		if x == nil {
			continue
		}
		o := opening{field: flight.Fields[i]}
		if o.value, err = canonical(x); err == nil {
			o.salt, err = salt.draw()
		}
		if err != nil {
			return rec, nil, fmt.Errorf("%w: %s: %w", ErrStep, o.field, err)
		}
		open = append(open, o)
	}
	if len(open) == 0 {
		null := opening{field: "args", value: []byte("null")}
		if null.salt, err = salt.draw(); err != nil {
			return rec, nil, fmt.Errorf("%w: %w", ErrStep, err)
		}
		open = append(open, null)
	}
	for i := range open {
		set(&rec, open[i].field, flight.Commit(open[i].value, open[i].salt))
	}
	return rec, open, nil
}

// plain copies what is public.
func (s *Step) plain(now time.Time) (flight.Step, error) {
	at := s.At
	if at.IsZero() {
		at = now
	}
	if at.UnixMilli() < 0 {
		return flight.Step{}, errors.New("at lies before 1970")
	}
	rec := flight.Step{At: uint64(at.UnixMilli()), Kind: s.Kind, Status: s.Status, Name: s.Name}
	if rec.Status == "" {
		rec.Status = "ok"
	}
	if (s.ChainID == 0) != s.TxHash.IsZero() {
		return rec, errors.New("chainId and txHash come together or not at all")
	}
	if s.ChainID != 0 {
		id, hash := s.ChainID, s.TxHash
		rec.ChainID, rec.TxHash = &id, &hash
	}
	if !utf8.ValidString(s.Name) {
		return rec, errors.New("name is not UTF-8")
	}
	return rec, nil
}

func set(rec *flight.Step, field string, h flight.Hash) {
	switch field {
	case "prompt":
		rec.Prompt = &h
	case "args":
		rec.Args = &h
	case "result":
		rec.Result = &h
	case "claim":
		rec.Claim = &h
	}
}

// checkedClaim returns the claim's value, once it reads back as a claim.
func checkedClaim(c *flight.Claim) (canon.Value, error) {
	v := c.Value()
	if _, err := flight.ParseClaim(v); err != nil {
		return canon.Value{}, err
	}
	return v, nil
}

// canonical returns the canonical bytes of a Go value. A value whose own MarshalJSON
// panics is refused; it must not take the agent down.
func canonical(x any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the value panics while it is read: %v", p)
		}
	}()
	v, err := canon.From(x)
	if err != nil {
		return nil, err
	}
	return v.Canonical()
}
