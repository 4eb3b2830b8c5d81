package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"

	"karatum/flight"
)

// A Step is an opened step with what is kept of it and the verdict on its claim.
type Step struct {
	id        uint64
	Hash      flight.Hash
	BatchID   flight.Hash
	Position  uint64 // of the batch; set by the store
	Agent     flight.Address
	Stream    string
	Seq       uint64
	At        uint64          // unix ms, as recorded by the agent
	OpenedAt  uint64          // unix ms; set by the store
	Opened    []string        // which of flight.Fields were opened at least once
	Record    json.RawMessage // canonical JSON of the step
	Proof     json.RawMessage // its Merkle proof in the batch
	ChainID   uint64          // with TxHash
	TxHash    *flight.Hash
	ClaimKind string                     // empty where no claim was opened
	Claim     json.RawMessage            // {salt, value}; empty where none was opened
	Reveals   map[string]json.RawMessage // published fields, {salt, value}, the claim excepted

	Verdict          flight.Verdict
	CheckedAt        uint64 // unix ms
	Final            bool
	Self, Zero, Late bool
	BlockNumber      uint64 // 0 until mined
	BlockHash        *flight.Hash
	Counterparty     *flight.Address
}

const selectStep = `SELECT t.id, t.hash, b.id, t.position, a.address, s.name, t.seq, t.at, t.opened_at, t.opened, t.record, t.proof,
	t.chain_id, t.tx_hash, t.claim_kind, t.state, t.reason, t.checks, t.checked_at, t.final, t.self_transfer, t.zero_amount, t.late,
	t.block_number, t.block_hash, t.counterparty
	FROM step t CROSS JOIN stream s ON s.id = t.stream_id CROSS JOIN agent a ON a.id = t.agent_id CROSS JOIN batch b ON b.position = t.position`

func scanStep(s scanner) (t Step, err error) {
	var txHash, blockHash flight.Hash
	var counterparty flight.Address
	var hasTx, hasBlock, hasParty bool
	var opened uint64
	var checks []byte
	err = s.Scan(num(&t.id), bytesTo(t.Hash[:]), bytesTo(t.BatchID[:]), num(&t.Position), bytesTo(t.Agent[:]), &t.Stream, num(&t.Seq), num(&t.At),
		num(&t.OpenedAt), num(&opened), (*[]byte)(&t.Record), (*[]byte)(&t.Proof), num(&t.ChainID), present{bytesTo(txHash[:]), &hasTx}, &t.ClaimKind,
		&t.Verdict.State, &t.Verdict.Reason, &checks, num(&t.CheckedAt), flag(&t.Final), flag(&t.Self), flag(&t.Zero), flag(&t.Late),
		num(&t.BlockNumber), present{bytesTo(blockHash[:]), &hasBlock}, present{bytesTo(counterparty[:]), &hasParty})
	if err != nil {
		return t, err
	}
	if hasTx {
		t.TxHash = &txHash
	}
	if hasBlock {
		t.BlockHash = &blockHash
	}
	if hasParty {
		t.Counterparty = &counterparty
	}
	t.Opened = fieldNames(opened)
	return t, json.Unmarshal(checks, &t.Verdict.Checks)
}

// fieldBits and fieldNames turn field names into the bits of step.opened.
func fieldBits(names []string) (bits uint64) {
	for i, f := range flight.Fields {
		if slices.Contains(names, f) {
			bits |= 1 << i
		}
	}
	return bits
}

func fieldNames(bits uint64) []string {
	names := []string{}
	for i, f := range flight.Fields {
		if bits>>i&1 == 1 {
			names = append(names, f)
		}
	}
	return names
}

// Step returns an opened step, or [ErrNotFound].
func (r *ReadTx) Step(ctx context.Context, hash flight.Hash) (Step, error) {
	return r.stepWhere(ctx, ` WHERE t.hash = ?`, hash[:])
}

