package chain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

var scanned = []string{
	``, ` `, `[]`, ` [ ] `, `{}`, `{ }`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1}`, `{"a":1,}`, `{"a" : [1, {"b":null}] , "c":"\u00e9\n"}`,
	`{"a":1,"a":2}`, `{a:1}`, `{"a"}`, `{"a":}`, `["x\q"]`, `["\u12g4"]`, `["\u123"]`, `["`, `["\`, "[\"\x01\"]", "[\"\x7f\xff\"]", `[tru]`, `[true,false,null]`,
	`[0,-0,-1.5e+10,1E-2,0.0]`, `[01]`, `[-]`, `[1.]`, `[.1]`, `[1e]`, `[+1]`, `[1]x`, `[[[]]]`, `[[}`, `{"jsonrpc":"2.0","id":1,"result":"0x12"}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no","data":"0x"}}`, `[{"id":1},{"id":2}]`, "[\t1\r\n]", `"a"`, `1`,
}

// What the scan takes for JSON is what encoding/json takes for it, and it cuts at
// the same places.
func FuzzScan(f *testing.F) {
	for _, s := range scanned {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var elements []json.RawMessage
		var got [][]byte
		ok := array(text, func(e []byte) { got = append(got, e) })
		isArray := bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("[")) && json.Unmarshal(text, &elements) == nil
		if ok != isArray {
			t.Fatalf("array: %v, encoding/json: %v", ok, isArray)
		}
		for i := range elements {
			if !bytes.Equal(got[i], elements[i]) {
				t.Errorf("element %d is %q, want %q", i, got[i], elements[i])
			}
		}
		if ok && len(got) != len(elements) {
			t.Errorf("%d elements, want %d", len(got), len(elements))
		}
		var members map[string]json.RawMessage
		values := map[string][]byte{}
		ok = object(text, func(name string, v []byte) {
			var decoded string
			if err := json.Unmarshal([]byte(`"`+name+`"`), &decoded); err != nil {
				t.Errorf("name %q: %v", name, err)
			}
			values[decoded] = v
		})
		isObject := bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Unmarshal(text, &members) == nil
		if ok != isObject || ok && len(values) != len(members) {
			t.Fatalf("object: %v with %d members, encoding/json: %v with %d", ok, len(values), isObject, len(members))
		}
		for name, v := range members {
			if !bytes.Equal(values[name], v) {
				t.Errorf("member %q is %q, want %q", name, values[name], v)
			}
		}
	})
}

func TestScanDepth(t *testing.T) {
	for _, depth := range []int{1, 9_999, 10_000, 10_001, 200_000} {
		text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got, want := array(text, func([]byte) {}), json.Valid(text); got != want {
			t.Errorf("%d deep: %v, encoding/json: %v", depth, got, want)
		}
	}
}
