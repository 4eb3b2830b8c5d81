package pages

import "karatum/app"

// thinUnder is the number of compared transactions below which a rating is thin.
const thinUnder = 10

// A RatedView is a rating of one network scope with what must be read with it:
// no template is given the one without the other.
type RatedView struct {
	app.RatingView
	Coverage                   float64 // 0 to 1
	OpenedSteps, RecordedSteps uint64
	Dev                        bool // counts the dev chain, which has no public value
}

// Compared is the number of transactions that were decided.
func (r RatedView) Compared() uint64 { return r.Confirmed + r.Contradicted }

// Thin reports whether too few transactions were compared to say much.
func (r RatedView) Thin() bool { return r.Rating != nil && r.Compared() < thinUnder }

// Seen is the number of transactions that claims name.
func (r RatedView) Seen() uint64 { return r.Compared() + r.Unverifiable }

// Ratio is the plain share of confirmed transactions times 24, 0 with none.
func (r RatedView) Ratio() float64 {
	if r.Compared() == 0 {
		return 0
	}
	return 24 * float64(r.Confirmed) / float64(r.Compared())
}

// scope names the chains whose transactions are counted.
func (r RatedView) scope() string {
	if r.Dev {
		return "Dev chain"
	}
	return "Public chains"
}

// Primary is the rating that the node shows first: of the scope of the network on
// which it anchors. [Site.Beside] is the other one.
func (s *Site) Primary(a app.AgentView) RatedView { return rated(a, !s.Network.Public) }

// Beside is the rating of the other scope.
func (s *Site) Beside(a app.AgentView) RatedView { return rated(a, s.Network.Public) }

func rated(a app.AgentView, dev bool) RatedView {
	r := RatedView{RatingView: a.Field, Coverage: a.Coverage, OpenedSteps: a.OpenedSteps, RecordedSteps: a.RecordedSteps, Dev: dev}
	if dev {
		r.RatingView = a.DevField
	}
	return r
}
