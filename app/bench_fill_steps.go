package app

import (
	"context"
	"encoding/json"
	"math/big"

	"karatum/chain/replay"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
	"karatum/store"
)

// fillSteps is how many steps a batch has of which some are opened, fillOpen how
// many those are.
const (
	fillSteps = 16
	fillOpen  = 4
)

// publicChain is the other chain of a filled database: Base Sepolia.
const publicChain = 84532

// A fillClaim is an opened step: what is revealed of it, and what the chain has.
type fillClaim struct {
	step    int // of the batch
	reveal  []flight.Opening
	publish bool
	claim   *flight.Claim // nil where none is opened, or of a kind unknown here
	tx      *flight.Tx    // nil where the chain does not have it
	block   uint64
	late    bool
	replay  bool
}

// A fillStep is an opened step as it is stored.
type fillStep struct {
	row     *store.Step
	verdict store.StepVerdict
	judged  bool
	replay  []byte
	outline []byte // of the replay
}

// record chains the steps of a batch, of which every fourth or so is opened, and
// completes its header.
func (f *fill) record(row *fillRow, now uint64) error {
	h := &row.header
	prev := h.PrevHead
	hashes := make([]flight.Hash, fillSteps)
	row.steps = make([]flight.Step, fillSteps)
	opened := f.rng.IntN(fillSteps / fillOpen)
	for i := range row.steps {
		args, result := fillHash(f.rng), fillHash(f.rng)
		s := &row.steps[i]
		*s = flight.Step{Agent: h.Agent, Stream: h.Stream, Seq: h.FromSeq + uint64(i), Prev: prev, At: now - uint64(fillSteps-i)*1000,
			Kind: "tool", Status: "ok", Name: "search", Args: &args, Result: &result}
		if i%(fillSteps/fillOpen) == opened && f.opens < f.steps {
			f.opens++
			c, err := f.open(s, i)
			if err != nil {
				return err
			}
			row.open = append(row.open, c)
		}
		prev = s.Hash()
		hashes[i] = prev
	}
	h.Head = prev
	var err error
	h.Root, err = merkle.Root(hashes)
	return err
}

// open commits a step to what will be opened of it: a payment in four of five.
func (f *fill) open(s *flight.Step, i int) (fillClaim, error) {
	c := fillClaim{step: i}
	if f.rng.IntN(5) == 0 {
		c.publish = true
		return c, c.commit(f, s, "args", canon.Str(benchText(100+f.rng.IntN(500))), "result", canon.Str(benchText(100+f.rng.IntN(900))))
	}
	hash, chainID := fillHash(f.rng), uint64(store.DevChain)
	if f.rng.IntN(2) == 0 {
		chainID = publicChain
	}
	s.Kind, s.Name, s.TxHash, s.ChainID = "tx", "pay", &hash, &chainID
	if f.rng.IntN(20) == 0 {
		return c, c.commit(f, s, "claim", canon.Obj(canon.Member{Key: "kind", Value: canon.Str("weather.v1")}))
	}
	c.claim = f.claim(s.Agent)
	c.block, c.late, c.replay = 1000+uint64(f.opens), f.rng.IntN(50) == 0, f.rng.IntN(20) == 0
	if fate := f.rng.IntN(100); fate < 90 {
		c.tx = fillTx(c.claim, s.Agent, fate < 84)
	}
	return c, c.commit(f, s, "claim", c.claim.Value())
}

// commit sets the commitments of fields, given as name and value in turns.
func (c *fillClaim) commit(f *fill, s *flight.Step, fields ...any) error {
	for i := 0; i < len(fields); i += 2 {
		o := flight.Opening{Field: fields[i].(string), Salt: fillHash(f.rng), Value: fields[i+1].(canon.Value)}
		h, err := flight.CommitValue(o.Value, o.Salt)
		if err != nil {
			return err
		}
		switch o.Field {
		case "args":
			s.Args = &h
		case "result":
			s.Result = &h
		default:
			s.Claim = &h
		}
		c.reveal = append(c.reveal, o)
	}
	return nil
}

