package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

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
