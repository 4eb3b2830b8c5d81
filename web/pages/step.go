package pages

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"karatum/app"
	"karatum/flight"
	"karatum/flight/canon"
	"karatum/web/verifier"
)

// A StepView is a step as pages show it.
type StepView struct {
	app.StepView
	Record  flight.Step
	Said    *ClaimView
	Replays *ReplayedView // nil where none was asked for
	// The rest is of the page of one step; lists leave it empty.
	Fields []FieldView
	Batch  flight.Header
	Place  flight.Proof // of the step in its batch
	Epoch  *PlaceView   // nil until the batch is anchored
	Panel  verifier.Panel
}

// A PlaceView is where a batch stands in its epoch, and what that is written in.
type PlaceView struct {
	Place  flight.Proof
	Anchor app.AnchorView
}

// A ReplayedView is a replay in a few words.
type ReplayedView struct {
	ID                 uint64
	Class, Badge, Text string
}

// A FieldView is one committed field of a step, opened or sealed.
type FieldView struct {
	Name       string
	Commitment flight.Hash
	Opened     bool
	Salt       flight.Hash
	Lines      []ValueLine // of an object with few keys; else empty
	Text       string      // any other value as JSON
	Exact      string      // the bytes that were hashed, as far as a page shows them
	Size       int         // of those bytes
}

// A ValueLine is one key of an opened object.
type ValueLine struct {
	Key, Value string
	Note       string // the value in other words, "" for none
	Hash       bool
}

// What a page shows of an opened value.
const (
	maxValueLines  = 32
	maxPreviewSize = 64 << 10 // bytes
)

// ViewStep reads the record and the claim of a step. The error names a step that is
// not in the form of the spec, which the store does not hold.
func ViewStep(v app.StepView) (StepView, error) {
	doc, err := canon.Parse(v.Step, canon.MaxDepth)
	if err != nil {
		return StepView{}, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	record, err := flight.ParseStep(doc)
	if err != nil {
		return StepView{}, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	var chainID uint64
	if record.ChainID != nil {
		chainID = *record.ChainID
	}
	return StepView{StepView: v, Record: record, Said: readClaim(v.Claim, chainID), Replays: readReplay(v.Replay)}, nil
}

// ViewOpened is ViewStep for the page of one step: it reads the disclosure as well.
func ViewOpened(v app.StepView) (StepView, error) {
	out, err := ViewStep(v)
	if err != nil {
		return out, err
	}
	d, err := flight.ParseDisclosure(v.Disclosure)
	if err != nil {
		return out, fmt.Errorf("step %s: %w", v.StepHash, err)
	}
	out.Batch, out.Place = d.Batch.Header, d.Proof
	for _, name := range flight.Fields {
		commitment := out.Record.Commitment(name)
		if commitment == nil {
			continue
		}
		f := FieldView{Name: name, Commitment: *commitment}
		for _, o := range d.Reveal {
			if o.Field == name {
				f.open(o)
				if name == "claim" {
					f.say(out.Said)
				}
			}
		}
		out.Fields = append(out.Fields, f)
	}
	return out, nil
}

// open shows what a field was opened to.
func (f *FieldView) open(o flight.Opening) {
	text := canon.Append(nil, o.Value)
	f.Opened, f.Salt, f.Size = true, o.Salt, len(text)
	f.Exact = Visible(cut(text))
	if o.Value.Kind != canon.Object || len(o.Value.Obj) > maxValueLines || len(o.Value.Obj) == 0 {
		f.Text = f.Exact
		return
	}
	for _, m := range o.Value.Obj {
		value := cut(canon.Append(nil, m.Value))
		if m.Value.Kind == canon.String {
			value = m.Value.Str
		}
		f.Lines = append(f.Lines, ValueLine{Key: m.Key, Value: value, Hash: m.Value.Kind == canon.String && isHex(value)})
	}
}

// say puts what a claim moves beside its base units; nil is no claim.
func (f *FieldView) say(c *ClaimView) {
	if c == nil {
		return
	}
	key := map[string]string{flight.ClaimERC20: "amount", flight.ClaimNative: "value"}[c.Kind]
	for i := range f.Lines {
		if l := &f.Lines[i]; key != "" && l.Key == key && c.What != "" {
			l.Note = c.What
		}
	}
}

// cut bounds a text at a page's preview, between two characters.
func cut(text []byte) string {
	if len(text) <= maxPreviewSize {
		return string(text)
	}
	n := maxPreviewSize
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return string(text[:n])
}

// sizeWords says how many bytes were hashed, and that the page does not show them all.
func (f FieldView) sizeWords() string {
	if f.Size > previewRunes {
		return byteSize(uint64(f.Size)) + ", of which the beginning stands here; the JSON has all"
	}
	return plural(uint64(f.Size), "byte", "bytes")
}

// readReplay returns nil where no replay was asked for.
func readReplay(raw json.RawMessage) *ReplayedView {
	var r *struct {
		ID     uint64
		State  string
		Result *struct{ Reproduced bool }
	}
	if len(raw) == 0 || json.Unmarshal(raw, &r) != nil || r == nil {
		return nil
	}
	v := &ReplayedView{ID: r.ID, Class: "line"}
	switch {
	case r.State == "done" && r.Result != nil && r.Result.Reproduced:
		v.Badge, v.Text = "Replay reproduced it", "Executed again on the state before it: same status, same logs"
	case r.State == "done":
		v.Class, v.Badge, v.Text = "warn", "Replay differs", "Executed again on the state before it, with another outcome"
	case r.State == "failed":
		v.Badge, v.Text = "Not replayed", "It could not be executed again, which proves nothing"
	case r.State == "cancelled":
		v.Badge, v.Text = "Replay cancelled", "The operator took the replay out of the queue"
	default:
		v.Badge, v.Text = "Replay "+r.State, "Waits to be executed again"
	}
	return v
}

// openedFields says how many of the committed fields are open.
func (v StepView) openedFields() string {
	open := 0
	for _, f := range v.Fields {
		if f.Opened {
			open++
		}
	}
	return fmt.Sprintf("%d of %s", open, plural(uint64(len(v.Fields)), "field", "fields"))
}

// neighbours says how many steps of the batch the proof leaves as they are; others may
// open them.
func (v StepView) neighbours() string {
	switch v.Place.Size {
	case 0, 1:
		return "the only step of its batch"
	case 2:
		return "opens nothing of its neighbour"
	}
	return "opens nothing of its " + number(v.Place.Size-1) + " neighbours"
}

// permanence says whether the chain may still take the verdict back.
func permanence(final bool) string {
	if final {
		return "final"
	}
	return "may still change"
}
