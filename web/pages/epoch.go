package pages

import (
	"fmt"
	"strconv"
	"strings"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/merkle"
)

// The drawing of an epoch's tree, in units of its view box. A large tree is drawn from
// the nodes over blocks of leaves up; the leaves of a block are a list below.
const (
	epochBlockLevel = 5 // a block is 32 leaves
	epochBlock      = 1 << epochBlockLevel
	epochWidth      = 720
	epochSpace      = 96 // for a node of the lowest level, where all fit
	epochStep       = 44 // between levels
	epochMargin     = 18
)

// An EpochView is the page of one epoch, with its tree and, where the reader asked for
// one, the path of a batch.
type EpochView struct {
	app.EpochView
	Tree   EpochTree
	Blocks []BatchBlock
	Asked  string     // a batch that was asked for, "" for none
	Path   *BatchPath // of it, nil where it is not in this epoch
}

// A BatchBlock is a run of batches under one node.
type BatchBlock struct {
	First int
	Node  flight.Hash
	IDs   []flight.Hash
	Open  bool // its batches are listed: of large epochs that is one block at a time
}

// A BatchPath leads from a batch to the root.
type BatchPath struct {
	Index   int
	ID      flight.Hash
	Steps   []PathStep
	Reaches bool // the root that was anchored
}

// A PathStep is one level of a path. At a level where the node is the odd one out it
// has no sibling and stays as it is.
type PathStep struct {
	Left, Alone     bool // the sibling stands at the left; there is none
	Sibling, Result flight.Hash
}

// ViewEpoch makes the view; batch is an id, a place in the epoch, or empty. Listed are
// the batches of the block that holds it; where none was asked for, of that block.
func ViewEpoch(e app.EpochView, batch string, block uint64) EpochView {
	v := EpochView{EpochView: e, Asked: batch}
	levels := merkleLevels(e.Batches)
	index := placeOf(e.Batches, batch)
	if index >= 0 {
		v.Path = pathOf(levels, e.Batches[index], index)
		v.Path.Reaches = levels[len(levels)-1][0] == e.Root
		block = uint64(index) >> epochBlockLevel
	}
	base := 0
	if len(e.Batches) > epochBlock {
		base = epochBlockLevel
	}
	v.Tree = drawEpoch(levels, base, index)
	for first := 0; first < len(e.Batches); first += epochBlock {
		end := min(first+epochBlock, len(e.Batches))
		v.Blocks = append(v.Blocks, BatchBlock{
			First: first, Node: levels[min(epochBlockLevel, len(levels)-1)][first>>epochBlockLevel], IDs: e.Batches[first:end],
			Open: block == uint64(first)>>epochBlockLevel,
		})
	}
	return v
}

// placeOf returns the place of a batch, -1 where it has none.
func placeOf(ids []flight.Hash, batch string) int {
	if n, err := strconv.Atoi(batch); err == nil {
		if n < 0 || n >= len(ids) {
			return -1
		}
		return n
	}
	for i, id := range ids {
		if id.String() == strings.ToLower(batch) {
			return i
		}
	}
	return -1
}

// merkleLevels returns the nodes of all levels, the leaves first.
func merkleLevels(ids []flight.Hash) [][]flight.Hash {
	level := make([]flight.Hash, len(ids))
	for i, id := range ids {
		level[i] = merkle.Leaf(id)
	}
	levels := [][]flight.Hash{level}
	for len(level) > 1 {
		var up []flight.Hash
		for i := 0; i < len(level); i += 2 {
			if i+1 == len(level) {
				up = append(up, level[i])
				continue
			}
			up = append(up, merkle.Node(level[i], level[i+1]))
		}
		levels, level = append(levels, up), up
	}
	return levels
}

