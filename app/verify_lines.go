package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"karatum/flight"
)

// A lineCheck is one line, checked by itself.
type lineCheck struct {
	v   verification
	err error
	say NodeClaims // of a disclosure
}

// readLines checks the lines of a member, on all processors and then in order.
func (a *archiveCheck) readLines(m *readMember) {
	lines := bytes.Split(m.body, []byte{'\n'})
	if rest := lines[len(lines)-1]; len(rest) > 0 || len(lines) == 1 {
		a.wrong(m.Name, CheckForm, "its last line has no end")
	}
	lines = lines[:len(lines)-1]
	checks := make([]lineCheck, len(lines))
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(lines))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(lines); i += workers {
				checks[i].v.ctx, checks[i].v.opts = a.ctx, a.opts
				checks[i].run(m.kind, lines[i])
			}
		})
	}
	wg.Wait()
	for i := range checks {
		if a.report.Failed >= stopFailures {
			return
		}
		a.take(fmt.Sprintf("%s line %d", m.Name, i+1), m.kind, &checks[i])
	}
}

// lineKeys are the keys of a line, those that may be absent last.
var lineKeys = map[string]struct{ must, may []string }{
	membersBatches:     {[]string{"batch", "receipt"}, []string{"proof"}},
	membersDisclosures: {[]string{"disclosure"}, []string{"nodeClaims"}},
	membersEvidence:    {[]string{"type", "reason", "a", "b"}, nil},
}

// run checks a line as the document that it is.
func (l *lineCheck) run(kind string, line []byte) {
	var m map[string]json.RawMessage
	if l.err = l.v.parts.add(line); l.err != nil {
		return
	}
	if l.err = json.Unmarshal(line, &m); l.err != nil {
		return
	}
	keys := lineKeys[kind]
	if !has(m, keys.must...) {
		l.err = fmt.Errorf("a line of %s has the keys %v", kind, keys.must)
		return
	}
	for key := range m {
		if !slices.Contains(keys.must, key) && !slices.Contains(keys.may, key) {
			l.err = fmt.Errorf("unknown key %q", key)
			return
		}
	}
	if say, ok := m["nodeClaims"]; ok && kind == membersDisclosures {
		if l.err = json.Unmarshal(say, &l.say); l.err != nil {
			l.err = fmt.Errorf("nodeClaims: %w", l.err)
			return
		}
	}
	p := &l.v.parts
	if kind == membersBatches && (p.batch == nil || p.receipt == nil) || kind == membersDisclosures && p.disclosure == nil || kind == membersEvidence && p.evidence == nil {
		l.err = fmt.Errorf("it is no document of %s", kind)
		return
	}
	l.v.checkDisclosure()
	l.v.checkBatch()
	l.v.checkReceipt()
	l.v.checkEvidence()
	l.v.checkSameBatch()
	if p.proof != nil {
		l.v.checkEpoch()
	}
}

// take counts a line and holds it against the record.
func (a *archiveCheck) take(place, kind string, l *lineCheck) {
	if l.err != nil {
		a.wrong(place, CheckForm, "%s", l.err)
		return
	}
	a.note(place, l.v.checks...)
	switch kind {
	case membersBatches:
		a.takeBatch(place, &l.v.parts)
	case membersDisclosures:
		a.takeStep(place, l)
	default:
		a.report.Counts.Evidence++
		a.ofAgent(place, l.v.parts.evidence.Agent())
	}
}

// ofAgent checks whose line it is; the first line says of whom the archive is.
func (a *archiveCheck) ofAgent(place string, agent flight.Address) {
	if a.report.Agent == (flight.Address{}) {
		a.report.Agent = agent
	}
	if agent != a.report.Agent {
		a.wrong(place, CheckRecord, "it is of agent %s, the archive of %s", agent, a.report.Agent)
		return
	}
	a.right(CheckRecord)
}

