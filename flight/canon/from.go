package canon

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// From turns a Go value into a Value. Strings must be UTF-8 (INVALID_UTF8),
// floats finite (NON_FINITE), integers exact as a double (UNSAFE_INTEGER: pass
// a string). Maps, slices and the plain types are read directly;
// json.RawMessage and [Value] pass as they are; every other type goes through its
// encoding/json form. The error is or wraps an [*Error].
func From(x any) (Value, error) { return from(x, 0) }

func from(x any, depth int) (Value, error) {
	if depth > MaxDepth { // also ends a map that holds itself
		return Value{}, refuse(TooDeep, "more than 64 containers inside each other")
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
	case int:
		return Parse(strconv.AppendInt(nil, int64(t), 10), 0)
	case int64:
		return Parse(strconv.AppendInt(nil, t, 10), 0)
	case uint64:
		return Parse(strconv.AppendUint(nil, t, 10), 0)
	case float64:
		return fromFloat(t)
	case json.Number:
		return fromNumber(t)
	case json.RawMessage:
		return Parse(t, MaxDepth)
	case map[string]any:
		return fromMap(t, depth)
	case []any:
		return fromSlice(t, depth)
	}
	return fromOther(x)
}

func fromString(s string) (Value, error) {
	if !utf8.ValidString(s) {
		return Value{}, refuse(InvalidUTF8, "a string is not UTF-8")
	}
	return Str(s), nil
}

func fromFloat(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, refuse(NonFinite, "a number is not finite")
	}
	return Value{Kind: Number, Num: f}, nil
}

func fromNumber(n json.Number) (Value, error) {
	v, err := Parse([]byte(n), 0)
	if err == nil && v.Kind != Number {
		err = refuse(Syntax, "a json.Number holds no number")
	}
	return v, err
}

// fromMap leaves a nil map null, as encoding/json does.
func fromMap(m map[string]any, depth int) (Value, error) {
	if m == nil {
		return Value{}, nil
	}
	v := Value{Kind: Object, Obj: make([]Member, 0, len(m))}
	for k, x := range m {
		if !utf8.ValidString(k) {
			return Value{}, refuse(InvalidUTF8, "a key is not UTF-8")
		}
		e, err := from(x, depth+1)
		if err != nil {
			return Value{}, fmt.Errorf("%s: %w", clip(k), err)
		}
		v.Obj = append(v.Obj, Member{Key: k, Value: e})
	}
	return v, nil
}

// fromSlice leaves a nil slice null, as encoding/json does.
func fromSlice(s []any, depth int) (Value, error) {
	if s == nil {
		return Value{}, nil
	}
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

// fromOther goes through encoding/json, which would put U+FFFD in the place of
// bytes that are no UTF-8 and say nothing; so those are looked for first.
func fromOther(x any) (Value, error) {
	if err := checkStrings(reflect.ValueOf(x), 2*MaxDepth); err != nil {
		return Value{}, err
	}
	b, err := json.Marshal(x)
	if err != nil {
		return Value{}, marshalError(err)
	}
	return Parse(b, MaxDepth)
}

func marshalError(err error) error {
	var unsupported *json.UnsupportedValueError
	if errors.As(err, &unsupported) && unsupported.Value.CanFloat() {
		return refuse(NonFinite, "a number is not finite")
	}
	var ours *Error
	if errors.As(err, &ours) {
		return ours
	}
	return refuse(Syntax, err.Error())
}

// checkStrings refuses a Go value within which encoding/json would meet a string
// that is no UTF-8. What marshals itself answers for its own text. A pointer and
// an interface count as a level, so twice the depth of JSON is enough.
func checkStrings(v reflect.Value, room int) error {
	if !v.IsValid() || v.CanInterface() && marshalsItself(v.Interface()) {
		return nil
	}
	if room == 0 {
		return refuse(TooDeep, "a Go value is nested too deep, or holds itself")
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return refuse(InvalidUTF8, "a string is not UTF-8")
		}
	case reflect.Pointer, reflect.Interface:
		return checkStrings(v.Elem(), room-1)
	case reflect.Struct:
		return checkFields(v, room-1)
	case reflect.Slice, reflect.Array:
		return checkElems(v, room-1)
	case reflect.Map:
		return checkEntries(v, room-1)
	}
	return nil
}

func marshalsItself(x any) bool {
	switch x.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return true
	}
	return false
}

func checkFields(v reflect.Value, room int) error {
	for i := range v.NumField() {
		if f := v.Type().Field(i); !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
			continue
		}
		if err := checkStrings(v.Field(i), room); err != nil {
			return err
		}
	}
	return nil
}

func checkElems(v reflect.Value, room int) error {
	switch v.Type().Elem().Kind() {
	case reflect.Bool, reflect.Uint8, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return nil // no strings below
	}
	for i := range v.Len() {
		if err := checkStrings(v.Index(i), room); err != nil {
			return err
		}
	}
	return nil
}

func checkEntries(v reflect.Value, room int) error {
	for it := v.MapRange(); it.Next(); {
		if err := checkStrings(it.Key(), room); err != nil {
			return err
		}
		if err := checkStrings(it.Value(), room); err != nil {
			return err
		}
	}
	return nil
}
