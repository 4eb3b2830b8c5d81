package pages

import (
	"strings"
	"testing"
)

func TestDrawSpark(t *testing.T) {
	if v := drawSpark(nil); v != (sparkView{}) {
		t.Errorf("of nothing: %+v", v)
	}
	v := drawSpark([]uint64{0, 1, 100000, 50000})
	want := sparkView{
		Past: "M0 40v-1h7v1zM10 40v-3h7v3zM20 40v-40h7v40z", Now: "M30 40v-20h7v20z", ViewBox: "0 0 37 40",
		Label: "Batches stored in each of the last 4 minutes: at most 100,000 in one",
	}
	if v != want {
		t.Errorf("got  %+v\nwant %+v", v, want)
	}
	if v := drawSpark(make([]uint64, 60)); strings.Contains(v.Past+v.Now, "NaN") || strings.Count(v.Past, "v-1h") != 59 {
		t.Errorf("an hour of nothing: %+v", v)
	}
}
