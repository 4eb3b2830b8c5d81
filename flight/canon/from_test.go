package canon_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"karatum/flight/canon"
)

type named string

type level int

func (l level) MarshalText() ([]byte, error) { return []byte("level-" + string('0'+rune(l))), nil }

type opaque struct{ text string }

func (o opaque) MarshalJSON() ([]byte, error) { return []byte(o.text), nil }

func TestFrom(t *testing.T) {
	one := 1
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"nil", nil, "null"}, {"bool", true, "true"}, {"string", "a<é>\u2028", "\"a<é>\u2028\""}, {"named string", named("x"), `"x"`},
		{"int", -5, "-5"}, {"int64", int64(math.MinInt32), "-2147483648"}, {"uint8", uint8(7), "7"}, {"uint64", uint64(1) << 53, "9007199254740992"},
		{"float", 1e21, "1e+21"}, {"float32", float32(0.1), "0.1"}, {"-0", math.Copysign(0, -1), "0"}, {"float in struct", struct{ F float32 }{0.1}, `{"F":0.1}`},
		{"json.Number", json.Number("1.50"), "1.5"}, {"raw", json.RawMessage(` {"b":1,"a":2} `), `{"a":2,"b":1}`},
		{"value", canon.Int(3), "3"}, {"values", []canon.Value{canon.Int(3), canon.Str("s")}, `[3,"s"]`},
		{"map", map[string]any{"b": []any{1, nil}, "a": map[string]any{}}, `{"a":{},"b":[1,null]}`},
		{"typed map", map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`}, {"int keys", map[int]string{10: "x", 9: "y"}, `{"10":"x","9":"y"}`},
		{"nil map", map[string]any(nil), "null"}, {"nil slice", []any(nil), "null"}, {"bytes", []byte{1, 2}, `"AQI="`}, {"array", [2]bool{true}, "[true,false]"},
		{"struct", struct {
			A int    `json:"z"`
			B string `json:"b,omitempty"`
			c string
			D *int `json:"d"`
		}{A: 1, c: "\xff", D: &one}, `{"d":1,"z":1}`},
		{"text marshaler", level(3), `"level-3"`}, {"json marshaler", opaque{`{"x":[1e2]}`}, `{"x":[100]}`},
		{"time", time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`}, {"duration", time.Second, "1000000000"}, {"pointer", &one, "1"}, {"nil pointer", (*int)(nil), "null"},
	} {
		v, err := canon.From(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := string(canon.Append(nil, v)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFromRefuses(t *testing.T) {
	loop := map[string]any{}
	loop["x"] = loop
	type node struct{ Next *node }
	ring := &node{}
	ring.Next = ring
	var deep any
	for range 65 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name string
		in   any
		want canon.Code
	}{
		{"string", "\xff", canon.InvalidUTF8}, {"surrogate", "\xed\xa0\x80", canon.InvalidUTF8}, {"key", map[string]any{"\xff": 1}, canon.InvalidUTF8},
		{"named string", named("\xff"), canon.InvalidUTF8}, {"in slice", []string{"a", "\xff"}, canon.InvalidUTF8}, {"in map", map[string]string{"a": "\xff"}, canon.InvalidUTF8},
		{"map key", map[string]int{"\xff": 1, "\xfe": 2}, canon.InvalidUTF8}, {"in struct", struct{ S *named }{ptr(named("\xff"))}, canon.InvalidUTF8},
		{"in interface", []any{struct{ X any }{[]any{"\xff"}}}, canon.InvalidUTF8}, {"raw", json.RawMessage("\"\xff\""), canon.InvalidUTF8},
		{"NaN", math.NaN(), canon.NonFinite}, {"Inf", []any{math.Inf(-1)}, canon.NonFinite}, {"float32", float32(math.Inf(1)), canon.NonFinite}, {"NaN in struct", struct{ F float64 }{math.NaN()}, canon.NonFinite},
		{"int", 1<<53 + 1, canon.UnsafeInteger}, {"uint64", uint64(math.MaxUint64), canon.UnsafeInteger}, {"int64", int64(math.MinInt64), canon.UnsafeInteger}, {"int in struct", struct{ N int64 }{1<<53 + 1}, canon.UnsafeInteger},
		{"number", json.Number("9007199254740993"), canon.UnsafeInteger}, {"no number", json.Number("null"), canon.Syntax}, {"empty number", json.Number(""), canon.Syntax}, {"object as number", json.Number("{}"), canon.TooDeep},
		{"raw twice", json.RawMessage(`{"a":1,"a":1}`), canon.DuplicateKey}, {"raw rest", json.RawMessage(`1 2`), canon.TrailingData},
		{"marshaler twice", opaque{`{"a":1,"a":1}`}, canon.DuplicateKey},
		{"map in itself", loop, canon.TooDeep}, {"pointer to itself", ring, canon.TooDeep}, {"func", func() {}, canon.Syntax}, {"chan", []any{make(chan int)}, canon.Syntax},
	} {
		_, err := canon.From(c.in)
		var e *canon.Error
		if !errors.As(err, &e) || e.Code != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	v, err := canon.From(deep)
	if err == nil {
		_, err = v.Canonical()
	}
	if !errors.Is(err, &canon.Error{Code: canon.TooDeep}) {
		t.Errorf("65 slices inside each other: %v, want TOO_DEEP", err)
	}
	if _, err := canon.From(map[string]any{strings.Repeat("k", 1000): "\xff"}); len(err.Error()) > 200 {
		t.Errorf("the refusal has %d bytes", len(err.Error()))
	}
}

func ptr[T any](x T) *T { return &x }
