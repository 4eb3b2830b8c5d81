package pages

import (
	"net/url"

	"karatum/flight"
)

// A VerdictFilter is one choice of which opened steps are listed.
type VerdictFilter struct {
	Name, Count, Href string
	Current           bool
}

func (s *Site) verdictFilters(v AgentView) []VerdictFilter {
	// What was disclosed without a field is in the list, and not in the coverage.
	n := v.ByVerdict
	out := []VerdictFilter{{Name: "All", Count: number(max(v.OpenedSteps, n.Confirmed+n.Contradicted+n.Unverifiable))}}
	for _, f := range []struct {
		state flight.State
		name  string
		n     uint64
	}{{flight.Confirmed, "Confirmed", v.ByVerdict.Confirmed}, {flight.Contradicted, "Contradicted", v.ByVerdict.Contradicted}, {flight.Unverifiable, "Unverifiable", v.ByVerdict.Unverifiable}} {
		out = append(out, VerdictFilter{Name: f.name, Count: upTo(f.n), Href: s.stepsLink(v, f.state), Current: v.Verdict == f.state})
	}
	out[0].Href, out[0].Current = s.stepsLink(v, ""), v.Verdict == ""
	return out
}

// upTo is a count that went no further than 1,000.
func upTo(n uint64) string {
	if n < 1000 {
		return number(n)
	}
	return "over 999"
}

// stepsLink is the address of the first opened steps with a verdict, beside the same
// tape.
func (s *Site) stepsLink(v AgentView, state flight.State) string {
	q := url.Values{}
	if state != "" {
		q.Set("verdict", string(state))
	}
	if v.Tape != nil && v.Tape.Chosen {
		q.Set("stream", v.Tape.Name)
	}
	link := s.Link("agents", v.Address)
	if len(q) > 0 {
		link += "?" + q.Encode()
	}
	return link + "#op"
}

// beside is what a list says below a claim: what the chain shows instead, or why
// nothing could be compared.
func (v StepView) beside() string {
	if text := v.Shown(); text != "" {
		return text
	}
	if v.Said == nil || v.Verdict.Reason == "" {
		return ""
	}
	return reasonWords(v.Verdict.Reason)
}

// foldAt takes a list apart where a page hides the rest of it; one more is not hidden
// alone.
func foldAt[T any](list []T, n int) (first, rest []T) {
	if len(list) <= n+1 {
		return list, nil
	}
	return list[:n], list[n:]
}

// briefRunes is how much of a text chosen by an agent a row shows.
const briefRunes = 80

// brief cuts a text for a row; the page of the thing has more.
func brief(text string) string {
	n := 0
	for i := range text {
		if n++; n > briefRunes {
			return text[:i] + "…"
		}
	}
	return text
}
