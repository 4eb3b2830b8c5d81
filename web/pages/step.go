package pages

import (
	"encoding/json"
	"fmt"
	"strings"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/web/verifier"
)

// A StepView is a step as pages show it.
type StepView struct {
	app.StepView
	Record flight.Step
	Said   *ClaimView
	Panel  verifier.Panel
}

// A ClaimView is an opened claim in words; what a kind lacks is empty.
type ClaimView struct{ Kind, Amount, To, Token string }

// ViewStep reads the record and the claim of a step. The error names a step that is
// not in the form of the spec, which the store does not hold.
func ViewStep(v app.StepView) (StepView, error) {
	doc, err := canon.Parse(v.Step, canon.MaxDepth)
	if err != nil {
		return StepView{}, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	record, err := flight.ParseStep(doc)
	if err != nil {
		return StepView{}, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	return StepView{StepView: v, Record: record, Said: readClaim(v.Claim)}, nil
}

// readClaim returns nil where no claim is opened.
func readClaim(raw json.RawMessage) *ClaimView {
	var c *struct{ Kind, Amount, Value, To, Token string }
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil || c == nil {
		return nil
	}
	if c.Amount == "" {
		c.Amount = c.Value
	}
	return &ClaimView{c.Kind, c.Amount, c.To, c.Token}
}

// openedWords lists the fields that were opened.
func (v StepView) openedWords() string {
	if len(v.Opened) == 0 {
		return "nothing"
	}
	return Visible(strings.Join(v.Opened, " "))
}

// permanence says whether the chain may still take the verdict back.
func permanence(final bool) string {
	if final {
		return "final"
	}
	return "may still change"
}
