package store

import (
	"context"
	"encoding/json"

	"karatum/flight"
)

// A StepVerdict is a verdict on a stored step's claim, with what is shown beside
// the rating (spec section 8).
type StepVerdict struct {
	StepHash         flight.Hash
	At               uint64 // unix ms
	Verdict          flight.Verdict
	BlockNumber      uint64
	BlockHash        flight.Hash // zero where there is no block
	Final            bool
	Self, Zero, Late bool
	Counterparty     *flight.Address
}

// A Tally counts the distinct transactions of a key by outcome. One contradicted
// record makes a transaction contradicted, else one confirmed record confirmed.
type Tally struct {
	Confirmed, Contradicted, Unverifiable uint64
	Self, Zero, Late                      uint64 // of any outcome
	Counterparties                        uint64 // distinct addresses named
}

// A KindTally is the tally of one claim kind, or of all where Kind is empty, on
// the dev chain or on the public ones.
type KindTally struct {
	Dev  bool
	Kind string
	Tally
}

// Tallies returns the tallies of a key: for each kind that it claimed and for all
// together. An unknown key has none.
func (r *ReadTx) Tallies(ctx context.Context, agent flight.Address) ([]KindTally, error) {
	return list(ctx, r, func(s scanner) (t KindTally, err error) {
		err = s.Scan(flag(&t.Dev), &t.Kind, num(&t.Confirmed), num(&t.Contradicted), num(&t.Unverifiable),
			num(&t.Self), num(&t.Zero), num(&t.Late), num(&t.Counterparties))
		return t, err
	}, `SELECT dev, kind, confirmed, contradicted, unverifiable, self_transfer, zero_amount, late, counterparties
		FROM tally WHERE agent_id = (SELECT id FROM agent WHERE address = ?) ORDER BY dev, kind`, agent[:])
}

// A vote is what one step says of its transaction: what SetVerdict takes back and
// gives anew.
type vote struct {
	agent, chainID uint64
	tx             flight.Hash
	kind           string
	state          flight.State
	self, zero     bool
	late           bool
	party          *flight.Address
}

// SetVerdict replaces a step's verdict and moves the counts of its key with it,
// in constant time. The error is [ErrNotFound] where the step is not stored.
func (tx *Tx) SetVerdict(ctx context.Context, v StepVerdict) error {
	s, err := tx.Step(ctx, v.StepHash)
	if err != nil {
		return err
	}
	checks := v.Verdict.Checks
	if checks == nil {
		checks = []flight.VerdictCheck{}
	}
	doc, err := json.Marshal(checks)
	if err != nil {
		return err
	}
	var number, hash, party any
	if !v.BlockHash.IsZero() {
		number, hash = v.BlockNumber, v.BlockHash[:]
	}
	if v.Counterparty != nil {
		party = v.Counterparty[:]
	}
	err = tx.must(`UPDATE step SET state = ?, reason = ?, checks = ?, checked_at = ?, final = ?, self_transfer = ?, zero_amount = ?, late = ?,
		block_number = ?, block_hash = ?, counterparty = ? WHERE id = ?`, string(v.Verdict.State), v.Verdict.Reason, doc, v.At,
		v.Final, v.Self, v.Zero, v.Late, number, hash, party, s.id)
	if err != nil || s.TxHash == nil || s.ClaimKind == "" {
		return err
	}
	agent, err := tx.w.agent(ctx, s.Agent)
	if err != nil {
		return err
	}
	base := vote{agent: agent.id, chainID: s.ChainID, tx: *s.TxHash}
	for _, kind := range []string{"", s.ClaimKind} {
		was, is := base, base
		was.kind, is.kind = kind, kind
		was.state, was.self, was.zero, was.late, was.party = s.Verdict.State, s.Self, s.Zero, s.Late, s.Counterparty
		is.state, is.self, is.zero, is.late, is.party = v.Verdict.State, v.Self, v.Zero, v.Late, v.Counterparty
		if s.CheckedAt == 0 { // it has not voted yet
			was.state, was.self, was.zero, was.late, was.party = "", false, false, false, nil
		}
		if err := tx.moveVote(ctx, was, is); err != nil {
			return err
		}
	}
	return nil
}

// votes are the counts of a claim_tx row.
type votes struct{ confirmed, contradicted, unverifiable, self, zero, late int64 }

