package replay

import (
	"context"
	"errors"
	"fmt"

	"karatum/chain"
	"karatum/chain/fork"
)

// Errors of [Replayer.Replay] beyond those of packages chain and fork.
var (
	// ErrNotMined: the transaction is pending or unknown.
	ErrNotMined = errors.New("replay: transaction is not mined")
	// ErrOtherBlock: the transaction is not in the block that the caller named.
	ErrOtherBlock = errors.New("replay: transaction is in another block than the one given")
	// ErrDisputed: a further source has another block at this height.
	ErrDisputed = errors.New("replay: sources disagree about the block")
	// ErrUnsupported: the block has something that cannot be executed here.
	ErrUnsupported = errors.New("replay: not supported")
	// ErrLimit: the replay needs more gas, time, state or trace than permitted.
	ErrLimit = errors.New("replay: limit reached")
)

// A Failure is why a transaction could not be replayed.
type Failure struct {
	Code string // stable, from a closed set; see [Code]
	Hint string // what the operator can do; may be empty
	Err  error
}

func (f *Failure) Error() string {
	if f.Hint == "" {
		return fmt.Sprintf("%s: %v", f.Code, f.Err)
	}
	return fmt.Sprintf("%s: %v; %s", f.Code, f.Err, f.Hint)
}

func (f *Failure) Unwrap() error { return f.Err }

// Codes of failures.
const (
	CodePruned        = "HISTORY_PRUNED"
	CodeNotFound      = "TX_NOT_FOUND"
	CodeRateLimited   = "RATE_LIMITED"
	CodeTimeout       = "TIMEOUT"
	CodeRPC           = "RPC_ERROR"
	CodeWrongChain    = "WRONG_CHAIN"
	CodeContradiction = "CONTRADICTION"
	CodeNoProof       = "NO_PROOF"
	CodeOtherBlock    = "OTHER_BLOCK"
	CodeDisputed      = "DISPUTED_BLOCK"
	CodeUnsupported   = "UNSUPPORTED"
	CodeLimit         = "LIMIT"
	CodeCancelled     = "CANCELLED"
)

// Code is the stable code of an error of [Replayer.Replay]; "" for nil.
func Code(err error) string {
	code, _ := classify(err)
	return code
}

// classify finds the code and the hint. The order matters: a contradiction is
// also malformed, and a limit may be what cancelled a call.
func classify(err error) (code, hint string) {
	if err == nil {
		return "", ""
	}
	for _, c := range []struct {
		class      error
		code, hint string
	}{
		{fork.ErrContradiction, CodeContradiction, "do not trust this node; compare with another --rpc-url"},
		{chain.ErrWrongChain, CodeWrongChain, "check --rpc-url and the chain id"},
		{ErrOtherBlock, CodeOtherBlock, "the node is on another chain, or --block-hash is of another block"},
		{ErrDisputed, CodeDisputed, "one of the RPC nodes is wrong, or the chain is reorganising; ask again later"},
		{fork.ErrNoProof, CodeNoProof, "configure a node that serves eth_getProof for this block"},
		{fork.ErrTooLarge, CodeLimit, ""},
		{ErrLimit, CodeLimit, ""},
		{ErrUnsupported, CodeUnsupported, ""},
		{ErrNotMined, CodeNotFound, ""},
		{chain.ErrPruned, CodePruned, "configure an archive node with --rpc-url, or --chain-rpc ID=URL on a node of ours"},
		{chain.ErrNotFound, CodeNotFound, "the transaction or its block is unknown to this node"},
		{chain.ErrIndexing, CodeRPC, "the node is still indexing transactions; try later"},
		{chain.ErrRateLimited, CodeRateLimited, "give a further --rpc-url, or try later"},
		{chain.ErrTimeout, CodeTimeout, "give a further --rpc-url, or try later"},
		{context.DeadlineExceeded, CodeTimeout, ""},
		{context.Canceled, CodeCancelled, ""},
	} {
		if errors.Is(err, c.class) {
			return c.code, c.hint
		}
	}
	return CodeRPC, ""
}

func failure(err error) error {
	code, hint := classify(err)
	return &Failure{code, hint, err}
}
