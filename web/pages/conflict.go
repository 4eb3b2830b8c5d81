package pages

import (
	"encoding/json"
	"strings"

	"karatum/app"
	"karatum/flight"
	"karatum/web/verifier"
)

// A ConflictView is evidence and the panel that checks it.
type ConflictView struct {
	app.EvidenceView
	Panel verifier.Panel
}

// A statement is one side of an equivocation as a page shows it: the lines that
// were signed.
type statement struct {
	Scheme, Signature string
	Lines             []statementLine
}

type statementLine struct {
	Key, Value string
	Differs    bool
}

// statementOf reads both sides of evidence; it returns nil for evidence of another
// form than two signed headers, which is shown as JSON.
func statementOf(raw json.RawMessage) []statement {
	ev, err := flight.ParseEvidence(raw)
	if err != nil || ev.Reason == flight.BrokenChain {
		return nil
	}
	a, b := textLines(&ev.A), textLines(&ev.B)
	for i := range a.Lines {
		if i < len(b.Lines) && a.Lines[i].Value != b.Lines[i].Value {
			a.Lines[i].Differs, b.Lines[i].Differs = true, true
		}
	}
	return []statement{a, b}
}

func textLines(b *flight.Batch) statement {
	st := statement{Scheme: string(b.Scheme), Signature: b.Signature.String()}
	for line := range strings.SplitSeq(b.Header.Text(), "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			st.Lines = append(st.Lines, statementLine{Key: key, Value: value})
		}
	}
	return st
}

// conflictWords say a reason of spec section 5 in a sentence.
var conflictWords = map[string]string{
	string(flight.SameIndex):        "One place in the stream, two batches",
	string(flight.Overlap):          "Two batches that hold the same steps",
	string(flight.Order):            "A later batch with earlier steps",
	string(flight.AdjacentIndexGap): "Two batches in a row, with steps between them",
	string(flight.TooFewSteps):      "Fewer steps between two batches than there are batches",
	string(flight.PrevHead):         "A batch that does not follow from the one before it",
	string(flight.BrokenChain):      "A step that does not follow from the one before it",
}

// conflictReason says a reason in words, or as it is where there are none.
func conflictReason(code string) string {
	if text, ok := conflictWords[code]; ok {
		return text
	}
	return Visible(code)
}
