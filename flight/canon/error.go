package canon

import "fmt"

// A Code names why a text is not acceptable JSON (spec section 1).
type Code string

// The codes of spec section 1.
const (
	DuplicateKey  Code = "DUPLICATE_KEY"
	InvalidUTF8   Code = "INVALID_UTF8"
	NonFinite     Code = "NON_FINITE"
	UnsafeInteger Code = "UNSAFE_INTEGER"
	TrailingData  Code = "TRAILING_DATA"
	TooDeep       Code = "TOO_DEEP"
	TooLarge      Code = "TOO_LARGE"
	Syntax        Code = "SYNTAX"
)

// An Error is a refusal with its code and the byte offset at which it was
// noticed. Offset is -1 where a Go value, not a text, was at fault.
type Error struct {
	Code   Code
	Offset int
	Reason string
}

func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s", e.Code, e.Reason)
	}
	return fmt.Sprintf("%s at byte %d: %s", e.Code, e.Offset, e.Reason)
}

// Is reports whether target is an *Error of the same code, so that callers can
// write errors.Is(err, &canon.Error{Code: canon.TooDeep}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}
