package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/flight"
)

// The checks that [Verify] adds to those of a disclosure, each a line of its
// report.
const (
	CheckForm          flight.CheckCode = "FORM"           // the document is of a known kind, strictly read
	CheckBatch         flight.CheckCode = "BATCH"          // the batch is possible and its signature recovers to the agent
	CheckReceipt       flight.CheckCode = "RECEIPT"        // the node signed the promise
	CheckSameBatch     flight.CheckCode = "SAME_BATCH"     // all parts speak of one batch
	CheckEpochProof    flight.CheckCode = "EPOCH_PROOF"    // the path from the batchId reaches the epoch's root
	CheckStatementA    flight.CheckCode = "STATEMENT_A"    // the agent signed the first statement
	CheckStatementB    flight.CheckCode = "STATEMENT_B"    // and the second
	CheckContradiction flight.CheckCode = "CONTRADICTION"  // no honest history holds both
	CheckChainID       flight.CheckCode = "CHAIN_ID"       // the RPC serves the chain that the document names
	CheckAnchorTx      flight.CheckCode = "ANCHOR_TX"      // the anchoring transaction is mined
	CheckAnchorStatus  flight.CheckCode = "ANCHOR_STATUS"  // and succeeded
	CheckAnchorTo      flight.CheckCode = "ANCHOR_TO"      // it called that chain's EAS
	CheckAnchorInput   flight.CheckCode = "ANCHOR_INPUT"   // with exactly this root and count
	CheckAttester      flight.CheckCode = "ATTESTER"       // its sender is the one expected
	CheckOutcome       flight.CheckCode = "CLAIM_ON_CHAIN" // the chain shows what the agent claimed
)

// VerifyChain is what [Verify] asks of an RPC. *chain.Client is one.
type VerifyChain interface {
	ChainID(ctx context.Context) (uint64, error)
	TransactionByHash(ctx context.Context, hash common.Hash) (chain.Tx, error)
	TransactionReceipt(ctx context.Context, hash common.Hash) (chain.Receipt, error)
	HeaderByNumber(ctx context.Context, number uint64) (chain.Header, error)
}

// VerifyOptions say whom a verification may ask and whom it expects.
type VerifyOptions struct {
	Chains   []VerifyChain   // none: offline. Each is asked which chain it serves
	Attester *flight.Address // nil: whoever attested is named, and the result is not "all passed"
}

// A Verification is the outcome of [Verify]. Its JSON is a documented promise.
type Verification struct {
	Documents []string       `json:"documents"` // kinds found, in the order given
	Checks    []flight.Check `json:"checks"`
	Verdict   string         `json:"verdict"` // one sentence
	// Open is what a chain would decide and did not.
	Open []string `json:"open"`
	// OK is the exit code 0: no check failed and, where a chain was asked, nothing
	// stayed open.
	OK bool `json:"ok"`
	// Archive is there for an exported record; Checks then has one entry for each
	// check and outcome, with their number.
	Archive *ArchiveReport `json:"archive,omitempty"`
}

// Verify checks documents offline, and the anchor and claim against a chain where
// one is given. A document is a disclosure, a batch, a batch proof, a receipt,
// equivocation evidence, an API answer that holds one of these, or an object that
// joins several under the keys disclosure, batch, proof, receipt and evidence.
// Several documents are taken together and must speak of one batch. Whatever a
// document holds beyond these is the node's word; it is named and not checked.
//
// A verification never fails to run: what cannot be read is a failed check.
func Verify(ctx context.Context, docs [][]byte, o VerifyOptions) *Verification {
	v := &verification{ctx: ctx, opts: o}
	for _, doc := range docs {
		if err := v.parts.add(doc); err != nil {
			v.fail(CheckForm, "%s", err)
			return v.result()
		}
	}
	v.pass(CheckForm, "%s", strings.Join(v.parts.kinds, ", "))
	if len(v.parts.unchecked) > 0 {
		v.skip(CheckForm, "not checked, for it is only the node's word: %s", strings.Join(v.parts.unchecked, ", "))
	}
	v.checkDisclosure()
	v.checkBatch()
	v.checkReceipt()
	v.checkEvidence()
	v.checkSameBatch()
	v.checkEpoch()
	v.checkChain()
	return v.result()
}

