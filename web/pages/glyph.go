package pages

import (
	"fmt"
	"strings"

	"karatum/flight"
)

// A glyphView is a small picture of an address, so that look-alike addresses are
// told apart at a glance: five cells by five, mirrored, in one of 360 hues.
type glyphView struct{ Back, Fore, Path string }

func glyph(a flight.Address) glyphView {
	h := flight.Keccak256(a[:])
	hue := (int(h[0])<<8 | int(h[1])) % 360
	var b strings.Builder
	for i := range 15 {
		if h[2+i/8]>>(i%8)&1 == 0 {
			continue
		}
		x, y := i/5, i%5
		fmt.Fprintf(&b, "M%d %dh1v1h-1z", x, y)
		if x < 2 {
			fmt.Fprintf(&b, "M%d %dh1v1h-1z", 4-x, y)
		}
	}
	return glyphView{fmt.Sprintf("hsl(%d 42%% 30%%)", hue), fmt.Sprintf("hsl(%d 60%% 88%%)", hue), b.String()}
}
