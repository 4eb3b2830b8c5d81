package web

import (
	"encoding/json"
	"fmt"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/web/verifier"
)

// A stepView is a step as pages show it.
type stepView struct {
	app.StepView
	Record flight.Step
	Said   *claimView
	Panel  verifier.Panel
}

// A claimView is an opened claim in words; what a kind lacks is empty.
type claimView struct{ Kind, Amount, To, Token string }

func viewStep(v app.StepView) (stepView, error) {
	doc, err := canon.Parse(v.Step, canon.MaxDepth)
	if err != nil {
		return stepView{}, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	record, err := flight.ParseStep(doc)
	if err != nil {
		return stepView{}, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	return stepView{StepView: v, Record: record, Said: readClaim(v.Claim)}, nil
}

// readClaim returns nil where no claim is opened.
func readClaim(raw json.RawMessage) *claimView {
	var c *struct{ Kind, Amount, Value, To, Token string }
	if len(raw) == 0 || json.Unmarshal(raw, &c) != nil || c == nil {
		return nil
	}
	if c.Amount == "" {
		c.Amount = c.Value
	}
	return &claimView{c.Kind, c.Amount, c.To, c.Token}
}