func (f *fill) claim(agent flight.Address) *flight.Claim {
	c := &flight.Claim{Kind: flight.ClaimTxSuccess}
	if f.rng.IntN(5) == 0 {
		return c
	}
	c.Kind, c.Amount = flight.ClaimNative, big.NewInt(f.rng.Int64N(1<<50))
	party := flight.Keccak256([]byte{byte(f.rng.IntN(256)), byte(f.rng.IntN(4))})
	copy(c.To[:], party[:])
	switch f.rng.IntN(20) {
	case 0:
		c.To = agent
	case 1:
		c.Amount = new(big.Int)
	default:
		if f.rng.IntN(2) == 0 {
			c.Kind, c.Token = flight.ClaimERC20, flight.Address{0x70, byte(f.rng.IntN(8))}
		}
	}
	return c
}

// fillTx is the transaction that the claim is about, or one that contradicts it.
func fillTx(c *flight.Claim, agent flight.Address, honest bool) *flight.Tx {
	tx := &flight.Tx{From: agent, To: &c.To, Value: c.Amount, Success: honest || c.Kind != flight.ClaimTxSuccess}
	if c.Amount == nil {
		return tx
	}
	amount := c.Amount
	if !honest {
		amount = new(big.Int).Add(amount, big.NewInt(1))
	}
	tx.Value = amount
	if c.Kind == flight.ClaimERC20 {
		var from, to flight.Hash
		copy(from[12:], agent[:])
		copy(to[12:], c.To[:])
		tx.To, tx.Value = &c.Token, nil
		tx.Logs = []flight.Log{{Address: c.Token, Data: amount.FillBytes(make([]byte, 32)),
			Topics: []flight.Hash{flight.Keccak256([]byte("Transfer(address,address,uint256)")), from, to}}}
	}
	return tx
}

// prove makes the row of an opened step as the API would, every check included,
// and its verdict.
func (r *fillRow) prove(c *fillClaim, now uint64) (fillStep, error) {
	var s fillStep
	d, err := flight.NewDisclosure(r.batch, r.steps, c.step, c.reveal...)
	if err != nil {
		return s, err
	}
	report := d.Verify()
	if err := report.Err(); err != nil {
		return s, err
	}
	if s.row, err = stepRow(d, report, c.publish); err != nil || c.claim == nil {
		return s, err
	}
	s.judged = true
	s.verdict = store.StepVerdict{StepHash: s.row.Hash, At: now, Verdict: flight.Unverified(flight.TxNotFound)}
	if v := &s.verdict; c.claim.Amount != nil {
		v.Self, v.Zero, v.Counterparty = c.claim.To == r.header.Agent, c.claim.Amount.Sign() == 0, &c.claim.To
	}
	if c.tx == nil {
		return s, nil
	}
	v := &s.verdict
	v.Verdict, v.BlockNumber, v.BlockHash, v.Final, v.Late = flight.Evaluate(*c.claim, r.header.Agent, *c.tx), c.block, flight.Keccak256(s.row.Hash[:]), true, c.late
	if c.replay {
		s.outline, s.replay, err = fillReplay(s.row, c)
	}
	return s, err
}

func fillReplay(row *store.Step, c *fillClaim) (outline, doc []byte, err error) {
	result, err := json.Marshal(replay.Result{
		Reproduced: true, ForkBlock: c.block - 1, BlockHash: [32]byte(row.Hash), Prefix: replay.Full, PrefixCount: 12, Differences: []string{},
		State: "as told by RPC", ConfirmedBy: []string{}, Notes: []string{"the node cannot prove its state"}, ChainID: row.ChainID, Rules: "prague", Trips: 3,
	})
	if err != nil {
		return nil, nil, err
	}
	doc, err = json.Marshal(replayDoc{Result: result, Outcome: *c.tx})
	return result, doc, err
}

func (s *fillStep) write(ctx context.Context, tx *store.Tx) error {
	if err := tx.UpsertStep(ctx, s.row); err != nil || !s.judged {
		return err
	}
	if err := tx.SetVerdict(ctx, s.verdict); err != nil || s.replay == nil {
		return err
	}
	p, err := tx.PutReplay(ctx, s.row.ChainID, *s.row.TxHash, string(replay.Full), s.row.Hash)
	if err != nil {
		return err
	}
	if _, err := tx.StartReplay(ctx); err != nil {
		return err
	}
	return tx.FinishReplay(ctx, p.ID, store.ReplayDone, s.outline, s.replay)
}
