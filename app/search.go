package app

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"karatum/flight"
	"karatum/store"
)

// Kinds of things that a search finds, in the order in which they are listed.
const (
	FoundAgent      = "agent"
	FoundNode       = "node" // a key of this node
	FoundStream     = "stream"
	FoundBatch      = "batch"
	FoundStep       = "step"        // by its hash, or by its place
	FoundTx         = "transaction" // that a step names
	FoundCommitment = "commitment"  // that a step holds
	FoundEpoch      = "epoch"       // by its root or number
	FoundAnchor     = "anchor"      // an epoch, by a transaction sent for it
)

// Bounds of a search.
const (
	minPrefix  = 6   // hex digits from which a prefix is looked for
	foundEach  = 20  // of one kind
	maxSearch  = 256 // bytes of the text
	addressHex = 2 * len(flight.Address{})
	hashHex    = 2 * len(flight.Hash{})
)

// SearchView is what a text names here.
type SearchView struct {
	Query string `json:"query"`
	// Tried are the kinds of things that the text could name by its form.
	Tried []string    `json:"tried"`
	Hits  []SearchHit `json:"hits"`
	More  bool        `json:"more"` // there are hits beyond those that are listed
}

// A SearchHit is one thing. ID is the whole of what the text is part of; the other
// fields say where the thing is, and those that its kind lacks are absent.
type SearchHit struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Agent   *flight.Address `json:"agent,omitempty"`
	Stream  string          `json:"stream,omitempty"`
	Index   *uint64         `json:"index,omitempty"` // of a batch
	Seq     *uint64         `json:"seq,omitempty"`
	Epoch   *uint64         `json:"epoch,omitempty"`
	ChainID *uint64         `json:"chainId,omitempty"`
}

// A search is a text in the making of its view.
type search struct {
	a   *App
	ctx context.Context
	tx  *store.ReadTx
	v   *SearchView
}

// Search finds what a text names: a whole address or hash, six or more of its first
// digits, in either case, with spaces in it or without 0x, the number of an epoch, or
// the place of a stream or step as ADDRESS/STREAM and ADDRESS/STREAM/SEQ. Each kind is
// one look-up in an index.
func (a *App) Search(ctx context.Context, text string) (SearchView, error) {
	v := SearchView{Query: text, Tried: []string{}, Hits: []SearchHit{}}
	err := a.view(ctx, nil, func(tx *store.ReadTx) error {
		v.Tried, v.Hits, v.More = []string{}, []SearchHit{}, false
		s := &search{a, ctx, tx, &v}
		return s.run(text)
	})
	return v, err
}

func (s *search) run(text string) error {
	text = strings.TrimSpace(text)
	if len(text) > maxSearch {
		return nil // it names nothing
	}
	if address, place, ok := strings.Cut(text, "/"); ok {
		return s.place(address, place)
	}
	digits := hexDigits(text)
	if id, err := strconv.ParseUint(digits, 10, 53); err == nil && digits == text {
		if err := s.epoch(id); err != nil {
			return err
		}
	}
	if len(digits) < minPrefix || len(digits) > hashHex {
		return nil
	}
	if len(digits) <= addressHex {
		if err := s.addresses(digits); err != nil {
			return err
		}
	}
	if len(digits) != addressHex { // a whole address is not meant as the beginning of a hash
		return s.hashes(digits)
	}
	return nil
}

// hexDigits returns the digits of a text in lower case, "" where it is no hex.
func hexDigits(text string) string {
	digits := strings.TrimPrefix(strings.ToLower(strings.Join(strings.Fields(text), "")), "0x")
	if strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return digits
}

// pad fills a prefix up to n digits, with the lowest ones or the highest.
func pad(digits string, n int, with string) string {
	return "0x" + digits + strings.Repeat(with, n-len(digits))
}

func (s *search) tried(kinds ...string) {
	for _, k := range kinds {
		if !slices.Contains(s.v.Tried, k) {
			s.v.Tried = append(s.v.Tried, k)
		}
	}
}

// add appends the hits of one kind, of which one more than foundEach was asked for.
func add[T any](s *search, rows []T, err error, hit func(*T) SearchHit) error {
	if err != nil {
		return err
	}
	if len(rows) > foundEach {
		rows, s.v.More = rows[:foundEach], true
	}
	for i := range rows {
		s.v.Hits = append(s.v.Hits, hit(&rows[i]))
	}
	return nil
}