func (n *votes) add(v vote, by int64) {
	switch v.state {
	case flight.Confirmed:
		n.confirmed += by
	case flight.Contradicted:
		n.contradicted += by
	case flight.Unverifiable:
		n.unverifiable += by
	}
	for _, m := range []struct {
		set bool
		dst *int64
	}{{v.self, &n.self}, {v.zero, &n.zero}, {v.late, &n.late}} {
		if m.set {
			*m.dst += by
		}
	}
}

// outcome returns the row of tally that the votes come to: ones and zeros.
func (n votes) outcome() (t [6]int64) {
	switch {
	case n.contradicted > 0:
		t[1] = 1
	case n.confirmed > 0:
		t[0] = 1
	case n.unverifiable > 0:
		t[2] = 1
	}
	for i, c := range []int64{n.self, n.zero, n.late} {
		t[3+i] = min(c, 1)
	}
	return t
}

// moveVote takes was back and counts is, in claim_tx, tally and counterparty.
func (tx *Tx) moveVote(ctx context.Context, was, is vote) error {
	var n votes
	err := tx.each(ctx, func(s scanner) error {
		return s.Scan(&n.confirmed, &n.contradicted, &n.unverifiable, &n.self, &n.zero, &n.late)
	}, `SELECT confirmed, contradicted, unverifiable, self_transfer, zero_amount, late FROM claim_tx
		WHERE agent_id = ? AND chain_id = ? AND tx_hash = ? AND kind = ?`, is.agent, is.chainID, is.tx[:], is.kind)
	if err != nil {
		return err
	}
	before := n.outcome()
	n.add(was, -1)
	n.add(is, 1)
	_, err = tx.exec(`INSERT INTO claim_tx VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET confirmed = excluded.confirmed, contradicted = excluded.contradicted, unverifiable = excluded.unverifiable,
		self_transfer = excluded.self_transfer, zero_amount = excluded.zero_amount, late = excluded.late`,
		is.agent, is.chainID, is.tx[:], is.kind, n.confirmed, n.contradicted, n.unverifiable, n.self, n.zero, n.late)
	if err != nil {
		return err
	}
	parties, err := tx.moveParty(is, was.party, is.party)
	if err != nil {
		return err
	}
	return tx.moveTally(is, before, n.outcome(), parties)
}

func (tx *Tx) moveTally(v vote, before, after [6]int64, parties int64) error {
	if before == after && parties == 0 {
		return nil
	}
	var d [6]any
	for i := range d {
		d[i] = after[i] - before[i]
	}
	_, err := tx.exec(`INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET confirmed = confirmed + excluded.confirmed, contradicted = contradicted + excluded.contradicted,
		unverifiable = unverifiable + excluded.unverifiable, self_transfer = self_transfer + excluded.self_transfer,
		zero_amount = zero_amount + excluded.zero_amount, late = late + excluded.late, counterparties = counterparties + excluded.counterparties`,
		append([]any{v.agent, v.chainID == DevChain, v.kind}, append(d[:], parties)...)...)
	return err
}

// moveParty counts the steps that name a counterparty and returns by how much the
// number of distinct ones changed.
func (tx *Tx) moveParty(v vote, was, is *flight.Address) (change int64, err error) {
	if was == is || was != nil && is != nil && *was == *is {
		return 0, nil
	}
	key := []any{v.agent, v.chainID == DevChain, v.kind}
	if was != nil {
		if err := tx.must(`UPDATE counterparty SET steps = steps - 1 WHERE agent_id = ? AND dev = ? AND kind = ? AND address = ?`,
			append(key, was[:])...); err != nil {
			return 0, err
		}
		gone, err := tx.exec(`DELETE FROM counterparty WHERE agent_id = ? AND dev = ? AND kind = ? AND address = ? AND steps = 0`,
			append(key, was[:])...)
		if err != nil {
			return 0, err
		}
		change -= gone
	}
	if is != nil {
		fresh, err := tx.exec(`INSERT INTO counterparty VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING`, append(key, is[:])...)
		if err != nil {
			return 0, err
		}
		change += fresh
		err = tx.must(`UPDATE counterparty SET steps = steps + 1 WHERE agent_id = ? AND dev = ? AND kind = ? AND address = ?`,
			append(key, is[:])...)
		if err != nil {
			return 0, err
		}
	}
	return change, nil
}
