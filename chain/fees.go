package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
)

// ErrFeeLimit reports a network that asks more than the operator allows.
var ErrFeeLimit = errors.New("chain: fees are above the limit")

// Fees are those of an EIP-1559 transaction, in wei per gas.
type Fees struct {
	Cap *big.Int // the most that is paid in total
	Tip *big.Int // of which at most this goes to the block's maker
}

// SuggestFees allows for the base fee to double before inclusion, with the tip
// that the node suggests. The node is not trusted: apply [Fees.Limit].
func (c *Client) SuggestFees(ctx context.Context) (Fees, error) {
	head, err := c.HeaderByTag(ctx, Latest)
	if err != nil {
		return Fees{}, err
	}
	if head.BaseFee == nil {
		return Fees{}, malformed("eth_getBlockByNumber", "chain has no base fee")
	}
	tip, err := get(ctx, c, decodeBig, "eth_maxPriorityFeePerGas")
	var call *CallError
	if errors.As(err, &call) && call.Code == codeNoMethod {
		tip, err = c.tipFromGasPrice(ctx, head.BaseFee)
	}
	if err != nil {
		return Fees{}, err
	}
	limit := new(big.Int).Lsh(head.BaseFee, 1)
	return Fees{Cap: limit.Add(limit, tip), Tip: tip}, nil
}

// tipFromGasPrice is for nodes without eth_maxPriorityFeePerGas.
func (c *Client) tipFromGasPrice(ctx context.Context, baseFee *big.Int) (*big.Int, error) {
	price, err := get(ctx, c, decodeBig, "eth_gasPrice")
	if err != nil {
		return nil, err
	}
	tip := new(big.Int).Sub(price, baseFee)
	if tip.Sign() < 0 {
		tip.SetInt64(0)
	}
	return tip, nil
}

// Limit is an error wrapping [ErrFeeLimit] if the cap exceeds max wei per gas.
func (f Fees) Limit(max *big.Int) error {
	if f.Cap.Cmp(max) > 0 {
		return fmt.Errorf("%w: %s wei per gas, limit %s", ErrFeeLimit, f.Cap, max)
	}
	return nil
}

// Bump raises both fees by an eighth, rounded up and at least 1 wei. Nodes demand
// at least a tenth more to replace a transaction under the same nonce.
func (f Fees) Bump() Fees {
	raise := func(v *big.Int) *big.Int {
		eighth := new(big.Int).Add(v, big.NewInt(8))
		return eighth.Add(eighth.Rsh(eighth, 3), v)
	}
	return Fees{Cap: raise(f.Cap), Tip: raise(f.Tip)}
}

// Max takes the higher of each fee.
func (f Fees) Max(g Fees) Fees {
	higher := func(a, b *big.Int) *big.Int {
		if a.Cmp(b) < 0 {
			return b
		}
		return a
	}
	return Fees{Cap: higher(f.Cap, g.Cap), Tip: higher(f.Tip, g.Tip)}
}