// StepAt returns the opened step of that number of a stream, or [ErrNotFound].
func (r *ReadTx) StepAt(ctx context.Context, agent flight.Address, stream string, seq uint64) (Step, error) {
	id, err := r.streamID(ctx, agent, stream)
	if err != nil {
		return Step{}, err
	}
	return r.stepWhere(ctx, ` WHERE t.stream_id = ? AND t.seq = ?`, id, seq)
}

func (r *ReadTx) stepWhere(ctx context.Context, where string, args ...any) (Step, error) {
	steps, err := r.steps(ctx, where, args...)
	if err == nil && len(steps) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Step{}, err
	}
	return steps[0], nil
}

// pageBytes bounds what is kept open of the steps of one page, but for one of them:
// a claim may be 1 MiB, and a page holds what it shows in memory several times.
const pageBytes = 1 << 20

// Steps lists the opened steps of a key, the last opened first: all where state is
// empty, else those with that verdict. A page ends early once what is kept open of its
// steps is over 1 MiB. An unknown key is an empty list.
func (r *ReadTx) Steps(ctx context.Context, agent flight.Address, state flight.State, p Page) ([]Step, string, error) {
	below, err := p.below()
	if err != nil {
		return nil, "", err
	}
	where, args := ` WHERE t.agent_id = (SELECT id FROM agent WHERE address = ?)`, []any{agent[:]}
	if state != "" {
		where, args = where+` AND t.state = ?`, append(args, string(state))
	}
	return r.stepPage(ctx, p, func(t Step) string { return cursor(t.id) }, where+` AND t.id < ? ORDER BY t.id DESC LIMIT ?`, append(args, below, p.limit()+1)...)
}

// stepPage reads the steps of a page, of which it asks for one more.
func (r *ReadTx) stepPage(ctx context.Context, p Page, key func(Step) string, where string, args ...any) ([]Step, string, error) {
	rows, err := list(ctx, r, scanStep, selectStep+where, args...)
	if err != nil {
		return nil, "", err
	}
	rows, next := page(rows, p.limit(), key)
	n, err := r.openings(ctx, rows, pageBytes)
	if n < len(rows) {
		rows, next = rows[:n], key(rows[n-1])
	}
	return rows, next, err
}

// StepsWith counts the opened steps of a key with a verdict, up to most.
func (r *ReadTx) StepsWith(ctx context.Context, agent flight.Address, state flight.State, most int) (n uint64, err error) {
	err = r.one(ctx, []any{num(&n)}, `SELECT count(*) FROM (SELECT 1 FROM step WHERE agent_id = (SELECT id FROM agent WHERE address = ?) AND state = ? LIMIT ?)`,
		agent[:], string(state), most)
	return n, err
}

// StreamSteps lists the opened steps of a stream by number. A page ends early as one
// of [ReadTx.Steps] does.
func (r *ReadTx) StreamSteps(ctx context.Context, agent flight.Address, stream string, p Page) ([]Step, string, error) {
	after, err := p.above()
	if err != nil {
		return nil, "", err
	}
	return r.stepPage(ctx, p, func(t Step) string { return cursor(t.Seq) }, ` WHERE t.stream_id = (SELECT id FROM stream WHERE agent_id = (SELECT id FROM agent WHERE address = ?) AND name = ?)
		AND t.seq > ? ORDER BY t.seq LIMIT ?`, agent[:], stream, after, p.limit()+1)
}