type verification struct {
	ctx    context.Context
	opts   VerifyOptions
	parts  verifyParts
	claim  *flight.Report // of a disclosure that passed
	checks []flight.Check
	open   []string
}

func (v *verification) add(code flight.CheckCode, state flight.CheckState, format string, args ...any) {
	v.checks = append(v.checks, flight.Check{Code: code, State: state, Detail: oneLine(fmt.Sprintf(format, args...))})
}

// oneLine escapes what would let a document print lines, or move the cursor, in
// the report about itself.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	return b.String()
}

// undecided skips a check that a chain would decide.
func (v *verification) undecided(code flight.CheckCode, format string, args ...any) {
	v.skip(code, format, args...)
	v.open = append(v.open, v.checks[len(v.checks)-1].Detail)
}

func (v *verification) pass(code flight.CheckCode, format string, args ...any) {
	v.add(code, flight.Pass, format, args...)
}

func (v *verification) fail(code flight.CheckCode, format string, args ...any) {
	v.add(code, flight.Fail, format, args...)
}

func (v *verification) skip(code flight.CheckCode, format string, args ...any) {
	v.add(code, flight.Skip, format, args...)
}

// judge adds a check that passes with fine or fails with the error.
func (v *verification) judge(code flight.CheckCode, err error, format string, args ...any) {
	if err != nil {
		v.fail(code, "%s", err)
		return
	}
	v.pass(code, format, args...)
}

func (v *verification) result() *Verification {
	out := &Verification{Documents: v.parts.kinds, Checks: v.checks}
	passed, failed, first := 0, 0, flight.CheckCode("")
	for _, c := range v.checks {
		switch c.State {
		case flight.Pass:
			passed++
		case flight.Fail:
			if failed++; failed == 1 {
				first = c.Code
			}
		}
	}
	v.decide(out, passed, failed, first)
	return out
}

// decide says in one sentence what the numbers of checks come to.
func (v *verification) decide(out *Verification, passed, failed int, first flight.CheckCode) {
	out.Open = append([]string{}, v.open...)
	out.OK = failed == 0 && (len(v.open) == 0 || len(v.opts.Chains) == 0)
	switch {
	case failed > 0:
		out.Verdict = fmt.Sprintf("FAILED: %d of %d checks failed, first %s", failed, passed+failed, first)
	case len(v.open) == 0:
		out.Verdict = fmt.Sprintf("all %d checks passed", passed)
	case len(v.opts.Chains) == 0:
		out.Verdict = fmt.Sprintf("all %d offline checks passed; nothing was compared with a chain (--rpc-url does that)", passed)
	default:
		out.Verdict = fmt.Sprintf("%d checks passed, NOT all: %s", passed, strings.Join(v.open, "; "))
	}
}

func (v *verification) checkDisclosure() {
	d := v.parts.disclosure
	if d == nil {
		return
	}
	r := d.Verify()
	for _, c := range r.Checks {
		v.add(c.Code, c.State, "%s", c.Detail)
	}
	if r.Err() == nil {
		v.claim = r
	}
}

func (v *verification) checkBatch() {
	b := v.parts.batch
	if b == nil {
		return
	}
	v.judge(CheckBatch, b.Verify(), "%s signed steps %d to %d of stream %q, batch %s",
		b.Header.Agent, b.Header.FromSeq, b.Header.ToSeq, b.Header.Stream, b.ID())
}