func (a *archiveCheck) takeBatch(place string, p *verifyParts) {
	h, c := &p.batch.Header, &a.report.Counts
	a.ofAgent(place, h.Agent)
	c.Batches++
	sameStream := a.begun && h.Stream == a.last.Stream
	switch {
	case a.begun && (h.Stream < a.last.Stream || sameStream && h.Index <= a.last.Index):
		a.wrong(place, CheckRecord, "batch %d of stream %q is there twice or out of order", h.Index, h.Stream)
	case sameStream:
		a.link(place, h)
		c.Missing += h.Index - a.last.Index - 1
	default:
		c.Missing += h.Index
	}
	a.last, a.begun = *h, true
	a.batches[h.Stream] = append(a.batches[h.Stream], placed{h.Index, half(p.batch.ID())})
	if s := &a.report.Signers; !slices.Contains(*s, p.receipt.Node) && len(*s) < maxSigners {
		*s = append(*s, p.receipt.Node)
	}
	if p.proof == nil {
		return
	}
	c.Anchored++
	a.takeProof(place, p.proof)
}

// link holds a batch against the one before it in its stream: between honest ones
// lie as many batches and steps as their numbers say, and heads meet.
func (a *archiveCheck) link(place string, h *flight.Header) {
	if reason := flight.Conflict(&a.last, h); reason != "" {
		a.wrong(place, CheckLinks, "%s: batch %d of stream %q does not continue batch %d", reason, h.Index, h.Stream, a.last.Index)
		return
	}
	a.right(CheckLinks)
}

func (a *archiveCheck) takeProof(place string, p *BatchProofView) {
	a.anchors[p.Anchor.ChainID] = true
	key := epochKey{root: p.Epoch.Root}
	if p.Anchor.TxHash != nil {
		key.tx = *p.Anchor.TxHash
	}
	seen := a.epochs[key]
	switch {
	case seen == nil:
		seen = &epochSeen{proof: *p, place: place}
		seen.proof.Proof.Siblings = nil
		a.epochs[key] = seen
		a.epochList = append(a.epochList, seen)
	case seen.proof.Epoch != p.Epoch || seen.proof.Anchor.ChainID != p.Anchor.ChainID || seen.proof.Anchor.EAS != p.Anchor.EAS:
		a.wrong(place, CheckEpochProof, "%s has the epoch %s otherwise", seen.place, p.Epoch.Root)
	}
}

func (a *archiveCheck) takeStep(place string, l *lineCheck) {
	a.report.Counts.Disclosures++
	b := &l.v.parts.disclosure.Batch
	a.ofAgent(place, b.Header.Agent)
	list := a.batches[b.Header.Stream]
	i, ok := slices.BinarySearchFunc(list, b.Header.Index, func(p placed, index uint64) int { return cmp.Compare(p.index, index) })
	if !ok || list[i].id != half(b.ID()) {
		a.wrong(place, CheckRecord, "its batch %d of stream %q is not in the archive", b.Header.Index, b.Header.Stream)
	}
	r := l.v.claim
	if r == nil {
		return // a check of it has failed
	}
	if r.Step.ChainID != nil {
		a.claims[*r.Step.ChainID] = true
	}
	if a.steps[half(r.StepHash)] {
		a.wrong(place, CheckRecord, "step %s is there twice", r.StepHash)
	}
	a.steps[half(r.StepHash)] = true
	a.checkClaim(place, l)
}

// checkClaim compares a claim with the chain that it names, and what the node says
// with that.
func (a *archiveCheck) checkClaim(place string, l *lineCheck) {
	s := l.v.claimStep()
	if s == nil {
		return
	}
	c := a.served[*s.ChainID]
	if c == nil {
		a.count(CheckOutcome).skip++
		a.wait([]string{fmt.Sprintf("claims were not compared with chain %d", *s.ChainID)})
		return
	}
	l.v.checks, l.v.open = nil, nil
	l.v.checkOutcome(c)
	a.note(place, l.v.checks...)
	a.wait(l.v.open)
	shown := map[flight.CheckState]flight.State{flight.Pass: flight.Confirmed, flight.Fail: flight.Contradicted}[l.v.checks[0].State]
	switch said := l.say.Verdict.State; {
	case shown == "" || said != flight.Confirmed && said != flight.Contradicted:
	case said != shown:
		a.wrong(place, CheckNodeClaim, "the node says %s, the chain shows it %s", said, shown)
	default:
		a.right(CheckNodeClaim)
	}
}
