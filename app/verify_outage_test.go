package app

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/flight"
)

// A silentChain is a node that does not answer one of its calls.
type silentChain struct {
	VerifyChain
	call string
	err  error
}

func (c *silentChain) ChainID(ctx context.Context) (uint64, error) {
	if c.call == "id" {
		return 0, c.err
	}
	return c.VerifyChain.ChainID(ctx)
}

func (c *silentChain) TransactionByHash(ctx context.Context, h common.Hash) (chain.Tx, error) {
	if c.call == "tx" {
		return chain.Tx{}, c.err
	}
	return c.VerifyChain.TransactionByHash(ctx, h)
}

func (c *silentChain) TransactionReceipt(ctx context.Context, h common.Hash) (chain.Receipt, error) {
	if c.call == "receipt" {
		return chain.Receipt{}, c.err
	}
	return c.VerifyChain.TransactionReceipt(ctx, h)
}

// A node that says nothing proves nothing: no check fails for it, and not all passed.
// One of another chain, or one that does not have the transaction, does say something.
func TestVerifyOutage(t *testing.T) {
	c := newVerifyCase(t)
	for _, tt := range []struct {
		call string
		err  error
		fail flight.CheckCode // the first that does, "" if none
	}{
		{"id", chain.ErrUnavailable, ""},
		{"id", chain.ErrRateLimited, ""},
		{"id", chain.ErrWrongChain, CheckChainID},
		{"tx", chain.ErrTimeout, ""},
		{"tx", chain.ErrRPC, ""},
		{"tx", chain.ErrNotFound, CheckAnchorTx},
		{"receipt", chain.ErrIndexing, ""},
		{"receipt", chain.ErrPruned, ""},
		{"receipt", chain.ErrMalformed, ""},
		{"receipt", chain.ErrNotFound, CheckAnchorTx},
	} {
		o := c.options()
		o.Chains = []VerifyChain{&silentChain{c.chain, tt.call, fmt.Errorf("%w: asked", tt.err)}}
		v := Verify(t.Context(), [][]byte{c.bundle(t)}, o)
		failed := failing(v)
		if v.OK || (len(failed) == 0) != (tt.fail == "") || len(failed) > 0 && failed[0] != tt.fail {
			t.Errorf("%s, %v: ok %t, failed %v", tt.call, tt.err, v.OK, failed)
		}
		if tt.fail == "" && !strings.Contains(v.Verdict, "NOT all: the RPC says nothing of the chain") {
			t.Errorf("%s, %v: %s", tt.call, tt.err, v.Verdict)
		}
	}
}

// An archive's claims are not called contradicted, nor its node a liar, for a node of
// the chain that is down.
func TestVerifyArchiveOutage(t *testing.T) {
	r := newRecord(t)
	archive := r.export(r.agent)
	for _, call := range []string{"id", "tx", "receipt"} {
		v := verifyBytes(t, archive, VerifyOptions{Chains: []VerifyChain{&silentChain{r.client, call, chain.ErrUnavailable}}})
		if v.OK || len(failing(v)) > 0 || !strings.Contains(v.Verdict, "NOT all: the RPC says nothing of the chain") {
			t.Errorf("%s: %s, failed %v", call, v.Verdict, failing(v))
		}
	}
}

// What a node refused with, kept in place of a document, is named.
func TestVerifyRefusal(t *testing.T) {
	for doc, want := range map[string]string{
		`{"error":{"code":"UNKNOWN_STEP","message":"nobody opened it","details":{}}}`: "a node's refusal: UNKNOWN_STEP, nobody opened it",
		`{"error":{"code":"","message":"x"}}`:                                         "this is no disclosure",
		`{"error":{"message":"x"}}`:                                                   "this is no disclosure",
		`{"error":"x"}`:                                                               "",
		`{"code":"UNKNOWN_STEP"}`:                                                     "this is no disclosure",
	} {
		v := Verify(t.Context(), [][]byte{[]byte(doc)}, VerifyOptions{})
		if v.OK || len(v.Checks) != 1 || v.Checks[0].State != flight.Fail || !strings.Contains(v.Checks[0].Detail, want) {
			t.Errorf("%s: %+v", doc, v.Checks)
		}
	}
}