func (v *verification) checkReceipt() {
	r := v.parts.receipt
	if r == nil {
		return
	}
	v.judge(CheckReceipt, r.Verify(), "node %s has batch %s at position %d since %s and promised to anchor it by %s",
		r.Node, r.BatchID, r.Position, utc(int64(r.ReceivedAt)/1000), utc(int64(r.AnchorBy)))
}

func utc(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02 15:04:05 UTC") }

func (v *verification) checkEvidence() {
	e := v.parts.evidence
	if e == nil {
		return
	}
	if e.Reason == flight.BrokenChain {
		v.judge(CheckStatementA, e.StepA.Verify().Err(), "%s proved a step of stream %q", e.Agent(), e.StepA.Batch.Header.Stream)
		v.judge(CheckStatementB, e.StepB.Verify().Err(), "and the next one")
	} else {
		v.judge(CheckStatementA, e.A.Verify(), "%s", statement(&e.A))
		v.judge(CheckStatementB, e.B.Verify(), "%s", statement(&e.B))
	}
	v.judge(CheckContradiction, e.Verify(), "%s: no honest history of one stream holds both; %s signed two", e.Reason, e.Agent())
}

func statement(b *flight.Batch) string {
	return fmt.Sprintf("%s signed batch %d of stream %q, steps %d to %d, head %s",
		b.Header.Agent, b.Header.Index, b.Header.Stream, b.Header.FromSeq, b.Header.ToSeq, b.Header.Head)
}

// checkSameBatch compares the batchIds of all parts that have one.
func (v *verification) checkSameBatch() {
	ids := v.parts.batchIDs()
	for _, id := range ids {
		if id != ids[0] {
			v.fail(CheckSameBatch, "one part is of batch %s, another of %s", ids[0], id)
			return
		}
	}
	if len(ids) > 1 {
		v.pass(CheckSameBatch, "all parts are of batch %s", ids[0])
	}
}

func (v *verification) checkEpoch() {
	p := v.parts.proof
	if p == nil {
		if v.parts.disclosure != nil || v.parts.batch != nil {
			v.skip(CheckEpochProof, "no batch proof is here; since when the batch exists was not checked")
		}
		return
	}
	v.judge(CheckEpochProof, flight.VerifyEpoch(p.Epoch.Root, p.Epoch.BatchCount, p.BatchID, p.Proof),
		"batch %s is number %d of %d under epoch root %s", p.BatchID, p.Proof.Index+1, p.Epoch.BatchCount, p.Epoch.Root)
	if v.parts.disclosure == nil && v.parts.batch == nil {
		v.skip(CheckSameBatch, "no signed batch is here; whose batch this is was not checked")
	}
}

// Print writes the report: each check as "pass|fail|skip NAME detail", then the
// verdict; or the whole as JSON.
func (v *Verification) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(v)
	}
	var b strings.Builder
	for _, c := range v.Checks {
		fmt.Fprintf(&b, "%s %-14s %s\n", c.State, c.Code, c.Detail)
	}
	fmt.Fprintln(&b, "verdict:", v.Verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

// DialVerify makes the options of a verification from the flags of karatum verify.
// Without a URL it stays offline. done gives the connections up.
func DialVerify(ctx context.Context, rpcURLs []string, attester string) (o VerifyOptions, done func(), err error) {
	var clients []*chain.Client
	done = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	if attester != "" {
		a, err := flight.ParseAddress(strings.ToLower(attester))
		if err != nil {
			return o, done, fmt.Errorf("--attester: %w", err)
		}
		if len(rpcURLs) == 0 {
			return o, done, errors.New("--attester is compared with a chain; name one with --rpc-url")
		}
		o.Attester = &a
	}
	for _, url := range rpcURLs {
		c, err := chain.Dial(ctx, url, chain.Options{})
		if err != nil {
			done()
			return o, func() {}, fmt.Errorf("--rpc-url: %w", err)
		}
		clients, o.Chains = append(clients, c), append(o.Chains, c)
	}
	return o, done, nil
}
