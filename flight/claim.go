package flight

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"

	"karatum/flight/canon"
)

// Kinds of claim that Karatum interprets (seed section 2.3).
const (
	ClaimTxSuccess = "tx.success"
	ClaimNative    = "native.transfer"
	ClaimERC20     = "erc20.transfer"
)

// Errors of [ParseClaim].
var (
	// ErrUnsupportedClaim reports a claim of a kind unknown here. It is no fault
	// of the record: the verdict is unverifiable.
	ErrUnsupportedClaim = errors.New("flight: unsupported claim")
	// ErrClaim reports a malformed claim of a known kind.
	ErrClaim = errors.New("flight: malformed claim")
)

// A Claim is the only content of a step that Karatum interprets: an outcome that
// the chain can confirm or contradict. Token is set for erc20.transfer, To and
// Amount for both transfers. Amount is in wei or in the token's base units.
type Claim struct {
	Kind   string
	Token  Address
	To     Address
	Amount *big.Int
}

var decimalAmount = regexp.MustCompile(`^(0|[1-9][0-9]{0,77})$`)

// ParseClaim reads an opened claim strictly. The error wraps [ErrClaim], or
// [ErrUnsupportedClaim] for a kind unknown here.
func ParseClaim(v canon.Value) (Claim, error) {
	kind, ok := v.Get("kind")
	if !ok || kind.Kind != canon.String {
		return Claim{}, fmt.Errorf("%w: a claim is an object with a string under kind", ErrClaim)
	}
	c := Claim{Kind: kind.Str}
	var err error
	switch c.Kind {
	case ClaimTxSuccess:
		err = object(v, "", []string{"kind"})
	case ClaimNative:
		err = c.read(v, "value", "to")
	case ClaimERC20:
		err = c.read(v, "amount", "to", "token")
	default:
		return c, ErrUnsupportedClaim
	}
	if err != nil {
		return Claim{}, fmt.Errorf("%w: %w", ErrClaim, err)
	}
	return c, nil
}

func (c *Claim) read(v canon.Value, amount string, addresses ...string) error {
	if err := object(v, "", append([]string{"kind", amount}, addresses...)); err != nil {
		return err
	}
	r := reader{v: v}
	c.To = r.address("to")
	if c.Kind == ClaimERC20 {
		c.Token = r.address("token")
	}
	text := r.text(amount)
	c.Amount = new(big.Int)
	if decimalAmount.MatchString(text) {
		c.Amount.SetString(text, 10)
	} else {
		r.fail(amount, "must be a decimal string without leading zeros")
	}
	if c.Amount.BitLen() > 256 {
		r.fail(amount, "must be below 2^256")
	}
	return r.err
}

// Value returns the claim as the JSON value that a step commits to.
func (c Claim) Value() canon.Value {
	m := []canon.Member{{Key: "kind", Value: canon.Str(c.Kind)}}
	switch c.Kind {
	case ClaimNative:
		m = append(m, canon.Member{Key: "to", Value: canon.Str(c.To.String())}, canon.Member{Key: "value", Value: canon.Str(c.Amount.String())})
	case ClaimERC20:
		m = append(m, canon.Member{Key: "token", Value: canon.Str(c.Token.String())}, canon.Member{Key: "to", Value: canon.Str(c.To.String())},
			canon.Member{Key: "amount", Value: canon.Str(c.Amount.String())})
	}
	return canon.Obj(m...)
}
