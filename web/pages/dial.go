package pages

import (
	"fmt"
	"math"
)

// A DialView is the rating dial: 24 notches of which the Wilson bound fills some, a
// marker at the plain ratio, and the coverage arc inside, which cannot be cropped
// away from it. The paths are SVG path data.
type DialView struct {
	On, Off, Cover, Track string
	Marker                string // SVG transform, "" without a ratio
	Value, Label, Percent string
	Under, Thin           string // the lines under the value
	Dev                   bool
}

// drawDial lays a rating out.
func drawDial(r RatedView) DialView {
	d := DialView{
		Off: notches(24), Cover: arc(81, 0, min(max(r.Coverage, 0), 1)), Track: arc(81, 0, 1), Dev: r.Dev,
		Value: "–", Label: "none yet", Under: "no rating yet", Percent: Percent(r.Coverage),
	}
	scope := "public chain"
	if r.Dev {
		scope = "dev chain only, no public value"
	}
	if r.Rating == nil {
		d.Label += ", " + scope
		return d
	}
	d.On, d.Value, d.Marker = notches(*r.Rating), RatingText(*r.Rating), marker(r.Ratio())
	d.Label, d.Under = fmt.Sprintf("%s of 24, %s", d.Value, scope), "of 24"
	if r.Thin() {
		d.Thin = fmt.Sprintf("thin, %d compared", r.Compared())
		d.Label += ", " + d.Thin
	}
	return d
}

// viewBox leaves room for the line about the dev chain.
func (d DialView) viewBox() string {
	if d.Dev {
		return "0 0 240 246"
	}
	return "0 0 240 226"
}

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
