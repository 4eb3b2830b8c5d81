package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"karatum/flight"
	"karatum/flight/canon"
)

// The checks of an archive, beside those of the documents in it.
const (
	CheckManifest  flight.CheckCode = "MANIFEST"   // each member is as the manifest has it
	CheckCounts    flight.CheckCode = "COUNTS"     // and holds what the manifest counts
	CheckRecord    flight.CheckCode = "RECORD"     // each line is of this agent, in its place and there once
	CheckLinks     flight.CheckCode = "LINKS"      // a batch continues the one before it
	CheckNodeClaim flight.CheckCode = "NODE_CLAIM" // what the node says of a step is what the chain shows
)

// Bounds of the report on an archive.
const (
	maxFailures  = 20   // that are reported with their place
	stopFailures = 1000 // after which nothing more is read
	maxSigners   = 16   // nodes that are named
)

// An ArchiveReport is what [VerifyArchive] says beside the checks.
type ArchiveReport struct {
	Agent      flight.Address   `json:"agent"`
	Node       flight.Address   `json:"node"`
	ExportedAt uint64           `json:"exportedAt"` // unix ms, as the manifest has it
	Counts     ArchiveCounts    `json:"counts"`     // counted here
	Epochs     uint64           `json:"epochs"`
	Signers    []flight.Address `json:"receiptSigners"` // at most 16, in order of appearance
	Failed     uint64           `json:"failed"`
	Failures   []ArchiveFailure `json:"failures"` // the first 20
}

// An ArchiveFailure is a failed check with its place, "MEMBER" or "MEMBER line N".
type ArchiveFailure struct {
	Place  string           `json:"place"`
	Code   flight.CheckCode `json:"code"`
	Detail string           `json:"detail"`
}

// VerifyArchive checks an exported record ([ArchiveFormat]) as it is read: every
// document as [Verify] does, the members against the manifest, each stream's links
// and gaps, and with a chain every anchor and claim. It keeps one member, some 24
// bytes a batch, 32 a disclosure and what it must of each epoch.
//
// A verification never fails to run: what cannot be read is a failed check.
func VerifyArchive(ctx context.Context, r io.Reader, o VerifyOptions) *Verification {
	a := &archiveCheck{
		verification: verification{ctx: ctx, opts: o}, tallies: map[flight.CheckCode]*tally{}, batches: map[string][]placed{},
		epochs: map[epochKey]*epochSeen{}, steps: map[[16]byte]bool{}, anchors: map[uint64]bool{}, claims: map[uint64]bool{},
		served: map[uint64]VerifyChain{},
	}
	a.parts.kinds = []string{"archive"}
	a.report.Signers, a.report.Failures = []flight.Address{}, []ArchiveFailure{}
	if served, ok := a.serving(); ok {
		a.served = served
		a.read(r)
		a.checkEpochs()
	}
	return a.conclude()
}

// An archiveCheck is a verification that counts.
type archiveCheck struct {
	verification // its checks are those about the whole
	report       ArchiveReport
	served       map[uint64]VerifyChain
	manifest     *ArchiveManifest
	members      []ArchiveMember // as read

	codes   []flight.CheckCode // in order of appearance
	tallies map[flight.CheckCode]*tally

	last      flight.Header // of the batch before
	begun     bool          // there is one
	batches   map[string][]placed
	epochs    map[epochKey]*epochSeen
	epochList []*epochSeen // in order of appearance
	steps     map[[16]byte]bool
	anchors   map[uint64]bool // chain ids
	claims    map[uint64]bool
}

type tally struct{ pass, fail, skip uint64 }

// placed remembers a batch by half of its id, under its stream and by index.
type placed struct {
	index uint64
	id    [16]byte
}

func half(h flight.Hash) [16]byte { return [16]byte(h[:16]) }

// An epochKey is an epoch in one transaction: a reorganisation during an export can
// show an epoch in two.
type epochKey struct{ root, tx flight.Hash }

type epochSeen struct {
	proof BatchProofView
	place string
}

func (a *archiveCheck) count(code flight.CheckCode) *tally {
	t := a.tallies[code]
	if t == nil {
		t = &tally{}
		a.tallies[code] = t
		a.codes = append(a.codes, code)
	}
	return t
}

// note counts the checks of one document.
func (a *archiveCheck) note(place string, checks ...flight.Check) {
	for _, c := range checks {
		switch t := a.count(c.Code); c.State {
		case flight.Pass:
			t.pass++
		case flight.Skip:
			t.skip++
		default:
			t.fail++
			if a.report.Failed++; len(a.report.Failures) < maxFailures {
				a.report.Failures = append(a.report.Failures, ArchiveFailure{place, c.Code, c.Detail})
			}
		}
	}
}

func (a *archiveCheck) wrong(place string, code flight.CheckCode, format string, args ...any) {
	a.note(place, flight.Check{Code: code, State: flight.Fail, Detail: oneLine(fmt.Sprintf(format, args...))})
}

