package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

// Classes of failures. Every error of a [Client] method wraps exactly one of
// the first group; a refusal by the node, [ErrRPC], may wrap one of the second
// group too.
var (
	// ErrUnavailable: no answer, or an HTTP status that says nothing more.
	ErrUnavailable = errors.New("chain: node is unavailable")
	// ErrTimeout: no answer within the call's time.
	ErrTimeout = errors.New("chain: node did not answer in time")
	// ErrRateLimited: the node asks for patience, see [CallError.RetryAfter].
	ErrRateLimited = errors.New("chain: node limits the rate of calls")
	// ErrMalformed: an answer that is not what was asked for.
	ErrMalformed = errors.New("chain: node's answer is malformed")
	// ErrNotFound: the node does not know the object, now.
	ErrNotFound = errors.New("chain: not found")
	// ErrIndexing: the node cannot look up transactions yet.
	ErrIndexing = errors.New("chain: node is still indexing transactions")
	// ErrPruned: the node no longer has the state or block.
	ErrPruned = errors.New("chain: node has pruned this history")
	// ErrRPC: the node refused, with [CallError.Code] and a message.
	ErrRPC = errors.New("chain: node refused the call")

	// ErrReverted: the call reverted; [CallError.Data] has the reason.
	ErrReverted = errors.New("execution reverted")
	// ErrNonceTooLow: another transaction with this nonce is mined.
	ErrNonceTooLow = errors.New("nonce too low")
	// ErrUnderpriced: the fee is too low to enter the pool or to replace.
	ErrUnderpriced = errors.New("underpriced")
	// ErrInsufficientFunds: the sender cannot pay.
	ErrInsufficientFunds = errors.New("insufficient funds")
)

// A CallError says what went wrong with one call. Its text never has the URL of
// the node, which may hold credentials.
type CallError struct {
	Method     string        // JSON-RPC method
	Kind       error         // one of the classes above
	Reason     error         // one of ErrRPC's second group, or nil
	Code       int           // JSON-RPC error code, for ErrRPC and classes that come with one
	Message    string        // the node's words, cut short; or what is malformed
	Data       []byte        // revert data, if any
	RetryAfter time.Duration // for ErrRateLimited: the pause asked for, 0 = not said
}

func (e *CallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", e.Kind, e.Method)
	if e.Reason != nil {
		fmt.Fprintf(&b, ": %v", e.Reason)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	return b.String()
}

// Unwrap lets errors.Is find the class and the reason.
func (e *CallError) Unwrap() []error {
	if e.Reason != nil {
		return []error{e.Kind, e.Reason}
	}
	return []error{e.Kind}
}

func malformed(method, format string, args ...any) error {
	return &CallError{Method: method, Kind: ErrMalformed, Message: fmt.Sprintf(format, args...)}
}

// quote makes foreign text fit for logs: at most 200 bytes, control characters
// and quotes escaped.
func quote(s string) string { return fmt.Sprintf("%q", s[:min(len(s), 200)]) }

// refusal classes the error object of an answer. JSON-RPC has hardly any
// standard codes for these cases, so that the words of the common clients must
// decide; an unknown wording stays ErrRPC.
func refusal(method string, code int, message string, data []byte) error {
	e := &CallError{Method: method, Kind: ErrRPC, Code: code, Message: fmt.Sprintf("code %d: %s", code, quote(message)), Data: data}
	m := strings.ToLower(message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(m, w) {
				return true
			}
		}
		return false
	}
	switch {
	case code == -32005, code == 429, has("rate limit", "too many requests", "request limit", "requests per", "compute units", "throttl"):
		e.Kind = ErrRateLimited
	case has("indexing is in progress"):
		e.Kind = ErrIndexing
	case code == 4444, has("missing trie node", "pruned", "historical state", "state not available", "state is not available", "no state available",
		"pruning", "world state unavailable", "archive", "proof window", "missing state", "state histories"):
		e.Kind = ErrPruned
	case code == 3, has("execution reverted", "revert"):
		e.Reason = ErrReverted
	case has("nonce too low", "nonce is too low"):
		e.Reason = ErrNonceTooLow
	case has("underpriced", "less than block base fee", "fee too low", "gas price too low"):
		e.Reason = ErrUnderpriced
	case has("insufficient funds"):
		e.Reason = ErrInsufficientFunds
	}
	return e
}

// unreached classes an error of the connection. Its text may contain the URL
// and is dropped.
func unreached(method string, err error) error {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &CallError{Method: method, Kind: ErrTimeout}
	}
	return &CallError{Method: method, Kind: ErrUnavailable, Message: connectionFault(err)}
}

// revertData reads the data member of an error object: hex, or an object that
// holds hex under "data" (as older clients have it).
func revertData(v any) []byte {
	switch v := v.(type) {
	case string:
		data, err := hexutil.Decode(v)
		if err != nil {
			return nil
		}
		return data
	case map[string]any:
		if s, ok := v["data"].(string); ok {
			return revertData(s)
		}
	}
	return nil
}
