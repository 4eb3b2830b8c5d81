package pages

import (
	"fmt"

	"karatum/flight"
)

// A glyphView is a small picture of an address, so that look-alike addresses are
// told apart at a glance: five cells by five, mirrored, in one of 360 hues.
type glyphView struct{ Back, Fore, Path string }

func glyph(a flight.Address) glyphView {
	h := flight.Keccak256(a[:])
	hue := (int(h[0])<<8 | int(h[1])) % 360
	var path []byte
	cell := func(x, y int) {
		path = append(path, 'M', '0'+byte(x), ' ', '0'+byte(y))
		path = append(path, "h1v1h-1z"...)
	}
	for i := range 15 {
		if h[2+i/8]>>(i%8)&1 == 0 {
			continue
		}
		if cell(i/5, i%5); i/5 < 2 {
			cell(4-i/5, i%5)
		}
	}
	return glyphView{fmt.Sprintf("hsl(%d 42%% 30%%)", hue), fmt.Sprintf("hsl(%d 60%% 88%%)", hue), string(path)}
}
