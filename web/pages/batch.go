package pages

import (
	"encoding/base64"
	"encoding/json"

	"karatum/app"
	"karatum/flight"
)

// A BatchView is the page of one batch.
type BatchView struct {
	app.BatchView
	Lines    []BatchLine
	Unshown  uint64 // opened steps beyond those of Lines
	Fragment string // the batch with its receipt, as /verify takes it after the #
}

// A BatchLine is one opened step, or a run of sealed ones.
type BatchLine struct {
	From, To  uint64
	State     string // of the verdict; "" where sealed
	ClaimKind string
}

// MaxBatchLines is how many opened steps the page of a batch lists.
const MaxBatchLines = 200

// batchFile is how a batch is called on the reader's disk.
func batchFile(id flight.Hash) string { return "batch-" + id.String()[:10] + ".json" }

// ViewBatch makes the view; opened are the first opened steps of the batch, by number.
func ViewBatch(b app.BatchView, opened app.OpenedSteps) (BatchView, error) {
	doc, err := json.Marshal(b)
	if err != nil {
		return BatchView{}, err
	}
	v := BatchView{BatchView: b, Fragment: base64.RawURLEncoding.EncodeToString(doc)}
	v.Unshown = opened.Count - uint64(len(opened.Steps))
	next := b.Header.FromSeq
	for _, o := range opened.Steps {
		if o.Seq > next {
			v.Lines = append(v.Lines, BatchLine{From: next, To: o.Seq - 1})
		}
		v.Lines = append(v.Lines, BatchLine{o.Seq, o.Seq, o.State, o.ClaimKind})
		next = o.Seq + 1
	}
	if next <= b.Header.ToSeq && v.Unshown == 0 {
		v.Lines = append(v.Lines, BatchLine{From: next, To: b.Header.ToSeq})
	}
	return v, nil
}

// openedNote says how many steps of the batch are open.
func (v BatchView) openedNote() string {
	opened := v.Unshown
	for _, l := range v.Lines {
		if l.State != "" {
			opened++
		}
	}
	return number(opened) + " of " + number(v.Header.ToSeq-v.Header.FromSeq+1) + " opened"
}