// StepsOfTx returns opened steps of all keys that name a transaction, the first opened
// first: at most limit of those after a mark, 0 for the first, and the mark of the
// following ones, 0 where there are none. Anybody can open steps that name the same
// transaction. A part ends early as a page of [ReadTx.Steps] does.
func (r *ReadTx) StepsOfTx(ctx context.Context, chainID uint64, txHash flight.Hash, after uint64, limit int) (steps []Step, next uint64, err error) {
	rows, err := list(ctx, r, scanStep, selectStep+` WHERE t.tx_hash = ? AND t.chain_id = ? AND t.id > ? ORDER BY t.id LIMIT ?`, txHash[:], chainID, after, limit+1)
	if err != nil {
		return nil, 0, err
	}
	steps = rows[:min(len(rows), limit)]
	n, err := r.openings(ctx, steps, pageBytes)
	if steps = steps[:n]; n < len(rows) && n > 0 {
		next = steps[n-1].id
	}
	return steps, next, err
}

// steps reads steps and what is kept open of them.
func (r *ReadTx) steps(ctx context.Context, where string, args ...any) ([]Step, error) {
	steps, err := list(ctx, r, scanStep, selectStep+where, args...)
	if err != nil || len(steps) == 0 {
		return nil, err
	}
	_, err = r.openings(ctx, steps, math.MaxInt)
	return steps, err
}

// errEnough ends a statement whose further rows are not wanted.
var errEnough = errors.New("store: enough")

// openings reads what is kept open of steps, all of them in one statement, and returns
// of how many: those before the first that it came to with more than most bytes read.
func (r *ReadTx) openings(ctx context.Context, steps []Step, most int) (n int, err error) {
	if len(steps) == 0 {
		return 0, nil
	}
	of := make(map[uint64]int, len(steps))
	ids := []byte{'['}
	for i := range steps {
		of[steps[i].id] = i
		ids = strconv.AppendUint(ids, steps[i].id, 10)
		ids = append(ids, ',')
	}
	ids[len(ids)-1] = ']'
	bytes, at := 0, 0 // read, and of which step
	err = r.each(ctx, func(s scanner) error {
		var id uint64
		var field string
		var doc []byte
		if err := s.Scan(num(&id), &field, &doc); err != nil {
			return err
		}
		if of[id] != at && bytes > most {
			n = of[id]
			return errEnough
		}
		at, bytes = of[id], bytes+len(doc)
		steps[at].open(field, doc)
		return nil
	}, `SELECT o.step_id, o.field, o.doc FROM json_each(?) j CROSS JOIN opening o ON o.step_id = j.value`, string(ids)) // json_each keeps the order
	if errors.Is(err, errEnough) {
		return n, nil
	}
	return len(steps), err
}

func (t *Step) open(field string, doc []byte) {
	if field == "claim" {
		t.Claim = doc
		return
	}
	if t.Reveals == nil {
		t.Reveals = map[string]json.RawMessage{}
	}
	t.Reveals[field] = doc
}

// UpsertStep stores a proven step or adds to a stored one: opened fields, the
// claim, published fields. Nothing that is stored is changed or removed. The
// verdict given is that of a claim which is new here. It counts the step as
// opened and the published bytes of its key. The error is [ErrNotFound] where its
// batch is not stored, [ErrConflict] where the stream has another step of that
// number.
func (tx *Tx) UpsertStep(ctx context.Context, t *Step) error {
	old, err := tx.Step(ctx, t.Hash)
	switch {
	case errors.Is(err, ErrNotFound):
		if old, err = tx.insertStep(ctx, t); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if err := tx.must(`UPDATE step SET opened = opened | ? WHERE id = ?`, fieldBits(t.Opened), old.id); err != nil {
			return err
		}
		if len(old.Claim) == 0 && len(t.Claim) > 0 {
			// checked_at 0 says that no verdict of this step is counted yet.
			if err := tx.must(`UPDATE step SET claim_kind = ?, checked_at = 0 WHERE id = ?`, t.ClaimKind, old.id); err != nil {
				return err
			}
			if err := tx.SetVerdict(ctx, StepVerdict{StepHash: t.Hash, At: tx.now, Verdict: t.Verdict}); err != nil {
				return err
			}
		}
	}
	return tx.keep(ctx, old, t)
}

