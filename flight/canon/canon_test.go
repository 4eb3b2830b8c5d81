package canon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/testvectors"
)

type vectors struct {
	Cases  []struct{ Raw, Canonical, Keccak string }
	Errors []struct{ Raw, RawHex, Why, Code string }
}

func load(tb testing.TB) vectors {
	tb.Helper()
	var file struct{ CanonicalJSON vectors }
	if err := json.Unmarshal(testvectors.V1, &file); err != nil {
		tb.Fatal(err)
	}
	return file.CanonicalJSON
}

// text returns the bytes of a refusal vector.
func (v vectors) text(tb testing.TB, i int) []byte {
	tb.Helper()
	if v.Errors[i].RawHex == "" {
		return []byte(v.Errors[i].Raw)
	}
	b, err := flight.ParseHex(v.Errors[i].RawHex)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestVectors(t *testing.T) {
	v := load(t)
	if len(v.Cases) < 50 || len(v.Errors) < 20 {
		t.Fatalf("%d cases and %d errors are too few", len(v.Cases), len(v.Errors))
	}
	for _, c := range v.Cases {
		got, err := canon.Canonical([]byte(c.Raw))
		if err != nil || string(got) != c.Canonical || flight.Keccak256(got).String() != c.Keccak {
			t.Errorf("Canonical(%.60q) = %.60q, %v, want %.60q", c.Raw, got, err, c.Canonical)
		}
	}
	for i, c := range v.Errors {
		checkCode(t, v.text(t, i), canon.MaxDepth, canon.Code(c.Code))
	}
}

// checkCode expects a refusal with the code, or none where it is empty.
func checkCode(t *testing.T, text []byte, depth int, want canon.Code) {
	t.Helper()
	_, err := canon.Parse(text, depth)
	var e *canon.Error
	if errors.As(err, &e); err == nil && want == "" || e != nil && e.Code == want {
		return
	}
	t.Errorf("Parse(%.60q) = %v, want code %q", text, err, want)
}

func TestRefusals(t *testing.T) {
	const ok = canon.Code("")
	for text, want := range map[string]canon.Code{
		// numbers: what is glued on, what only follows, and the order of codes
		"-": canon.Syntax, "--1": canon.Syntax, "-01": canon.Syntax, "00": canon.Syntax, "0x1": canon.TrailingData,
		"1.5.3": canon.Syntax, "1e5e5": canon.Syntax, "1e5.": canon.Syntax, "1E": canon.Syntax, "1e+": canon.Syntax, "1.e5": canon.Syntax,
		"1-": canon.TrailingData, "1+": canon.TrailingData, "1a": canon.TrailingData, "1 .": canon.TrailingData, "[1-]": canon.Syntax,
		"[1 2]": canon.Syntax, "1e400.": canon.Syntax, "1e400x": canon.NonFinite, "[1e400]": canon.NonFinite,
		strings.Repeat("9", 310): canon.NonFinite, strings.Repeat("9", 300): canon.UnsafeInteger, "1" + strings.Repeat("0", 308): ok,
		"1e-400": ok, "0e999999999999": ok, "-0": ok, "-0.0": ok, "0.0000000000000000000000000000001": ok,
		"1e99999999999999999999": canon.NonFinite, "9007199254740993.0": ok, "9007199254740993e0": ok,
		"-9007199254740993": canon.UnsafeInteger, "9007199254740994": ok, "36028797018963969": canon.UnsafeInteger,
		"123456789012345678901": canon.UnsafeInteger, "1000000000000000000000": ok, "1000000000000000000001": canon.UnsafeInteger,
		// words, separators, ends
		"tru": canon.Syntax, "truex": canon.TrailingData, "nul": canon.Syntax, "True": canon.Syntax, "undefined": canon.Syntax,
		"": canon.Syntax, " ": canon.Syntax, "\n\t\r 1 \n\t\r ": ok, "\v1": canon.Syntax, "\u00a01": canon.Syntax, "\ufeff1": canon.Syntax, "1\x00": canon.TrailingData, "\x00": canon.Syntax,
		"[": canon.Syntax, "[1": canon.Syntax, "[1,": canon.Syntax, "[,1]": canon.Syntax, "]": canon.Syntax, "[1]]": canon.TrailingData,
		"{": canon.Syntax, `{"a"`: canon.Syntax, `{"a":`: canon.Syntax, `{"a":1`: canon.Syntax, `{a:1}`: canon.Syntax, `{"a" 1}`: canon.Syntax, `{1:2}`: canon.Syntax, `{"a":1 "b":2}`: canon.Syntax,
		"// c\n1": canon.Syntax, "1 // c": canon.TrailingData, "/**/1": canon.Syntax,
		// strings
		`"\u12"`: canon.Syntax, `"\u12g4"`: canon.Syntax, `"\U0041"`: canon.Syntax, `"\'"`: canon.Syntax, `"\`: canon.Syntax, `"\"`: canon.Syntax, `"\u`: canon.Syntax,
		"\"a\nb\"": canon.Syntax, "\"\x1f\"": canon.Syntax, "\"\x7f\"": ok, "\"\u2028\"": ok, "\"\x00\"": canon.Syntax,
		"\"\xf4\x90\x80\x80\"": canon.InvalidUTF8, "\"\xed\xbf\xbf\"": canon.InvalidUTF8, "\"a\\n\xff\"": canon.InvalidUTF8, "\"\xe2\x82\"": canon.InvalidUTF8, "{\"\xff\":1}": canon.InvalidUTF8,
		`"\ud83d\u0041"`: ok, `"\ud83d\ud83d\ude00"`: ok, `"\ude00\ud83d"`: ok, `"\uD83D\uDE00"`: ok,
		// keys
		`{"a":1,"b":{"a":1}}`: ok, `{"\ud83d\ude00":1,"😀":2}`: canon.DuplicateKey, `{"\/":1,"/":2}`: canon.DuplicateKey, `{"":1,"":2}`: canon.DuplicateKey,
		`{"\ud800":1,"\uD800":2}`: canon.DuplicateKey, `{"é":1,"e\u0301":2}`: ok, `[{"a":1},{"a":1}]`: ok,
	} {
		checkCode(t, []byte(text), canon.MaxDepth, want)
	}
}

func TestDuplicateKeysInLargeObjects(t *testing.T) {
	for _, n := range []int{2, 11, 12, 13, 14, 100} {
		for _, at := range []int{0, (n - 1) / 2, n - 2} {
			var b strings.Builder
			for i := range n - 1 {
				fmt.Fprintf(&b, `"k%d":%d,`, i, i)
			}
			checkCode(t, fmt.Appendf(nil, `{%s"k%d":0}`, b.String(), at), canon.MaxDepth, canon.DuplicateKey)
			checkCode(t, fmt.Appendf(nil, `{%s"k%d":0}`, b.String(), n), canon.MaxDepth, "")
		}
	}
}

func TestErrorSaysWhereAndIsShort(t *testing.T) {
	_, err := canon.Parse([]byte(`{"a":1,"a":2}`), 2)
	var e *canon.Error
	if !errors.As(err, &e) || e.Offset != 7 || !strings.Contains(err.Error(), "DUPLICATE_KEY at byte 7") {
		t.Errorf("err = %v, want DUPLICATE_KEY at byte 7", err)
	}
	if !errors.Is(err, &canon.Error{Code: canon.DuplicateKey}) || errors.Is(err, &canon.Error{Code: canon.Syntax}) {
		t.Errorf("errors.Is compares %v by something else than its code", err)
	}
	long := strings.Repeat("k", 1<<20)
	if _, err = canon.Parse([]byte(`{"`+long+`":1,"`+long+`":2}`), 2); len(err.Error()) > 300 {
		t.Errorf("the refusal of a long key has %d bytes", len(err.Error()))
	}
	if _, err = canon.Parse([]byte("\"\\\x01\""), 2); strings.ContainsRune(err.Error(), 1) {
		t.Errorf("the refusal echoes a control character: %q", err)
	}
}

func nested(n int) []byte {
	return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
}

func TestDepth(t *testing.T) {
	checkCode(t, nested(64), canon.MaxDepth, "")
	checkCode(t, nested(65), canon.MaxDepth, canon.TooDeep)
	checkCode(t, []byte(strings.Repeat(`{"a":`, 64)+"1"+strings.Repeat("}", 64)), canon.MaxDepth, "")
	checkCode(t, []byte(strings.Repeat(`{"a":`, 65)+"1"+strings.Repeat("}", 65)), canon.MaxDepth, canon.TooDeep)
	checkCode(t, nested(80), 80, "")
	checkCode(t, nested(81), 80, canon.TooDeep)
	checkCode(t, []byte(strings.Repeat("[", 5<<20)), 80, canon.TooDeep)
	v, err := canon.Parse(nested(80), 80)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Canonical(); !errors.Is(err, &canon.Error{Code: canon.TooDeep}) {
		t.Errorf("a committed value 80 deep: %v, want TOO_DEEP", err)
	}
	checkCode(t, []byte(`"a"`), 0, "")
	checkCode(t, []byte(`[]`), 0, canon.TooDeep)
}

func TestSizeIsOfCanonicalBytes(t *testing.T) {
	fits := strings.Repeat("a", canon.MaxBytes-2)
	if b, err := canon.Canonical([]byte(`  "` + fits + `"  `)); err != nil || len(b) != canon.MaxBytes {
		t.Errorf("1 MiB of canonical bytes: %d, %v", len(b), err)
	}
	if _, err := canon.Canonical([]byte(`"` + fits + `a"`)); !errors.Is(err, &canon.Error{Code: canon.TooLarge}) {
		t.Errorf("one byte more: %v, want TOO_LARGE", err)
	}
	// 300,000 bytes of text that canonicalise to over a million.
	grows := "[" + strings.Repeat("1e20,", 60000) + "0]"
	if _, err := canon.Canonical([]byte(grows)); !errors.Is(err, &canon.Error{Code: canon.TooLarge}) {
		t.Errorf("a value that grows: %v, want TOO_LARGE", err)
	}
}

func TestGoValuesAreJudgedAsText(t *testing.T) {
	nan := canon.Value{Kind: canon.Number}
	nan.Num /= nan.Num
	for _, c := range []struct {
		name string
		v    canon.Value
		want canon.Code
	}{
		{"NaN", nan, canon.NonFinite},
		{"bytes", canon.Str("\xff"), canon.InvalidUTF8},
		{"pair of three-byte halves", canon.Str("\xed\xa0\xbd\xed\xb8\x80"), canon.InvalidUTF8},
		{"lone halves", canon.Str("\xed\xb8\x80\xed\xa0\xbd"), ""},
		{"key", canon.Obj(canon.Member{Key: "\xff"}), canon.InvalidUTF8},
		{"twice", canon.Obj(canon.Member{Key: "a"}, canon.Member{Key: "a"}), canon.DuplicateKey},
		{"inside", canon.Value{Kind: canon.Array, Arr: []canon.Value{canon.Obj(canon.Member{Key: "a", Value: nan})}}, canon.NonFinite},
		{"other fields are ignored", canon.Value{Kind: canon.Bool, Num: nan.Num, Str: "\xff"}, ""},
	} {
		_, err := c.v.Canonical()
		var e *canon.Error
		if errors.As(err, &e); (err == nil) != (c.want == "") || e != nil && e.Code != c.want {
			t.Errorf("%s: %v, want code %q", c.name, err, c.want)
		}
	}
	if got := string(canon.Append(nil, nan)); got != "null" {
		t.Errorf("Append of NaN = %s, want null", got)
	}
}

func TestValueAccessors(t *testing.T) {
	v, err := canon.Parse([]byte(`{"a":1.0,"b":-0,"c":9007199254740992,"d":-1,"e":1.5,"f":"1","g":9007199254740991}`), 1)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]struct {
		n  uint64
		ok bool
	}{"a": {1, true}, "b": {0, true}, "c": {}, "d": {}, "e": {}, "f": {}, "g": {canon.MaxInt, true}, "absent": {}} {
		e, _ := v.Get(key)
		if n, ok := e.Int(); n != want.n || ok != want.ok {
			t.Errorf("%s: Int() = %d, %t, want %d, %t", key, n, ok, want.n, want.ok)
		}
	}
	if _, ok := canon.Str("a").Get("a"); ok {
		t.Error("a string has a member")
	}
	if got := canon.CodePoints("aé😀\xed\xa0\x80"); got != 4 {
		t.Errorf("CodePoints = %d, want 4", got)
	}
	if got := canon.Kind(99).String(); got != "unknown kind" {
		t.Errorf("Kind(99) = %q", got)
	}
	b, err := json.Marshal(map[string]canon.Value{"x": v})
	if err != nil || !strings.HasPrefix(string(b), `{"x":{"a":1,"b":0`) {
		t.Errorf("Marshal = %s, %v", b, err)
	}
}

// Work grows with the text and not faster: the allocations, and with them the
// values made, are counted. Quadratic comparing would not finish on the larger
// texts.
func TestWorkIsLinear(t *testing.T) {
	for name, unit := range map[string]string{"keys": `"k%d":{},`, "numbers": `"k%d":[%[1]d.5e3],`, "escapes": `"k%d":"\u0041\n\ud800",`} {
		count := func(n int) float64 {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, unit, i)
			}
			text := []byte("{" + b.String() + `"z":0}`)
			return testing.AllocsPerRun(1, func() {
				if _, err := canon.Parse(text, 3); err != nil {
					t.Fatal(err)
				}
			})
		}
		if small, large := count(4000), count(64000); large > 17*small {
			t.Errorf("%s: %.0f allocations for 16 times the text of %.0f", name, large, small)
		}
	}
	for name, text := range map[string]string{
		"open brackets": strings.Repeat("[", 5<<20), "one number": strings.Repeat("9", 5<<20), "one fraction": "0." + strings.Repeat("3", 5<<20),
		"open string": `"` + strings.Repeat(`\n`, 5<<19), "spaces": strings.Repeat(" ", 5<<20), "half pairs": `"` + strings.Repeat(`\ud800`, 1<<19) + `"`,
	} {
		canon.Parse([]byte(text), 80)
		t.Logf("%s: done", name)
	}
}
