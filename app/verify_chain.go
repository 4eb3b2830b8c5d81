package app

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/eas"
	"karatum/flight"
)

// checkChain compares the anchor and the claim with the chains that the RPCs
// serve. An RPC is taken at its word; a doubter asks another one.
func (v *verification) checkChain() {
	served, ok := v.serving()
	if !ok {
		return
	}
	if p := v.parts.proof; p != nil {
		if c := served[p.Anchor.ChainID]; c != nil {
			v.checkAnchor(c)
		} else {
			v.undecided(CheckAnchorTx, "the anchor was not checked against chain %d", p.Anchor.ChainID)
		}
	}
	if s := v.claimStep(); s != nil {
		if c := served[*s.ChainID]; c != nil {
			v.checkOutcome(c)
		} else {
			v.undecided(CheckOutcome, "the claim was not compared with chain %d", *s.ChainID)
		}
	}
}

// serving asks each RPC which chain it serves.
func (v *verification) serving() (served map[uint64]VerifyChain, ok bool) {
	served = map[uint64]VerifyChain{}
	for _, c := range v.opts.Chains {
		id, err := c.ChainID(v.ctx)
		if outage(err) {
			v.undecided(CheckChainID, unasked, err)
			continue
		}
		if err != nil {
			v.fail(CheckChainID, "%s", err)
			return nil, false
		}
		served[id] = c
		v.pass(CheckChainID, "the RPC serves chain %d%s", id, chainNote(id))
	}
	return served, true
}

// unasked is said of an RPC that could not be asked, with the reason.
const unasked = "the RPC says nothing of the chain: %s"

// outage reports an error of an RPC that neither shows a thing nor its absence, so that
// nobody takes a node that is down for a record that is forged.
func outage(err error) bool {
	for _, silent := range []error{chain.ErrUnavailable, chain.ErrTimeout, chain.ErrRateLimited, chain.ErrMalformed, chain.ErrIndexing, chain.ErrPruned, chain.ErrRPC} {
		if errors.Is(err, silent) {
			return true
		}
	}
	return false
}

func chainNote(id uint64) string {
	if n, err := eas.NetworkByChainID(id); err == nil && !n.Public {
		return ", a private dev chain that its owner can rewrite"
	}
	return ""
}

// claimStep returns the step whose claim a chain can decide, or nil.
func (v *verification) claimStep() *flight.Step {
	if v.claim == nil || v.claim.Claim == nil || v.claim.Step.TxHash == nil {
		return nil
	}
	return &v.claim.Step
}

// checkAnchor compares the anchoring transaction with the calldata rebuilt from
// root and count, and names who sent it (spec section 7).
func (v *verification) checkAnchor(c VerifyChain) {
	p := v.parts.proof
	if p.Anchor.TxHash == nil {
		v.fail(CheckAnchorTx, "the document names no anchoring transaction")
		return
	}
	net, err := eas.NetworkByChainID(p.Anchor.ChainID)
	if err != nil {
		v.fail(CheckAnchorTo, "%s", err)
		return
	}
	tx, rc, err := v.mined(c, *p.Anchor.TxHash)
	if outage(err) {
		v.undecided(CheckAnchorTx, unasked, err)
		return
	}
	if err != nil {
		v.fail(CheckAnchorTx, "%s: %s", p.Anchor.TxHash, err)
		return
	}
	v.pass(CheckAnchorTx, "%s is in block %d%s", p.Anchor.TxHash, rc.BlockNumber, v.blockTime(c, rc.BlockNumber))
	v.checkEqual(CheckAnchorStatus, rc.Status == 1, "the transaction succeeded", "the transaction was reverted")
	v.checkEqual(CheckAnchorTo, tx.To != nil && *tx.To == net.EAS && p.Anchor.EAS == flight.Address(net.EAS),
		"it called EAS of "+net.Name, "it did not call EAS of "+net.Name+" at "+flight.Address(net.EAS).String())
	v.checkInput(tx, p)
	v.checkAttester(flight.Address(tx.From))
}

func (v *verification) checkEqual(code flight.CheckCode, ok bool, fine, fault string) {
	if ok {
		v.pass(code, "%s", fine)
		return
	}
	v.fail(code, "%s", fault)
}

func (v *verification) checkInput(tx chain.Tx, p *BatchProofView) {
	if p.Epoch.BatchCount == 0 || p.Epoch.BatchCount > flight.MaxEpoch {
		v.fail(CheckAnchorInput, "an epoch has 1 to %d batches, not %d", flight.MaxEpoch, p.Epoch.BatchCount)
		return
	}
	want := eas.Epoch{Root: p.Epoch.Root, Count: uint32(p.Epoch.BatchCount), Spec: eas.SpecV1}
	v.checkEqual(CheckAnchorInput, bytes.Equal(tx.Input, want.Calldata()),
		fmt.Sprintf("its input is byte for byte the attestation of root %s over %d batches", p.Epoch.Root, p.Epoch.BatchCount),
		"its input is not the attestation of this root and count")
}

func (v *verification) checkAttester(from flight.Address) {
	switch want := v.opts.Attester; {
	case want == nil:
		v.undecided(CheckAttester, "unpinned attester %s, and anyone can attest: say with --attester whom you expect", from)
	case *want != from:
		v.fail(CheckAttester, "attested by %s, not by %s", from, want)
	default:
		v.pass(CheckAttester, "attested by %s, as expected", from)
	}
}

// checkOutcome compares the opened claim with its transaction (spec section 8).
func (v *verification) checkOutcome(c VerifyChain) {
	s := &v.claim.Step
	tx, rc, err := v.mined(c, *s.TxHash)
	if errors.Is(err, chain.ErrNotFound) {
		v.undecided(CheckOutcome, "the claim is unverifiable: transaction %s is not mined", s.TxHash)
		return
	}
	if outage(err) {
		v.undecided(CheckOutcome, unasked, err)
		return
	}
	if err != nil {
		v.fail(CheckOutcome, "%s: %s", s.TxHash, err)
		return
	}
	verdict := flight.Evaluate(*v.claim.Claim, s.Agent, mined(tx, rc))
	for _, c := range verdict.Checks {
		if !c.Pass {
			v.fail(CheckOutcome, "contradicted: %s: claimed %s, the chain has %s", c.Name, c.Want, c.Got)
			return
		}
	}
	v.pass(CheckOutcome, "confirmed: %s", v.claim.Claim.Kind)
}

// mined returns a transaction and its receipt. An error wraps [chain.ErrNotFound]
// where either is missing.
func (v *verification) mined(c VerifyChain, hash flight.Hash) (chain.Tx, chain.Receipt, error) {
	tx, err := c.TransactionByHash(v.ctx, common.Hash(hash))
	if err != nil {
		return tx, chain.Receipt{}, err
	}
	if !tx.Mined {
		return tx, chain.Receipt{}, fmt.Errorf("it is pending: %w", chain.ErrNotFound)
	}
	rc, err := c.TransactionReceipt(v.ctx, common.Hash(hash))
	if err == nil && (rc.BlockHash != tx.BlockHash || rc.From != tx.From) {
		err = errors.New("transaction and receipt disagree; its block may just have been replaced")
	}
	return tx, rc, err
}

func (v *verification) blockTime(c VerifyChain, number uint64) string {
	h, err := c.HeaderByNumber(v.ctx, number)
	if err != nil {
		return ""
	}
	return ", made at " + utc(int64(h.Time)) + ": what it anchors is no younger"
}
