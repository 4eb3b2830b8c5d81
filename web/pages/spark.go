package pages

import (
	"fmt"
	"slices"
	"strings"
)

// sparkHeight is the height of the highest bar, in the units of the drawing.
const sparkHeight = 40

// A sparkView is bars in two SVG paths; Label is "" where there is nothing to draw.
type sparkView struct {
	Past, Now, ViewBox, Label string
}

// drawSpark lays out the counts of minutes, the oldest first and the running one
// last. A minute of few batches shows beside one of many; one of none is a hair line.
func drawSpark(minutes []uint64) (v sparkView) {
	if len(minutes) == 0 {
		return v
	}
	highest := slices.Max(minutes)
	bar := func(i int) string {
		n, height := minutes[i], 1.0
		if n > 0 {
			height = max(3, sparkHeight*float64(n)/float64(highest))
		}
		return fmt.Sprintf("M%d %dv-%.3gh7v%[3]gz", 10*i, sparkHeight, height)
	}
	last := len(minutes) - 1
	var past strings.Builder
	for i := range last {
		past.WriteString(bar(i))
	}
	v.Past, v.Now, v.ViewBox = past.String(), bar(last), fmt.Sprintf("0 0 %d %d", 10*len(minutes)-3, sparkHeight)
	var sum uint64
	for _, n := range minutes {
		sum += n
	}
	v.Label = fmt.Sprintf("Batches stored in each of the last %d minutes: %s in all, %s in the running minute, at most %s in one",
		len(minutes), number(sum), number(minutes[last]), number(highest))
	return v
}
