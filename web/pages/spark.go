package pages

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// sparkHeight is the height of the highest bar, in the units of the drawing.
const sparkHeight = 40

// A sparkView is bars in two SVG paths; Label is "" where there is nothing to draw.
type sparkView struct {
	Past, Now, ViewBox, Label string
}

// drawSpark lays out the counts of minutes, the oldest first and the running one last;
// live.js does the same for later counts. A minute of few batches shows beside one of
// many; one of none is a hair line.
func drawSpark(minutes []uint64) (v sparkView) {
	if len(minutes) == 0 {
		return v
	}
	highest := slices.Max(minutes)
	bar := func(i int) string {
		n, height := minutes[i], 1
		if n > 0 {
			height = max(3, int(math.Round(sparkHeight*float64(n)/float64(highest))))
		}
		return fmt.Sprintf("M%d %dv-%dh7v%[3]dz", 10*i, sparkHeight, height)
	}
	last := len(minutes) - 1
	var past strings.Builder
	for i := range last {
		past.WriteString(bar(i))
	}
	v.Past, v.Now, v.ViewBox = past.String(), bar(last), fmt.Sprintf("0 0 %d %d", 10*len(minutes)-3, sparkHeight)
	v.Label = fmt.Sprintf("Batches stored in each of the last %d minutes: at most %s in one", len(minutes), number(highest))
	return v
}
