package pages

import (
	"fmt"
	"strings"
	"testing"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/merkle"
)

func testEpoch(t testing.TB, n int) app.EpochView {
	t.Helper()
	e := app.EpochView{ID: 3, BatchCount: uint64(n), First: 1, Last: uint64(n), Anchor: app.AnchorView{State: "final", ChainID: 31337}}
	for i := range n {
		e.Batches = append(e.Batches, hash(fmt.Sprint("batch ", i)))
	}
	root, err := merkle.Root(e.Batches)
	if err != nil {
		t.Fatal(err)
	}
	e.Root = root
	return e
}

// The path that the page shows is the proof that the API gives, whatever the size.
func TestEpochPath(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 31, 32, 33, 100, flight.MaxEpoch} {
		e := testEpoch(t, n)
		for _, i := range []int{0, n / 2, n - 1} {
			want, err := merkle.Prove(e.Batches, i)
			if err != nil {
				t.Fatal(err)
			}
			for _, asked := range []string{fmt.Sprint(i), e.Batches[i].String(), strings.ToUpper(e.Batches[i].String())} {
				v := ViewEpoch(e, asked, 0)
				if v.Path == nil || !v.Path.Reaches || v.Path.Index != i || v.Path.ID != e.Batches[i] {
					t.Fatalf("%d of %d by %s: %+v", i, n, asked, v.Path)
				}
				var siblings []flight.Hash
				at := merkle.Leaf(e.Batches[i])
				for _, s := range v.Path.Steps {
					switch {
					case s.Alone:
					case s.Left:
						at = merkle.Node(s.Sibling, at)
					default:
						at = merkle.Node(at, s.Sibling)
					}
					if at != s.Result {
						t.Fatalf("%d of %d: a level comes to %s, not %s", i, n, at, s.Result)
					}
					if !s.Alone {
						siblings = append(siblings, s.Sibling)
					}
				}
				if at != e.Root || fmt.Sprint(siblings) != fmt.Sprint(append([]flight.Hash(nil), want.Siblings...)) {
					t.Errorf("%d of %d: siblings %v, want %v", i, n, siblings, want.Siblings)
				}
			}
		}
		for _, asked := range []string{"", "-1", fmt.Sprint(n), hash("none").String(), hostileName} {
			if v := ViewEpoch(e, asked, 0); v.Path != nil {
				t.Errorf("%d: %q has the path %+v", n, asked, v.Path)
			}
		}
	}
}

// Every batch is listed once with its links; a large tree is drawn in blocks, and all
// of the drawing is inside its box.
func TestEpochTree(t *testing.T) {
	s := testSite()
	for _, c := range []struct{ batches, base, inner, blocks int }{{1, 1, 0, 1}, {2, 2, 1, 1}, {5, 5, 6, 1}, {32, 32, 31, 1}, {33, 2, 1, 2}, {511, 16, 15, 16}, {512, 16, 15, 16}} {
		e := testEpoch(t, c.batches)
		v := ViewEpoch(e, fmt.Sprint(c.batches-1), 0)
		if len(v.Tree.Base) != c.base || len(v.Tree.Inner) != c.inner || len(v.Blocks) != c.blocks {
			t.Errorf("%d batches: %d nodes below, %d above, %d blocks; want %+v", c.batches, len(v.Tree.Base), len(v.Tree.Inner), len(v.Blocks), c)
		}
		nodes, on := append(append([]EpochNode{}, v.Tree.Base...), v.Tree.Inner...), 0
		for _, n := range nodes {
			if n.X < 0 || n.X > float64(v.Tree.Width) || v.Tree.Width > epochWidth || n.Y < 0 || n.Y > float64(v.Tree.Height) {
				t.Errorf("%d batches: a node at %.1f, %.1f", c.batches, n.X, n.Y)
			}
			if n.On {
				on++
			}
		}
		if top := nodes[len(nodes)-1]; top.Hash != e.Root || on == 0 || !top.On {
			t.Errorf("%d batches: the top is %s, %d nodes on the way", c.batches, top.Hash, on)
		}
		for block := range v.Blocks {
			page := render(t, s.EpochPage(ViewEpoch(e, "", uint64(block))))
			for i, id := range e.Batches {
				links := strings.Contains(page, fmt.Sprintf(`<a href="/base/batches/%s"`, id)) && strings.Contains(page, fmt.Sprintf(`/base/epochs/3?batch=%s#pa`, id))
				if links != (i/epochBlock == block) {
					t.Errorf("%d batches, block %d: number %d has links: %t", c.batches, block, i, links)
				}
			}
			for i := range v.Blocks {
				if c.blocks > 1 && (!strings.Contains(page, fmt.Sprintf(`id="block-%d"`, i)) || !strings.Contains(page, fmt.Sprintf(`href="/base/epochs/3?block=%d#block-%d"`, i, i))) {
					t.Errorf("%d batches: block %d is not linked", c.batches, i)
				}
			}
		}
		if last := v.Blocks[len(v.Blocks)-1]; !last.Open {
			t.Errorf("%d batches: the last is asked for and not listed", c.batches)
		}
	}
}

// Only networks that others show have links to them.
func TestEpochElsewhere(t *testing.T) {
	s, uid, tx := testSite(), hash("uid"), hash("tx")
	for chain, want := range map[uint64]int{31337: 0, 84532: 2, 11155111: 2, 1: 0} {
		e := testEpoch(t, 2)
		e.Anchor = app.AnchorView{State: "final", ChainID: chain, AttestationUID: &uid, TxHash: &tx}
		page := render(t, s.EpochPage(ViewEpoch(e, "", 0)))
		if got := strings.Count(page, `rel="noreferrer"`); got != want || want > 0 && !strings.Contains(page, "easscan.org/attestation/view/"+uid.String()) {
			t.Errorf("chain %d: %d links elsewhere, want %d", chain, got, want)
		}
	}
}

func BenchmarkEpochPage(b *testing.B) {
	e, s := testEpoch(b, flight.MaxEpoch), testSite()
	for b.Loop() {
		render(b, s.EpochPage(ViewEpoch(e, "300", 0)))
	}
}