func (s *search) addresses(digits string) error {
	s.tried(FoundAgent, FoundNode)
	low, err := flight.ParseAddress(pad(digits, addressHex, "0"))
	if err != nil {
		return err
	}
	high, err := flight.ParseAddress(pad(digits, addressHex, "f"))
	if err != nil {
		return err
	}
	agents, err := s.tx.AgentsIn(s.ctx, low, high, foundEach+1)
	if err := add(s, agents, err, func(a *store.Agent) SearchHit {
		return SearchHit{Kind: FoundAgent, ID: a.Address.String(), Agent: &a.Address}
	}); err != nil {
		return err
	}
	own := []flight.Address{s.a.keys.Receipt.Address(), s.a.keys.Anchor.Address()}
	own = slices.DeleteFunc(slices.Compact(own), func(a flight.Address) bool { return !strings.HasPrefix(a.String()[2:], digits) })
	return add(s, own, nil, func(a *flight.Address) SearchHit { return SearchHit{Kind: FoundNode, ID: a.String()} })
}

func (s *search) hashes(digits string) error {
	s.tried(FoundBatch, FoundStep, FoundTx, FoundCommitment, FoundEpoch, FoundAnchor)
	var h store.HashRange
	var errs [2]error
	h.Low, errs[0] = flight.ParseHash(pad(digits, hashHex, "0"))
	h.High, errs[1] = flight.ParseHash(pad(digits, hashHex, "f"))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for _, find := range []func(store.HashRange) error{s.batches, s.steps, s.transactions, s.commitments, s.roots, s.anchors} {
		if err := find(h); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) batches(h store.HashRange) error {
	rows, err := s.tx.BatchesIn(s.ctx, h, foundEach+1)
	return add(s, rows, err, func(b *store.Batch) SearchHit {
		at := &b.Batch.Header
		return SearchHit{Kind: FoundBatch, ID: b.ID.String(), Agent: &at.Agent, Stream: at.Stream, Index: &at.Index}
	})
}

func stepHit(kind, id string, t *store.Step) SearchHit {
	hit := SearchHit{Kind: kind, ID: id, Agent: &t.Agent, Stream: t.Stream, Seq: &t.Seq}
	if t.TxHash != nil {
		hit.ChainID = &t.ChainID
	}
	return hit
}

func (s *search) steps(h store.HashRange) error {
	rows, err := s.tx.StepsIn(s.ctx, h, foundEach+1)
	return add(s, rows, err, func(t *store.Step) SearchHit { return stepHit(FoundStep, t.Hash.String(), t) })
}

func (s *search) transactions(h store.HashRange) error {
	rows, err := s.tx.StepsOfTxIn(s.ctx, h, foundEach+1)
	return add(s, rows, err, func(t *store.Step) SearchHit { return stepHit(FoundTx, t.TxHash.String(), t) })
}

func (s *search) commitments(h store.HashRange) error {
	rows, found, err := s.tx.StepsOfCommitment(s.ctx, h, foundEach+1)
	i := -1
	return add(s, rows, err, func(t *store.Step) SearchHit {
		i++
		return stepHit(FoundCommitment, found[i].String(), t)
	})
}

func (s *search) roots(h store.HashRange) error {
	rows, err := s.tx.EpochsIn(s.ctx, h, foundEach+1)
	return add(s, rows, err, func(e *store.Epoch) SearchHit {
		return SearchHit{Kind: FoundEpoch, ID: e.Root.String(), Epoch: &e.ID, ChainID: &e.ChainID}
	})
}

func (s *search) anchors(h store.HashRange) error {
	rows, err := s.tx.EpochTxsIn(s.ctx, h, foundEach+1)
	return add(s, rows, err, func(t *store.EpochTx) SearchHit {
		return SearchHit{Kind: FoundAnchor, ID: t.Hash.String(), Epoch: &t.EpochID, ChainID: &t.ChainID}
	})
}

// epoch finds an epoch by its number.
func (s *search) epoch(id uint64) error {
	s.tried(FoundEpoch)
	e, err := s.tx.Epoch(s.ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return add(s, []store.Epoch{e}, err, func(e *store.Epoch) SearchHit {
		return SearchHit{Kind: FoundEpoch, ID: e.Root.String(), Epoch: &e.ID, ChainID: &e.ChainID}
	})
}

// place finds a stream of an agent, or a step in it.
func (s *search) place(address, place string) error {
	agent, err := flight.ParseAddress("0x" + hexDigits(address))
	if err != nil {
		return nil
	}
	s.tried(FoundStream)
	stream, number, isStep := strings.Cut(place, "/")
	if !isStep {
		row, err := s.tx.Stream(s.ctx, agent, stream)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return add(s, []store.Stream{row}, err, func(r *store.Stream) SearchHit {
			return SearchHit{Kind: FoundStream, ID: agent.String(), Agent: &agent, Stream: r.Name}
		})
	}
	s.tried(FoundStep)
	seq, err := strconv.ParseUint(number, 10, 53)
	if err != nil {
		return nil
	}
	row, err := s.tx.StepAt(s.ctx, agent, stream, seq)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return add(s, []store.Step{row}, err, func(t *store.Step) SearchHit { return stepHit(FoundStep, t.Hash.String(), t) })
}
