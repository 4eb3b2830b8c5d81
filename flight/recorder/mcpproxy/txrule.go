package mcpproxy

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/recorder"
)

// A TxRule says where a tool's result shows the transaction that it sent, and what
// to claim about it. To, Token and Amount, and Chain, are sources: a path into the
// call ("args/to", "result/structuredContent/amount"), or a literal ("8453",
// "0x…"). A path steps into objects by key and into arrays by number, and reads a
// string that holds JSON as that JSON, for tools often answer with JSON as text.
// Keys with / or ~ are written as in JSON Pointer (~1, ~0).
type TxRule struct {
	Tool   string // empty for every tool
	Hash   string // path to a text with the transaction hash
	Chain  string
	Claim  string // flight.ClaimTxSuccess, ClaimNative or ClaimERC20; default tx.success
	To     string
	Token  string // erc20.transfer
	Amount string // wei, or base units of the token
}

var ruleKeys = []string{"hash", "chain", "claim", "to", "token", "amount"}

// ParseTxRule reads the form of the command line:
//
//	send_eth:hash=result/structuredContent/txHash,chain=8453,claim=native.transfer,to=args/to,amount=args/wei
//
// The tool before the colon may be * for every tool.
func ParseTxRule(text string) (TxRule, error) {
	tool, rest, ok := strings.Cut(text, ":")
	if !ok || tool == "" {
		return TxRule{}, fmt.Errorf("tx rule %q: want TOOL:hash=PATH,chain=ID,…", text)
	}
	r := TxRule{Claim: flight.ClaimTxSuccess}
	if tool != "*" {
		r.Tool = tool
	}
	fields := map[string]*string{"hash": &r.Hash, "chain": &r.Chain, "claim": &r.Claim, "to": &r.To, "token": &r.Token, "amount": &r.Amount}
	for part := range strings.SplitSeq(rest, ",") {
		key, val, _ := strings.Cut(part, "=")
		if fields[key] == nil || val == "" {
			return TxRule{}, fmt.Errorf("tx rule %q: %q is none of %s=VALUE", text, part, strings.Join(ruleKeys, ", "))
		}
		*fields[key] = val
	}
	if err := r.check(); err != nil {
		return TxRule{}, fmt.Errorf("tx rule %q: %w", text, err)
	}
	return r, nil
}

func (r *TxRule) check() error {
	need := map[string][]string{flight.ClaimTxSuccess: {}, flight.ClaimNative: {r.To, r.Amount}, flight.ClaimERC20: {r.To, r.Amount, r.Token}}
	sources, ok := need[r.Claim]
	switch {
	case r.Hash == "" || r.Chain == "":
		return errors.New("hash and chain are needed")
	case !ok:
		return fmt.Errorf("claim %q is none of tx.success, native.transfer, erc20.transfer", r.Claim)
	case slices.Contains(sources, ""):
		return fmt.Errorf("claim %s needs to and amount, and erc20.transfer token", r.Claim)
	}
	return nil
}

var txHash = regexp.MustCompile(`0x[0-9a-fA-F]{64}`)

// apply fills in the step's transaction. found is false where the result shows
// none, which for a call that failed is no error. With an unusable claim the
// transaction is recorded without one.
func (r *TxRule) apply(s *recorder.Step) (found bool, err error) {
	hash, err := r.source(s, r.Hash)
	if err != nil || hash.Kind != canon.String {
		if s.Status != "ok" {
			return false, nil
		}
		return false, errors.Join(fmt.Errorf("no hash at %s", r.Hash), err)
	}
	at := txHash.FindStringIndex(hash.Str)
	if at == nil || at[1] < len(hash.Str) && isHex(hash.Str[at[1]]) {
		if s.Status != "ok" {
			return false, nil
		}
		return false, fmt.Errorf("no hash at %s", r.Hash)
	}
	chain, err := r.integer(s, r.Chain)
	if err != nil {
		return false, fmt.Errorf("chain: %w", err)
	}
	s.TxHash, err = flight.ParseHash(strings.ToLower(hash.Str[at[0]:at[1]]))
	if err != nil {
		return false, err
	}
	s.Kind, s.ChainID = "tx", chain
	s.Claim, err = r.claim(s)
	return true, err
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

func (r *TxRule) integer(s *recorder.Step, source string) (uint64, error) {
	v, err := r.source(s, source)
	if err != nil {
		return 0, err
	}
	if n, ok := v.Int(); ok && n > 0 {
		return n, nil
	}
	n, err := strconv.ParseUint(v.Str, 0, 53)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s is no chain id", source)
	}
	return n, nil
}

func (r *TxRule) claim(s *recorder.Step) (*flight.Claim, error) {
	c := &flight.Claim{Kind: r.Claim}
	if c.Kind == flight.ClaimTxSuccess {
		return c, nil
	}
	var err error
	if c.To, err = r.address(s, r.To); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	if c.Kind == flight.ClaimERC20 {
		if c.Token, err = r.address(s, r.Token); err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
	}
	v, err := r.source(s, r.Amount)
	if err != nil {
		return nil, fmt.Errorf("amount: %w", err)
	}
	digits := v.Str
	if n, ok := v.Int(); ok {
		digits = strconv.FormatUint(n, 10)
	}
	amount, ok := new(big.Int).SetString(digits, 10)
	if !ok || amount.Sign() < 0 {
		return nil, fmt.Errorf("amount: %s is no whole number", r.Amount)
	}
	c.Amount = amount
	if _, err := flight.ParseClaim(c.Value()); err != nil {
		return nil, err
	}
	return c, nil
}

func (r *TxRule) address(s *recorder.Step, source string) (flight.Address, error) {
	v, err := r.source(s, source)
	if err != nil {
		return flight.Address{}, err
	}
	return flight.ParseAddress(strings.ToLower(v.Str))
}

// source returns the value that a source names.
func (r *TxRule) source(s *recorder.Step, source string) (canon.Value, error) {
	root, path, ok := strings.Cut(source, "/")
	var from any
	switch {
	case ok && root == "args":
		from = s.Args
	case ok && root == "result":
		from = s.Result
	default:
		return canon.Str(source), nil
	}
	v, err := canon.From(from)
	if err != nil {
		return v, err
	}
	for token := range strings.SplitSeq(path, "/") {
		if v, ok = descend(v, strings.NewReplacer("~1", "/", "~0", "~").Replace(token)); !ok {
			return v, fmt.Errorf("there is no %s", source)
		}
	}
	return v, nil
}

func descend(v canon.Value, token string) (canon.Value, bool) {
	if v.Kind == canon.String { // JSON as text
		inner, err := canon.Parse([]byte(v.Str), canon.MaxDepth)
		if err != nil {
			return v, false
		}
		v = inner
	}
	if v.Kind == canon.Array {
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(v.Arr) {
			return v, false
		}
		return v.Arr[i], true
	}
	return v.Get(token)
}