func pathOf(levels [][]flight.Hash, id flight.Hash, index int) *BatchPath {
	p := &BatchPath{Index: index, ID: id}
	for l, at := 0, index; l < len(levels)-1; l, at = l+1, at/2 {
		s := PathStep{Left: at%2 == 1, Result: levels[l+1][at/2]}
		if sibling := at ^ 1; sibling < len(levels[l]) {
			s.Sibling = levels[l][sibling]
		} else {
			s.Alone = true
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// An EpochTree is the drawing: lines between nodes, and the nodes.
type EpochTree struct {
	Width, Height int
	Branches, Way string // SVG paths; Way is that of the batch which was asked for
	Base          []EpochNode
	Inner         []EpochNode // the root is the last
	Blocks        bool        // the base are blocks of leaves
	Leaves, Depth int
}

// An EpochNode is a node of the drawing.
type EpochNode struct {
	Index int // from the left
	Hash  flight.Hash
	X, Y  float64
	On    bool // on the way of the batch
}

// radius is that of the node's circle; on the way of a batch it is larger.
func (n *EpochNode) radius(usual int) int {
	if n.On {
		return usual + 3
	}
	return usual
}

// drawEpoch draws the levels from base on; index is the leaf whose way is marked, or -1.
func drawEpoch(levels [][]flight.Hash, base, index int) EpochTree {
	top := len(levels) - 1
	t := EpochTree{Width: min(epochWidth, 2*epochMargin+epochSpace*len(levels[base])), Height: (top-base)*epochStep + 2*epochMargin, Blocks: base > 0, Leaves: len(levels[0]), Depth: top}
	var branches, way strings.Builder
	var below []EpochNode
	for l := base; l <= top; l++ {
		row := make([]EpochNode, len(levels[l]))
		for i := range row {
			n := EpochNode{Index: i, Hash: levels[l][i], Y: float64((top-l)*epochStep + epochMargin), On: index >= 0 && index>>l == i}
			if l == base {
				n.X = epochMargin + (float64(i)+.5)*float64(t.Width-2*epochMargin)/float64(len(row))
			} else {
				children := below[2*i : min(2*i+2, len(below))]
				n.X = (children[0].X + children[len(children)-1].X) / 2
				for _, c := range children {
					line := &branches
					if c.On {
						line = &way
					}
					fmt.Fprintf(line, "M%.1f %.1fL%.1f %.1f", c.X, c.Y, n.X, n.Y)
				}
			}
			row[i] = n
		}
		if l == base {
			t.Base = row
		} else {
			t.Inner = append(t.Inner, row...)
		}
		below = row
	}
	t.Branches, t.Way = branches.String(), way.String()
	return t
}

func (t *EpochTree) box() string { return fmt.Sprintf("0 0 %d %d", t.Width, t.Height) }

// about says the drawing in words.
func (t *EpochTree) about() string {
	text := fmt.Sprintf("Merkle tree of %s in %s", plural(uint64(t.Leaves), "batch", "batches"), plural(uint64(t.Depth+1), "level", "levels"))
	if t.Blocks {
		text += fmt.Sprintf("; the lowest nodes shown stand for up to %d batches each", epochBlock)
	}
	return text
}

// blockName is how a run of batches is called.
func blockName(b BatchBlock) string {
	if len(b.IDs) == 1 {
		return fmt.Sprintf("Batch %d", b.First)
	}
	return fmt.Sprintf("Batches %d to %d", b.First, b.First+len(b.IDs)-1)
}

// explorers are the public networks that have pages for attestations and transactions.
var explorers = map[uint64]struct{ attestation, tx string }{
	84532:    {"https://base-sepolia.easscan.org/attestation/view/", "https://sepolia.basescan.org/tx/"},
	11155111: {"https://sepolia.easscan.org/attestation/view/", "https://sepolia.etherscan.io/tx/"},
}

// attestationAt is where others show an attestation, "" where nobody does.
func attestationAt(a app.AnchorView) string {
	at, ok := explorers[a.ChainID]
	if !ok || a.AttestationUID == nil {
		return ""
	}
	return at.attestation + a.AttestationUID.String()
}

// txAt is where others show a transaction, "" where nobody does.
func txAt(chainID uint64, tx *flight.Hash) string {
	at, ok := explorers[chainID]
	if !ok || tx == nil {
		return ""
	}
	return at.tx + tx.String()
}
