package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"karatum/app"
)

// TapeSteps is how many steps a tape shows.
const TapeSteps = 240

// Measures of the flight tape, in units of its view box.
const (
	tapeWidth  = 1200.0
	tapeMost   = 900.0 // a drawing less wide than this is not stretched
	tapeMargin = 8.0
	tapeAxis   = 92.0
	stepMost   = 26.0 // widest place of one step: a short stream is not stretched
	labelRoom  = 30.0 // between two batch numbers
)

// A TapeView is the flight tape of one stream: up is confirmed, down contradicted,
// hollow unverifiable, a dot sealed, a dashed box a gap, a diamond anchored, and
// bands are batches. Path data is SVG's.
type TapeView struct {
	Name, Label           string
	Zones, Anchors, Seals string
	Base                  string
	Width                 float64
	Short                 bool // drawn in its own size, not over the whole width
	Bars, Gaps            []tapeBar
	Numbers               []tapeNumber
	Rows                  []tapeRow
	Streams               []TapeLink // of the agent, where more than one can be chosen
	Chosen                bool       // by the reader
}

// class is how the drawing is shown: in its own size, or over the whole width.
func (v *TapeView) class() string {
	if v.Short {
		return "tape short"
	}
	return "tape"
}

func (v *TapeView) viewBox() string { return fmt.Sprintf("0 0 %v 176", v.Width) }

type tapeBar struct {
	Class, Title, Href  string
	X, Y, Width, Height string
}

type tapeNumber struct{ X, Text string }

// A tapeRow is one line of the table that says the same.
type tapeRow struct {
	from                     uint64
	Steps, What, Href, Class string
}

// A TapeLink is one choice among the streams of an agent.
type TapeLink struct {
	Name, Href string
	Current    bool
}

// tapeScale maps step numbers to places.
type tapeScale struct {
	from, to uint64
	step     float64
}

func scaleOf(from, to uint64) tapeScale {
	n := float64(to-from) + 1
	return tapeScale{from, to, min((tapeWidth-2*tapeMargin)/n, stepMost)}
}

// left is the left edge of a step's place; numbers outside of the tape are clipped.
func (s tapeScale) left(seq uint64) float64 {
	return tapeMargin + float64(min(max(seq, s.from), s.to+1)-s.from)*s.step
}

func (s tapeScale) width() float64 { return 2*tapeMargin + float64(s.to-s.from+1)*s.step }

// DrawTape draws the last steps of a stream.
func (s *Site) DrawTape(t app.TapeView) *TapeView {
	sc := scaleOf(t.From, t.To)
	v := &TapeView{Name: t.Stream, Width: sc.width(), Short: sc.width() < tapeMost, Base: fmt.Sprintf("M0 %gH%.1f", tapeAxis, sc.width())}
	s.tapeBatches(v, sc, t)
	for _, g := range t.Gaps {
		title := fmt.Sprintf("Steps %d to %d were never delivered", g.Seqs[0], g.Seqs[1])
		x := sc.left(g.Seqs[0])
		v.Gaps = append(v.Gaps, bar("gap", title, "", x+.5, 30, max(sc.left(g.Seqs[1]+1)-x-1, 2), 116))
		v.Rows = append(v.Rows, tapeRow{g.Seqs[0], span(g.Seqs[0], g.Seqs[1]), "gap, never delivered", "", "warn"})
	}
	counts := s.tapeOpened(v, sc, t)
	v.Label = fmt.Sprintf("Last %d steps of stream %s: %d sealed, %d confirmed, %d contradicted, %d unverifiable, %d in gaps.",
		t.To-t.From+1, Visible(t.Stream), counts.sealed, counts.confirmed, counts.contradicted, counts.unverifiable, counts.missing)
	return v
}

// tapeBatches draws bands, numbers and anchors.
func (s *Site) tapeBatches(v *TapeView, sc tapeScale, t app.TapeView) {
	var zones, anchors strings.Builder
	lastNumber := -labelRoom
	for i, b := range t.Batches {
		x, end := sc.left(b.FromSeq), sc.left(b.ToSeq+1)
		if b.Index%2 == 1 {
			fmt.Fprintf(&zones, "M%.1f 26H%.1fV150H%.1fz", x, end, x)
		}
		// A diamond stands where anchored batches end, so that many batches of one
		// epoch are one mark.
		if b.Anchored && (i == len(t.Batches)-1 || !t.Batches[i+1].Anchored || end-x > labelRoom) {
			fmt.Fprintf(&anchors, "M%.1f 10l6 6-6 6-6-6z", max(end, tapeMargin))
		}
		if x-lastNumber >= labelRoom {
			v.Numbers = append(v.Numbers, tapeNumber{fmt.Sprintf("%.1f", x+2), fmt.Sprint(b.Index)})
			lastNumber = x
		}
		what := "sealed, signed, waits for its anchor"
		if b.Anchored {
			what = "sealed, signed, anchored"
		}
		v.Rows = append(v.Rows, tapeRow{b.FromSeq, span(max(b.FromSeq, t.From), b.ToSeq), fmt.Sprintf("batch %d: %s", b.Index, what), s.Link("batches", b.BatchID), ""})
	}
	v.Zones, v.Anchors = zones.String(), anchors.String()
}

type tapeCounts struct{ sealed, confirmed, contradicted, unverifiable, missing uint64 }

// tapeOpened draws the opened steps and a dot for every other delivered one.
func (s *Site) tapeOpened(v *TapeView, sc tapeScale, t app.TapeView) (n tapeCounts) {
	opened := map[uint64]bool{}
	w := min(max(sc.step-.4, 1.5), 10)
	for _, o := range t.Opened {
		opened[o.Seq] = true
		x := sc.left(o.Seq) + (sc.step-w)/2
		title := fmt.Sprintf("Step %d, %s", o.Seq, o.State)
		if o.ClaimKind != "" {
			title += ", claimed " + o.ClaimKind
		}
		href := s.StepLink(t.Agent, t.Stream, o.Seq)
		switch o.State {
		case "confirmed":
			n.confirmed++
			v.Bars = append(v.Bars, bar("ok", title, href, x, 32, w, 60))
		case "contradicted":
			n.contradicted++
			v.Bars = append(v.Bars, bar("bad", title, href, x, tapeAxis, w, 52))
		default:
			n.unverifiable++
			v.Bars = append(v.Bars, bar("unk", title, href, x, 79, w, 26))
		}
		v.Rows = append(v.Rows, tapeRow{o.Seq, fmt.Sprint(o.Seq), "opened, " + o.State, href, stateClass(o.State)})
	}
	var dots strings.Builder
	total := t.To - t.From + 1
	for _, b := range t.Batches {
		for seq := max(b.FromSeq, t.From); seq <= b.ToSeq; seq++ {
			n.missing++ // counts the delivered, until the end
			if !opened[seq] {
				n.sealed++
				fmt.Fprintf(&dots, "M%.1f 89.5h2v5h-2z", sc.left(seq)+sc.step/2-1)
			}
		}
	}
	n.missing = total - min(n.missing, total)
	v.Seals = dots.String()
	slices.SortStableFunc(v.Rows, func(a, b tapeRow) int { return cmp.Compare(b.from, a.from) }) // newest first
	return n
}

func span(from, to uint64) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

func bar(class, title, href string, x, y, w, h float64) tapeBar {
	f := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return tapeBar{class, title, href, f(x), f(y), f(w), f(h)}
}
