package app

import (
	"fmt"
	"strings"

	"karatum/flight"
)

// archiveWords say what a number of passed checks means.
var archiveWords = map[flight.CheckCode]string{
	CheckManifest:         "members are as the manifest has them",
	CheckRecord:           "lines are of this agent, in their place and there once",
	CheckLinks:            "batches continue the one before them",
	CheckBatch:            "batches are signed by the agent",
	CheckReceipt:          "receipts are signed by their node",
	CheckSameBatch:        "batches have their own receipt and proof",
	CheckEpochProof:       "batches are under the root of their epoch",
	CheckStatementA:       "pieces of evidence: the first statement is signed",
	CheckStatementB:       "pieces of evidence: so is the second",
	CheckContradiction:    "pieces of evidence: no honest history holds both",
	CheckAnchorTx:         "anchoring transactions are mined",
	CheckAnchorStatus:     "of them succeeded",
	CheckAnchorTo:         "of them called EAS",
	CheckAnchorInput:      "of them attest the root and count of their epoch",
	CheckAttester:         "of them were sent by the expected attester",
	CheckOutcome:          "claims are what their chain shows",
	CheckNodeClaim:        "verdicts of the node are what the chain shows",
	flight.CheckSignature: "disclosures name a batch that the agent signed",
}

// archiveSkips say what it means that a number of checks was left out.
var archiveSkips = map[flight.CheckCode]string{
	CheckAnchorTx: "anchors were not checked against a chain",
	CheckOutcome:  "claims were not decided by a chain",
	CheckAttester: "anchors have an attester that nobody pinned",
}

// conclude turns the counts into a report: a line for each failure that is kept,
// and one for each check and outcome.
func (a *archiveCheck) conclude() *Verification {
	out := &Verification{Documents: a.parts.kinds, Checks: a.checks, Archive: &a.report}
	passed, failed, first := 0, 0, flight.CheckCode("")
	for _, c := range a.checks {
		if c.State == flight.Fail {
			failed, first = failed+1, c.Code
		} else {
			passed++
		}
	}
	if failed == 0 && len(a.report.Failures) > 0 {
		first = a.report.Failures[0].Code
	}
	for _, f := range a.report.Failures {
		out.Checks = append(out.Checks, flight.Check{Code: f.Code, State: flight.Fail, Detail: f.Place + ": " + f.Detail})
	}
	for _, code := range a.codes {
		t := a.tallies[code]
		passed, failed = passed+int(t.pass), failed+int(t.fail)
		out.Checks = append(out.Checks, a.summary(code, t)...)
	}
	if n := a.report.Counts.Batches - a.report.Counts.Anchored; n > 0 {
		out.Checks = append(out.Checks, flight.Check{Code: CheckEpochProof, State: flight.Skip,
			Detail: fmt.Sprintf("%d batches are in no epoch yet; since when they exist was not checked", n)})
	}
	if a.report.Counts.Disclosures > 0 {
		out.Checks = append(out.Checks, flight.Check{Code: CheckForm, State: flight.Skip,
			Detail: "not checked, for it is only the node's word: nodeClaims"})
	}
	a.decide(out, passed, failed, first)
	return out
}

func (a *archiveCheck) summary(code flight.CheckCode, t *tally) (lines []flight.Check) {
	add := func(state flight.CheckState, n uint64, text string) {
		if n > 0 {
			lines = append(lines, flight.Check{Code: code, State: state, Detail: strings.TrimSpace(fmt.Sprintf("%d %s", n, text))})
		}
	}
	kept := uint64(0)
	for _, f := range a.report.Failures {
		if f.Code == code {
			kept++
		}
	}
	add(flight.Fail, t.fail-kept, "more failed")
	switch word, ok := archiveWords[code]; {
	case code == CheckForm || code == CheckCounts:
		if t.pass > 0 {
			lines = append(lines, flight.Check{Code: code, State: flight.Pass, Detail: a.whole(code)})
		}
	case ok:
		add(flight.Pass, t.pass, word)
	default:
		add(flight.Pass, t.pass, "disclosures")
	}
	if word, ok := archiveSkips[code]; ok {
		add(flight.Skip, t.skip, word)
	} else {
		add(flight.Skip, t.skip, "times there was nothing to judge")
	}
	return lines
}

// whole says what the archive is.
func (a *archiveCheck) whole(code flight.CheckCode) string {
	r, c := &a.report, &a.report.Counts
	if code == CheckForm {
		return fmt.Sprintf("archive of agent %s, exported by node %s at %s", r.Agent, r.Node, utc(int64(r.ExportedAt/1000)))
	}
	return fmt.Sprintf("%d batches in %d streams, %d missing between them, %d anchored in %d epochs; %d disclosures; %d pieces of evidence",
		c.Batches, c.Streams, c.Missing, c.Anchored, r.Epochs, c.Disclosures, c.Evidence)
}
