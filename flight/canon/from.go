package canon

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// From turns a Go value into a Value. Strings must be UTF-8 (INVALID_UTF8),
// floats finite (NON_FINITE), integers exact as a double (UNSAFE_INTEGER: pass
// a string). Maps, slices and the plain types are read directly;
// json.RawMessage and [Value] pass as they are; every other type goes through its
// encoding/json form.
func From(x any) (Value, error) { return from(x, 0) }

func from(x any, depth int) (Value, error) {
	if depth > MaxDepth {
		return Value{}, &Error{Code: TooDeep, Offset: -1, Reason: "more than 64 containers inside each other"}
	}
	switch t := x.(type) {
	case nil:
		return Value{}, nil
	case Value:
		return t, nil
	case bool:
		return Value{Kind: Bool, Bool: t}, nil
	case string:
		return fromString(t)
	case json.Number:
		return Parse([]byte(t), MaxDepth)
	case json.RawMessage:
		return Parse(t, MaxDepth)
	case float64:
		return fromFloat(t)
	case map[string]any:
		return fromMap(t, depth)
	case []any:
		return fromSlice(t, depth)
	}
	return fromOther(x)
}

func fromString(s string) (Value, error) {
	if !utf8.ValidString(s) {
		return Value{}, &Error{Code: InvalidUTF8, Offset: -1, Reason: "a string is not UTF-8"}
	}
	return Str(s), nil
}

func fromFloat(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, &Error{Code: NonFinite, Offset: -1, Reason: "a number is not finite"}
	}
	return Value{Kind: Number, Num: f}, nil
}

func fromMap(m map[string]any, depth int) (Value, error) {
	v := Value{Kind: Object, Obj: make([]Member, 0, len(m))}
	for k, x := range m {
		if !utf8.ValidString(k) {
			return Value{}, &Error{Code: InvalidUTF8, Offset: -1, Reason: "a key is not UTF-8"}
		}
		e, err := from(x, depth+1)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", k, err)
		}
		v.Obj = append(v.Obj, Member{Key: k, Value: e})
	}
	return v, nil
}

func fromSlice(s []any, depth int) (Value, error) {
	v := Value{Kind: Array, Arr: make([]Value, 0, len(s))}
	for i, x := range s {
		e, err := from(x, depth+1)
		if err != nil {
			return Value{}, fmt.Errorf("%d: %w", i, err)
		}
		v.Arr = append(v.Arr, e)
	}
	return v, nil
}

func fromOther(x any) (Value, error) {
	switch r := reflect.ValueOf(x); r.Kind() {
	case reflect.Float32:
		return fromFloat(r.Float())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if _, custom := x.(json.Marshaler); !custom {
			return Parse(fmt.Append(nil, r.Interface()), MaxDepth)
		}
	}
	b, err := json.Marshal(x)
	if err != nil {
		return Value{}, &Error{Code: Syntax, Offset: -1, Reason: err.Error()}
	}
	return Parse(b, MaxDepth)
}