// insertStep makes the row of a step that is new, with nothing kept open yet.
func (tx *Tx) insertStep(ctx context.Context, t *Step) (Step, error) {
	b, err := tx.Batch(ctx, t.BatchID)
	if err != nil {
		return Step{}, err
	}
	stream, err := tx.streamID(ctx, t.Agent, t.Stream)
	if err != nil {
		return Step{}, err
	}
	a, err := tx.touchAgent(ctx, t.Agent)
	if err != nil {
		return Step{}, err
	}
	first := flight.Unverified(flight.NoClaim)
	checks, err := json.Marshal(first.Checks)
	if err != nil {
		return Step{}, err
	}
	var chainID, txHash any
	if t.TxHash != nil {
		chainID, txHash = t.ChainID, t.TxHash[:]
	}
	row := Step{Hash: t.Hash, Agent: t.Agent}
	row.id, err = tx.insert(`INSERT INTO step (hash, agent_id, stream_id, seq, position, at, opened_at, opened, record, proof, chain_id, tx_hash,
		claim_kind, state, reason, checks, checked_at, final, self_transfer, zero_amount, late)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0)`,
		t.Hash[:], a.id, stream, t.Seq, b.Position, t.At, tx.now, fieldBits(t.Opened), []byte(t.Record), []byte(t.Proof), chainID, txHash,
		t.ClaimKind, string(first.State), first.Reason, checks, 0)
	if err != nil {
		return Step{}, err
	}
	if err := tx.addCommitments(row.id, t.Record); err != nil {
		return Step{}, err
	}
	if len(t.Opened) > 0 {
		a.opened++
		a.spoil(&tx.w.group)
	}
	return row, tx.SetVerdict(ctx, StepVerdict{StepHash: t.Hash, At: tx.now, Verdict: t.Verdict})
}

// keep stores the fields of t that old does not have.
func (tx *Tx) keep(ctx context.Context, old Step, t *Step) error {
	fresh := map[string][]byte{}
	if len(t.Claim) > 0 && len(old.Claim) == 0 {
		fresh["claim"] = t.Claim
	}
	published := uint64(0)
	for field, doc := range t.Reveals {
		if _, ok := old.Reveals[field]; !ok {
			fresh[field] = doc
			published += uint64(len(doc))
		}
	}
	for field, doc := range fresh {
		tx.w.group.bytes += len(doc)
		if _, err := tx.exec(`INSERT INTO opening (step_id, field, doc, at) VALUES (?, ?, ?, ?)`, old.id, field, doc, tx.now); err != nil {
			return err
		}
	}
	if published == 0 {
		return nil
	}
	a, err := tx.touchAgent(ctx, t.Agent)
	if err != nil {
		return err
	}
	a.revealBytes, a.revealDay = a.revealedOn(tx.day())+published, tx.day()
	return nil
}

const dayMs = 24 * 60 * 60 * 1000

func (tx *Tx) day() uint64 { return tx.now / dayMs }

func (a *agentRow) revealedOn(day uint64) uint64 {
	if a.revealDay != day {
		return 0
	}
	return a.revealBytes
}

// RevealBytesToday returns the bytes that a key has published today (UTC).
// Deleting reveals gives nothing back.
func (tx *Tx) RevealBytesToday(ctx context.Context, agent flight.Address) (uint64, error) {
	a, err := tx.w.agent(ctx, agent)
	if err != nil {
		return 0, err
	}
	return a.revealedOn(tx.day()), nil
}

// DeleteReveals removes the published fields of a step, its claim excepted, or
// returns [ErrNotFound]. SQLite overwrites what it frees only in part: the bytes
// may stay in the file until it is reused.
func (tx *Tx) DeleteReveals(ctx context.Context, hash flight.Hash) error {
	t, err := tx.Step(ctx, hash)
	if err != nil {
		return err
	}
	_, err = tx.exec(`DELETE FROM opening WHERE step_id = ? AND field <> 'claim'`, t.id)
	return err
}
