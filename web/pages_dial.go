package web

import (
	"fmt"
	"math"
	"strconv"

	"karatum/app"
)

// A dialView is the rating dial: 24 notches of which the Wilson bound fills some,
// and the coverage arc inside, which cannot be cropped away from it. The paths are
// SVG path data.
type dialView struct {
	On, Off, Cover, Track string
	Value, Label, Percent string
	Under                 string // the line under the value
}

// thinUnder is the number of compared transactions below which a rating is thin.
const thinUnder = 10

func dial(a app.AgentView) dialView {
	d := dialView{
		Off: notches(24), Cover: arc(81, 0, min(max(a.Coverage, 0), 1)), Track: arc(81, 0, 1),
		Value: "–", Label: "none yet", Under: "no field rating yet", Percent: strconv.FormatFloat(a.Coverage*100, 'f', 1, 64),
	}
	if r := a.Field.Rating; r != nil {
		d.On, d.Value, d.Label = notches(*r), strconv.FormatFloat(*r, 'f', 1, 64), fmt.Sprintf("%.2f of 24", *r)
		d.Under = "of 24, field only"
		if a.Field.Confirmed+a.Field.Contradicted < thinUnder {
			d.Under += ", thin"
		}
	}
	return d
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
