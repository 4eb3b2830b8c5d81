package flight

import (
	"fmt"
	"math/big"
)

// A State is the outcome of comparing a claim with the chain (spec section 8).
type State string

// Unverifiable never counts against an agent.
const (
	Confirmed    State = "confirmed"
	Contradicted State = "contradicted"
	Unverifiable State = "unverifiable"
)

// Reasons of an unverifiable verdict.
const (
	NoClaim          = "NO_CLAIM"
	NoTx             = "NO_TX"
	TxNotFound       = "TX_NOT_FOUND"
	RPCError         = "RPC_ERROR"
	UnsupportedClaim = "UNSUPPORTED_CLAIM"
	ChainUnsupported = "CHAIN_UNSUPPORTED"
)

// A Tx is what a verdict needs of a mined transaction and its receipt. To is nil
// for a creation.
type Tx struct {
	From    Address
	To      *Address
	Value   *big.Int // wei; nil is zero
	Success bool
	Logs    []Log
}

// A Log is one event of a receipt.
type Log struct {
	Address Address
	Topics  []Hash
	Data    []byte
}

// A VerdictCheck is one comparison, with what was claimed and what the chain has.
type VerdictCheck struct {
	Name string `json:"name"`
	Pass bool   `json:"pass"`
	Want string `json:"want"`
	Got  string `json:"got"`
}

// A Verdict says whether the chain shows what the agent said.
type Verdict struct {
	State  State          `json:"state"`
	Reason string         `json:"reason,omitempty"` // of unverifiable
	Checks []VerdictCheck `json:"checks"`
}

// Unverified returns the verdict of a claim that cannot be compared.
func Unverified(reason string) Verdict {
	return Verdict{State: Unverifiable, Reason: reason, Checks: []VerdictCheck{}}
}

// Evaluate compares a claim with a mined transaction: always the receipt's
// success and the sender, then the claim's own rule (seed section 4). All must
// pass; any that fails is positive evidence against the claim. The claim is one
// that [ParseClaim] returned.
func Evaluate(c Claim, agent Address, tx Tx) Verdict {
	checks := []VerdictCheck{
		{"receipt.success", tx.Success, "success", outcome(tx.Success)},
		{"tx.sender", tx.From == agent, agent.String(), tx.From.String()},
	}
	switch c.Kind {
	case ClaimTxSuccess:
	case ClaimNative:
		checks = append(checks, nativeChecks(c, tx)...)
	case ClaimERC20:
		checks = append(checks, erc20Check(c, agent, tx))
	default:
		return Unverified(UnsupportedClaim)
	}
	v := Verdict{State: Confirmed, Checks: checks}
	for _, k := range checks {
		if !k.Pass {
			v.State = Contradicted
		}
	}
	return v
}

func outcome(ok bool) string {
	if ok {
		return "success"
	}
	return "reverted"
}

func nativeChecks(c Claim, tx Tx) []VerdictCheck {
	to, value := "contract creation", tx.Value
	if tx.To != nil {
		to = tx.To.String()
	}
	if value == nil {
		value = new(big.Int)
	}
	return []VerdictCheck{
		{"native.to", tx.To != nil && *tx.To == c.To, c.To.String(), to},
		{"native.value", value.Cmp(c.Amount) == 0, c.Amount.String(), value.String()},
	}
}

// transferTopic is Transfer(address,address,uint256).
var transferTopic = Keccak256([]byte("Transfer(address,address,uint256)"))

// erc20Check looks for one Transfer of the exact amount, emitted by the claimed
// token. An ERC-721 Transfer has a fourth topic and no data, an Approval another
// first topic, and two transfers that only sum to the amount are two transfers:
// none confirms.
func erc20Check(c Claim, agent Address, tx Tx) VerdictCheck {
	k := VerdictCheck{Name: "erc20.transfer", Want: transferText(c.Token, agent, c.To, c.Amount), Got: "no such Transfer event"}
	for _, l := range tx.Logs {
		from, to, amount, ok := transfer(l)
		if !ok {
			continue
		}
		if l.Address == c.Token && from == agent && to == c.To && amount.Cmp(c.Amount) == 0 {
			k.Pass, k.Got = true, k.Want
			return k
		}
		k.Got = transferText(l.Address, from, to, amount)
	}
	return k
}

func transferText(token, from, to Address, amount *big.Int) string {
	return fmt.Sprintf("%s of token %s from %s to %s", amount, token, from, to)
}

func transfer(l Log) (from, to Address, amount *big.Int, ok bool) {
	if len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Data) != 32 {
		return from, to, nil, false
	}
	if [12]byte(l.Topics[1][:12]) != [12]byte{} || [12]byte(l.Topics[2][:12]) != [12]byte{} {
		return from, to, nil, false
	}
	copy(from[:], l.Topics[1][12:])
	copy(to[:], l.Topics[2][12:])
	return from, to, new(big.Int).SetBytes(l.Data), true
}
