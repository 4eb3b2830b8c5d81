package pages

import (
	"fmt"
	"strconv"
	"strings"
)

// The drawing of a Merkle path, in units of its view box.
const (
	treeWidth  = 460
	treeMargin = 26
	treeLevel  = 34  // between levels
	treeHeight = 340 // at most, labels aside
	treeGap    = 14  // at least, between a node of the path and its sibling
	treeDots   = 64  // nodes of a level of which each is drawn
)

// A TreeView is the path of one leaf of a Merkle tree to its root, as SVG paths. A
// dot is a line without length and with round ends.
type TreeView struct {
	Height             int
	Path, Nodes        string // from the leaf to the root
	Branches, Siblings string // what the proof gives
	Others             string // nodes that the proof says nothing about, where there is room
	Leaf, Root         label
	Label              string // all of it for a reader who does not see it
}

// A label is a text at a place of a drawing.
type label struct {
	Text, Anchor string // of the text: start, middle or end
	X, Y         float64
}

// A point is a node's place in the drawing.
type point struct{ x, y float64 }

// DrawTree draws the path of a leaf among size to the root (spec section 2), with the
// odd node of a level promoted. An index outside the tree draws nothing but the root.
func DrawTree(index, size uint64, leaf, root string) TreeView {
	d := &treeDrawing{size: max(size, 1)}
	for n := d.size; n > 1; n = (n + 1) / 2 {
		d.levels++
	}
	d.step = treeLevel
	if d.levels > 0 {
		d.step = min(treeLevel, treeHeight/d.levels)
	}
	v := TreeView{Height: d.levels*d.step + 56}
	var path, nodes, branches, siblings, others strings.Builder
	pos, hashes := min(index, d.size-1), 0
	at := d.at(pos, 0)
	v.Leaf = besides(point{at.x, at.y + 22}, leaf, "middle")
	fmt.Fprintf(&path, "M%.1f %.1f", at.x, at.y)
	dot(&nodes, at)
	d.others(&others, pos, 0)
	for l := range d.levels {
		up := d.at(pos>>1, l+1)
		if sib := pos ^ 1; sib < d.width(l) {
			hashes++
			s := apart(d.at(sib, l), at)
			fmt.Fprintf(&branches, "M%.1f %.1fL%.1f %.1f", s.x, s.y, up.x, up.y)
			dot(&siblings, s)
		}
		pos >>= 1
		fmt.Fprintf(&path, "L%.1f %.1f", up.x, up.y)
		dot(&nodes, up)
		d.others(&others, pos, l+1)
		at = up
	}
	v.Root = besides(point{at.x + 12, at.y + 4}, root, "start")
	v.Path, v.Nodes, v.Branches, v.Siblings, v.Others = path.String(), nodes.String(), branches.String(), siblings.String(), others.String()
	v.Label = fmt.Sprintf("Merkle path from %s through %s to the %s", leaf, plural(uint64(hashes), "sibling hash", "sibling hashes"), root)
	return v
}

// besides is a label that does not leave the drawing.
func besides(p point, text, anchor string) label {
	switch {
	case anchor == "middle" && p.x < 60:
		p.x, anchor = treeMargin/2, "start"
	case anchor == "middle" && p.x > treeWidth-60:
		p.x, anchor = treeWidth-treeMargin/2, "end"
	}
	return label{text, anchor, p.x, p.y}
}

type treeDrawing struct {
	size         uint64
	levels, step int
}

// width is how many nodes a level has.
func (d *treeDrawing) width(level int) uint64 { return (d.size-1)>>level + 1 }

// at is the place of a node: above the middle of its leaves.
func (d *treeDrawing) at(pos uint64, level int) point {
	first := pos << level
	last := min((pos+1)<<level, d.size) - 1
	middle := float64(first+last)/2 + .5
	return point{treeMargin + middle/float64(d.size)*(treeWidth-2*treeMargin), float64((d.levels-level)*d.step + 14)}
}

// apart moves a sibling away from the node of the path where they would touch.
func apart(s, node point) point {
	switch {
	case s.x >= node.x && s.x < node.x+treeGap:
		s.x = node.x + treeGap
	case s.x < node.x && s.x > node.x-treeGap:
		s.x = node.x - treeGap
	}
	return s
}

// others draws the nodes of a level that are neither on the path nor beside it.
func (d *treeDrawing) others(b *strings.Builder, pos uint64, level int) {
	if d.width(level) > treeDots {
		return
	}
	for p := range d.width(level) {
		if p>>1 != pos>>1 {
			dot(b, d.at(p, level))
		}
	}
}

func dot(b *strings.Builder, p point) { fmt.Fprintf(b, "M%.1f %.1fh0", p.x, p.y) }

// box is a view box from the origin.
func box(width, height int) string { return fmt.Sprintf("0 0 %d %d", width, height) }

// coordinate writes a number as SVG attributes hold it.
func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
