package web

import (
	"fmt"
	"math"
	"strconv"

	"karatum/app"
)

// thinUnder is the number of compared transactions below which a rating is thin.
const thinUnder = 10

// A ratedView is a rating of one network scope with what must be read with it:
// no template is given the one without the other.
type ratedView struct {
	app.RatingView
	Coverage                   float64 // 0 to 1
	OpenedSteps, RecordedSteps uint64
	Dev                        bool // counts the dev chain, which has no public value
}

// Compared is the number of transactions that were decided.
func (r ratedView) Compared() uint64 { return r.Confirmed + r.Contradicted }

// Thin reports whether too few transactions were compared to say much.
func (r ratedView) Thin() bool { return r.Rating != nil && r.Compared() < thinUnder }

// Seen is the number of transactions that claims name.
func (r ratedView) Seen() uint64 { return r.Compared() + r.Unverifiable }

// Ratio is the plain share of confirmed transactions times 24, 0 with none.
func (r ratedView) Ratio() float64 {
	if r.Compared() == 0 {
		return 0
	}
	return 24 * float64(r.Confirmed) / float64(r.Compared())
}

// primary is the rating that the node shows first: of the scope of the network on
// which it anchors. beside is the other one.
func (s *Server) primary(a app.AgentView) ratedView { return rated(a, !s.network.Public) }

func (s *Server) beside(a app.AgentView) ratedView { return rated(a, s.network.Public) }

func rated(a app.AgentView, dev bool) ratedView {
	r := ratedView{RatingView: a.Field, Coverage: a.Coverage, OpenedSteps: a.OpenedSteps, RecordedSteps: a.RecordedSteps, Dev: dev}
	if dev {
		r.RatingView = a.DevField
	}
	return r
}

// A dialView is the rating dial: 24 notches of which the Wilson bound fills some, a
// marker at the plain ratio, and the coverage arc inside, which cannot be cropped
// away from it. The paths are SVG path data.
type dialView struct {
	On, Off, Cover, Track string
	Marker                string // SVG transform, "" without a ratio
	Value, Label, Percent string
	Under, Thin           string // the lines under the value
	Dev                   bool
}

func dial(r ratedView) dialView {
	d := dialView{
		Off: notches(24), Cover: arc(81, 0, min(max(r.Coverage, 0), 1)), Track: arc(81, 0, 1), Dev: r.Dev,
		Value: "–", Label: "none yet", Under: "no rating yet", Percent: percent(r.Coverage),
	}
	scope := "public chain"
	if r.Dev {
		scope = "dev chain only, no public value"
	}
	if r.Rating == nil {
		d.Label += ", " + scope
		return d
	}
	d.On, d.Value, d.Marker = notches(*r.Rating), ratingText(*r.Rating), marker(r.Ratio())
	d.Label, d.Under = fmt.Sprintf("%s of 24, %s", d.Value, scope), "of 24"
	if r.Thin() {
		d.Thin = fmt.Sprintf("thin, %d compared", r.Compared())
		d.Label += ", " + d.Thin
	}
	return d
}

func ratingText(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

func percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) }

// marker places a small triangle outside the notches.
func marker(value float64) string {
	x, y := onDial(116, value/24)
	return fmt.Sprintf("translate(%.1f %.1f) rotate(%.1f)", x, y, 225+270*value/24)
}

// notches draws the first upTo of 24 notches, the last one in part.
func notches(upTo float64) (path string) {
	const gap = 0.002
	for i := range 24 {
		from := float64(i) / 24
		path += arc(102, from+gap, min(from+1.0/24-gap, upTo/24))
	}
	return path
}

// arc draws a part of the dial's 270 degrees, from and to in 0..1.
func arc(r, from, to float64) string {
	if to <= from {
		return ""
	}
	x0, y0 := onDial(r, from)
	x1, y1 := onDial(r, to)
	large := 0
	if (to-from)*270 > 180 {
		large = 1
	}
	return fmt.Sprintf("M%.2f %.2fA%g %g 0 %d 1 %.2f %.2f", x0, y0, r, r, large, x1, y1)
}

func onDial(r, f float64) (x, y float64) {
	angle := (135 + 270*f) * math.Pi / 180
	return 120 + r*math.Cos(angle), 120 + r*math.Sin(angle)
}
