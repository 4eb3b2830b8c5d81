package pages

import (
	"fmt"
	"strings"

	"karatum/app"
	"karatum/flight"
)

// A SealedView is the page of a step that nobody opened.
type SealedView struct {
	app.SealedStepView
	URL string // of this node, for the command that opens the step
}

// toSealed is the way to a sealed step.
func (s *Site) toSealed(v SealedView) []Crumb {
	return append(s.toStream(v.Agent, v.Stream),
		Crumb{Text: fmt.Sprintf("batch %d", v.Batch.Header.Index), Href: s.Link("batches", v.Batch.BatchID)}, Crumb{Text: fmt.Sprintf("step %d", v.Seq)})
}

// opening is the command with which the owner of the step opens its claim.
func (v SealedView) opening() string {
	return "karatum disclose --journal ./journal --step " + shellWord(fmt.Sprintf("%s/%d", v.Stream, v.Seq)) + " --reveal claim --post --node " + v.URL
}

// shellWord is a text as one word of a POSIX shell.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// spot says where in its batch the step is.
func (v SealedView) spot() string {
	return number(v.Index+1) + " of " + number(v.Size)
}

// neighbourName is what a step beside this one is called.
func (v SealedView) neighbourName(n app.SealedNeighbor) string {
	if n.Seq < v.Seq {
		return "Step before"
	}
	return "Step after"
}

// fieldList names the fields to which a record may commit.
func fieldList() string {
	last := len(flight.Fields) - 1
	return strings.Join(flight.Fields[:last], ", ") + " and " + flight.Fields[last]
}
