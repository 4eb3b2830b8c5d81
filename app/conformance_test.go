package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func vectorFile(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("../testvectors/v1.json")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformanceReproducesEveryVector(t *testing.T) {
	var out bytes.Buffer
	passed, failed, err := Conformance(vectorFile(t), &out)
	if err != nil || failed != 0 || passed < 1500 {
		t.Fatalf("Conformance = %d passed, %d failed, %v; want over 1500, 0, nil\n%s", passed, failed, err, &out)
	}
	want := fmt.Sprintf("agents: not covered\nsuites: not covered\n%d passed, 0 failed\n", passed)
	if out.String() != want {
		t.Errorf("report:\n%s\nwant:\n%s", &out, want)
	}
}

// smallVectors returns the vector file as a tree, its lists cut to three elements
// so that it can be run hundreds of times. The lists whose length is pinned by a
// root stay whole.
func smallVectors(t *testing.T) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(vectorFile(t)))
	dec.UseNumber()
	var top map[string]any
	if err := dec.Decode(&top); err != nil {
		t.Fatal(err)
	}
	delete(top, "suites")
	delete(top, "agents")
	for _, section := range []string{"canonicalJson", "flight"} {
		s := top[section].(map[string]any)
		for k, v := range s {
			if list, ok := v.([]any); ok {
				s[k] = list[:min(3, len(list))]
			}
		}
	}
	return top
}

func runVectors(t *testing.T, top map[string]any) (passed, failed int, report string) {
	t.Helper()
	text, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	passed, failed, err = Conformance(text, &out)
	if err != nil {
		t.Fatal(err)
	}
	return passed, failed, out.String()
}

// eachPlace calls visit for every place of the tree with a way to put something
// else there. It descends into the first element of a list only.
func eachPlace(path string, v any, set func(any), visit func(path string, v any, set func(any))) {
	visit(path, v, set)
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			eachPlace(path+"."+k, v[k], func(x any) {
				if x == nil {
					delete(v, k)
				} else {
					v[k] = x
				}
			}, visit)
		}
	case []any:
		if len(v) > 0 {
			eachPlace(path+"[0]", v[0], func(x any) { v[0] = x }, visit)
		}
	}
}

func TestConformanceNoticesEveryChange(t *testing.T) {
	top := smallVectors(t)
	if _, failed, report := runVectors(t, top); failed != 0 {
		t.Fatalf("unchanged: %s", report)
	}
	changed := 0
	eachPlace("", top, nil, func(path string, v any, set func(any)) {
		var other any
		switch v := v.(type) {
		case string:
			other = changeString(v)
		case json.Number:
			other = json.Number("1" + v.String())
		case bool:
			other = !v
		default:
			return
		}
		if strings.HasSuffix(path, ".why") || path == ".note" {
			return // remarks for readers
		}
		for _, p := range []string{".impossible[0].header", ".reject[0].signature", ".tampered[0].disclosure.reveal"} {
			if strings.HasPrefix(path, ".flight"+p) || strings.HasPrefix(path, ".flight.signatureForms"+p) {
				return // wrong on purpose, and as wrong after a change
			}
		}
		set(other)
		_, failed, _ := runVectors(t, top)
		set(v)
		changed++
		if failed == 0 {
			t.Errorf("%s: %.60q changed to %.60q and nothing failed", path, v, other)
		}
	})
	if changed < 200 {
		t.Errorf("only %d places were changed", changed)
	}
}

// changeString changes the last character, keeping hex hex.
func changeString(s string) string {
	switch {
	case s == "":
		return "x"
	case strings.HasSuffix(s, "0"):
		return s[:len(s)-1] + "1"
	}
	return s[:len(s)-1] + "0"
}

func TestConformanceFailsOnWhatIsMissing(t *testing.T) {
	top := smallVectors(t)
	for _, section := range []string{"canonicalJson", "flight"} {
		s := top[section].(map[string]any)
		for _, k := range slices.Sorted(maps.Keys(s)) {
			kept := s[k]
			delete(s, k)
			if _, failed, _ := runVectors(t, top); failed == 0 {
				t.Errorf("without %s.%s nothing failed", section, k)
			}
			if _, isList := kept.([]any); isList {
				s[k] = []any{}
				if _, failed, _ := runVectors(t, top); failed == 0 {
					t.Errorf("with an empty %s.%s nothing failed", section, k)
				}
			}
			s[k] = kept
		}
		delete(top, section)
		if _, failed, _ := runVectors(t, top); failed == 0 {
			t.Errorf("without %s nothing failed", section)
		}
		top[section] = s
	}
}

func TestConformanceNamesWhatItDoesNotCover(t *testing.T) {
	top := smallVectors(t)
	wantPassed, _, _ := runVectors(t, top)
	objects := 0
	eachPlace("", top, nil, func(path string, v any, _ func(any)) {
		o, ok := v.(map[string]any)
		// Protocol documents are closed: there, an unknown key is an error.
		if !ok || insideDocument(path) {
			return
		}
		objects++
		o["extraKey"] = 1
		passed, failed, report := runVectors(t, top)
		delete(o, "extraKey")
		if at := strings.TrimPrefix(path+".extraKey", ".") + ": not covered\n"; !strings.Contains(report, at) || passed != wantPassed || failed != 0 {
			t.Errorf("%s: %d passed, %d failed, want %d, 0 and the line %q in\n%s", path, passed, failed, wantPassed, at, report)
		}
	})
	if objects < 15 {
		t.Errorf("only %d objects were tried", objects)
	}
}

func insideDocument(path string) bool {
	for _, p := range []string{".claims[0]", ".step", ".header", ".disclosure", ".disclosures[0]", ".brokenChain", ".proofs[0]", ".value", ".openings"} {
		if strings.Contains(path+".", p+".") {
			return true
		}
	}
	return false
}

func TestConformanceErrors(t *testing.T) {
	if _, _, err := Conformance([]byte(`[]`), io.Discard); err == nil {
		t.Error("an array was taken for a vector file")
	}
	if _, _, err := Conformance([]byte(`{`), io.Discard); err == nil {
		t.Error("a torn file was taken for a vector file")
	}
	broken := errors.New("disk full")
	if _, _, err := Conformance(vectorFile(t), refusingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("err = %v, want %v", err, broken)
	}
}

type refusingWriter struct{ err error }

func (w refusingWriter) Write([]byte) (int, error) { return 0, w.err }
