package pages

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"

	"karatum/app"
	"karatum/flight"
)

func TestBatchLines(t *testing.T) {
	batch := app.BatchView{BatchID: hash("b"), Header: flight.Header{FromSeq: 10, ToSeq: 19}}
	ok := func(seqs ...uint64) (out app.OpenedSteps) {
		for _, s := range seqs {
			out.Steps = append(out.Steps, app.TapeStep{Seq: s, State: "confirmed"})
		}
		out.Count = uint64(len(seqs))
		return out
	}
	open := func(seq uint64) BatchLine { return BatchLine{seq, seq, "confirmed", ""} }
	for _, tt := range []struct {
		opened app.OpenedSteps
		want   []BatchLine
		note   string
	}{
		{ok(), []BatchLine{{From: 10, To: 19}}, "0 of 10 opened"},
		{ok(10), []BatchLine{open(10), {From: 11, To: 19}}, "1 of 10 opened"},
		{ok(19), []BatchLine{{From: 10, To: 18}, open(19)}, "1 of 10 opened"},
		{ok(12, 13, 15), []BatchLine{{From: 10, To: 11}, open(12), open(13), {From: 14, To: 14}, open(15), {From: 16, To: 19}}, "3 of 10 opened"},
	} {
		v, err := ViewBatch(batch, tt.opened)
		if err != nil || !reflect.DeepEqual(v.Lines, tt.want) || v.openedNote() != tt.note {
			t.Errorf("%v opened: %v, %q, %v; want %v, %q", tt.opened, v.Lines, v.openedNote(), err, tt.want, tt.note)
		}
	}
	batch.Header.FromSeq, batch.Header.ToSeq = 0, 999
	first := app.OpenedSteps{Count: 250}
	for seq := range uint64(MaxBatchLines) {
		first.Steps = append(first.Steps, app.TapeStep{Seq: seq, State: "confirmed"})
	}
	v, err := ViewBatch(batch, first)
	if err != nil || len(v.Lines) != MaxBatchLines || v.Unshown != 50 || v.openedNote() != "250 of 1,000 opened" {
		t.Errorf("250 opened: %d lines, %d not shown, %q, %v", len(v.Lines), v.Unshown, v.openedNote(), err)
	}
}

// The fragment is the batch, as the API gives it.
func TestBatchFragment(t *testing.T) {
	batch := app.BatchView{BatchID: hash("b"), Header: flight.Header{Stream: hostileStream}}
	v, err := ViewBatch(batch, app.OpenedSteps{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(v.Fragment)
	want, _ := json.Marshal(batch)
	if err != nil || string(raw) != string(want) {
		t.Errorf("the fragment holds %s, %v", raw, err)
	}
}
