package canon

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []uint32
	}{
		{`1`, nil},
		{`[]`, []uint32{1}},
		{`[1,2,[],{"a":[3,4],"b":{}}]`, []uint32{4, 1, 2, 2, 1}},
		{"[ 1 ,\n2 ]", []uint32{2}},
		{`["],[\"],[",","]`, []uint32{2}},
		{`[1,,,,,,,`, []uint32{2}},
		{`[,,`, []uint32{1}},
		{`[1,]`, []uint32{2}},
		{`]]]`, nil},
		{`,`, nil},
		{`["`, []uint32{1}},
		{`["\`, []uint32{1}},
		{`[[[[1`, []uint32{1, 1, 1}}, // deeper than three
	} {
		if got := sizes([]byte(tt.text), 3); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.text, got, tt.want)
		}
	}
}

// What is counted before is what the parser finds, in any text that parses.
func FuzzSizes(f *testing.F) {
	for _, seed := range []string{`[1,2,[],{"a":[3,4],"b":{}}]`, `{"a":{"b":[[[]]]},"c":"],[,\""}`, ` [ {} , [ ] , "x" ] `, `[1,]`, `[,`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, err := Parse(text, 64)
		counted := parser{text: text, maxDepth: 64, sizes: sizes(text, 64)}
		got, again := counted.value(0)
		if err != nil {
			return // of the value, or of what follows it
		}
		if again != nil || len(counted.sizes) != 0 || string(Append(nil, got)) != string(Append(nil, want)) {
			t.Fatalf("%v; %d sizes left", again, len(counted.sizes))
		}
		checkExact(t, got)
	})
}

func checkExact(t *testing.T, v Value) {
	if cap(v.Arr) > len(v.Arr)*5/4+1 || cap(v.Obj) > len(v.Obj)*5/4+1 { // a size class may be larger
		t.Fatalf("%d of %d elements, %d of %d members", len(v.Arr), cap(v.Arr), len(v.Obj), cap(v.Obj))
	}
	for _, e := range v.Arr {
		checkExact(t, e)
	}
	for _, m := range v.Obj {
		checkExact(t, m.Value)
	}
}

// Reading the text with the most values for its length leaves next to nothing behind
// but the values.
func TestMemoryOfManyValues(t *testing.T) {
	const n = 500_000
	text := []byte("[" + strings.Repeat("0,", n-1) + "0]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v, err := Parse(text, 64)
	runtime.ReadMemStats(&after)
	if err != nil || len(v.Arr) != n {
		t.Fatalf("%d values, %v", len(v.Arr), err)
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 96 {
		t.Errorf("%d bytes allocated for each value", each)
	}
}