func (a *archiveCheck) right(code flight.CheckCode) { a.count(code).pass++ }

// wait adds what a chain would decide, once for each wording.
func (a *archiveCheck) wait(open []string) {
	for _, s := range open {
		if !slices.Contains(a.open, s) && len(a.open) < maxFailures {
			a.open = append(a.open, s)
		}
	}
}

// read goes through the members. A wrong frame ends it: what follows cannot be told
// apart.
func (a *archiveCheck) read(r io.Reader) {
	ar, err := openArchive(r)
	place := "archive"
	for err == nil && a.report.Failed < stopFailures {
		if err = a.ctx.Err(); err != nil {
			break
		}
		var m *readMember
		if m, err = ar.next(); err != nil {
			break
		}
		if place = m.Name; m.kind == "" {
			a.readManifest(m)
			continue
		}
		a.members = append(a.members, m.ArchiveMember)
		a.readLines(m)
	}
	switch {
	case a.report.Failed >= stopFailures:
		a.wrong(place, CheckForm, "%d checks have failed; the rest was not read", a.report.Failed)
	case errors.Is(err, io.EOF) && ar != nil && ar.order.done:
		a.right(CheckForm)
		a.compare()
	case place == "archive":
		a.wrong(place, CheckForm, "%s", err)
	default:
		a.wrong("after "+place, CheckForm, "%s", err)
	}
}

func (a *archiveCheck) readManifest(m *readMember) {
	man := &ArchiveManifest{}
	_, err := canon.Parse(m.body, canon.MaxDepth)
	if err == nil {
		err = whole("manifest", m.body, man, "format", "agent", "node", "exportedAt", "chainIds", "counts", "members", "nodeClaims")
	}
	if err == nil && man.Format != ArchiveFormat {
		err = fmt.Errorf("the format is %q; this program reads %q", man.Format, ArchiveFormat)
	}
	if err != nil {
		a.wrong(manifestName, CheckManifest, "%s", err)
		return
	}
	a.manifest = man
	a.report.Node, a.report.ExportedAt = man.Node, man.ExportedAt
}

// compare holds what was read against the manifest.
func (a *archiveCheck) compare() {
	man := a.manifest
	if man == nil {
		return // which is a failed check already
	}
	for i := range max(len(man.Members), len(a.members)) {
		switch {
		case i >= len(a.members):
			a.wrong(man.Members[i].Name, CheckManifest, "the manifest lists it, the archive does not hold it")
		case i >= len(man.Members):
			a.wrong(a.members[i].Name, CheckManifest, "the manifest does not list it")
		case man.Members[i] != a.members[i]:
			got, want := a.members[i], man.Members[i]
			a.wrong(got.Name, CheckManifest, "it is %d lines, %d bytes, sha256 %s; the manifest has %s with %d lines, %d bytes, sha256 %s",
				got.Lines, got.Bytes, got.SHA256, want.Name, want.Lines, want.Bytes, want.SHA256)
		default:
			a.right(CheckManifest)
		}
	}
	a.compareCounts(man)
}

func (a *archiveCheck) compareCounts(man *ArchiveManifest) {
	c := &a.report.Counts
	c.Streams = uint64(len(a.batches))
	if a.begun && man.Agent != a.report.Agent {
		a.wrong(manifestName, CheckRecord, "it is of agent %s, the batches are of %s", man.Agent, a.report.Agent)
	}
	if *c != man.Counts {
		a.wrong(manifestName, CheckCounts, "it has %+v, the members hold %+v", man.Counts, *c)
	} else {
		a.right(CheckCounts)
	}
	if got := (ArchiveChains{rising(a.anchors), rising(a.claims)}); !slices.Equal(got.Anchors, man.Chains.Anchors) || !slices.Equal(got.Claims, man.Chains.Claims) {
		a.wrong(manifestName, CheckCounts, "its chains are %v, the members name %v", man.Chains, got)
	}
}

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

// checkEpochs compares each anchor with its chain.
func (a *archiveCheck) checkEpochs() {
	roots := map[flight.Hash]bool{}
	for _, e := range a.epochList {
		roots[e.proof.Epoch.Root] = true
		c := a.served[e.proof.Anchor.ChainID]
		if c == nil {
			a.count(CheckAnchorTx).skip++
			a.wait([]string{fmt.Sprintf("anchors were not checked against chain %d", e.proof.Anchor.ChainID)})
			continue
		}
		if a.ctx.Err() != nil {
			a.wrong(e.place, CheckAnchorTx, "%s", context.Cause(a.ctx))
			break
		}
		v := &verification{ctx: a.ctx, opts: a.opts}
		v.parts.proof = &e.proof
		v.checkAnchor(c)
		a.note(e.place, v.checks...)
		a.wait(v.open)
	}
	a.report.Epochs = uint64(len(roots))
}
