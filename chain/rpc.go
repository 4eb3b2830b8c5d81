package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
)

// Block tags.
const (
	Latest    = "latest"
	Safe      = "safe"
	Finalized = "finalized"
	Pending   = "pending"
)

// codeNoMethod is JSON-RPC's code for a method that the node does not have.
const codeNoMethod = -32601

// ErrWrongChain reports a node that serves another chain than [Options.ChainID].
var ErrWrongChain = errors.New("chain: node serves another chain")

// Options bound a client's calls. Zero values take the defaults.
type Options struct {
	// Timeout is the limit of one call. Defaults to 10s.
	Timeout time.Duration
	// MaxResponseBytes is the limit of one answer. Defaults to 8 MiB.
	MaxResponseBytes int64
	// ChainID, unless 0, is what Dial expects the node to serve, and what every
	// node is asked again before a transaction is sent to it.
	ChainID uint64
	// MayBeAway lets DialAll succeed while no node can be reached: each is asked
	// for its chain before its first use then.
	MayBeAway bool
	// BatchSize is the most calls in one exchange of a batch. Defaults to 100.
	BatchSize int
	// InFlight is the most exchanges with one host at a time. Defaults to 16.
	InFlight int
	// PerSecond is the most exchanges with one host in a second. 0 is no limit.
	PerSecond int
	// HedgeAfter is how long a read waits for one node before the next is asked
	// too; the first answer counts. 0 asks the next only after a failure. Of batches
	// at most about one in ten is asked for twice, and never of a node that rests.
	HedgeAfter time.Duration
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxResponseBytes <= 0 {
		o.MaxResponseBytes = 8 << 20
	}
	if o.BatchSize <= 0 {
		o.BatchSize = 100
	}
	if o.InFlight <= 0 {
		o.InFlight = 16
	}
	return o
}

// A Client calls one node, or several of one chain. Its methods are safe for concurrent use; their errors
// are [CallError]s, except when the caller's context was cancelled.
type Client struct {
	t       Transport
	timeout time.Duration
}

// Dial prepares a client for an http or https URL and, if o.ChainID is set, asks
// the node for its chain; otherwise nothing is sent.
func Dial(ctx context.Context, url string, o Options) (*Client, error) {
	return DialAll(ctx, []string{url}, o)
}

// DialAll is Dial for several nodes of one chain. A call goes to the first; what
// it cannot serve (it is unreachable, slow, limits us, has pruned the history or
// talks nonsense) goes to the next. A node that serves another chain is an error
// that wraps [ErrWrongChain]; one that cannot be asked now is asked before its
// first use, as long as another could.
func DialAll(ctx context.Context, urls []string, o Options) (*Client, error) {
	o = o.withDefaults()
	p, err := newPool(urls, o)
	if err != nil {
		return nil, err
	}
	if err := p.checkChain(ctx); err != nil && !(o.MayBeAway && Away(err)) {
		p.Close()
		return nil, err
	}
	return &Client{p, o.Timeout * time.Duration(len(p.hosts))}, nil
}

// Away reports a failure that says nothing of the node but that it cannot be asked
// now.
func Away(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTimeout) || errors.Is(err, ErrRateLimited)
}

// Nodes is one client for each URL of c, which share its limits and belong to
// it: what they say can be compared. A client made otherwise is its only node.
func (c *Client) Nodes() []*Client {
	p, ok := c.t.(*pool)
	if !ok || len(p.hosts) == 1 {
		return []*Client{c}
	}
	out := make([]*Client, len(p.hosts))
	for i, h := range p.hosts {
		out[i] = &Client{&pool{hosts: []*host{h}, chainID: p.chainID}, c.timeout / time.Duration(len(p.hosts))}
	}
	return out
}

// NewInProc is a client for a node in this process. Close leaves r open.
func NewInProc(r *rpc.Client, o Options) *Client {
	return New(inProc{r}, o)
}

// New is a client over any transport.
func New(t Transport, o Options) *Client {
	return &Client{t, o.withDefaults().Timeout}
}

// Close gives up idle connections.
func (c *Client) Close() { c.t.Close() }

// call returns a result that is not null; null is ErrNotFound.
func (c *Client) call(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	raw, err := c.t.Call(limited, method, params...)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, fmt.Errorf("chain: %s: %w", method, context.Cause(ctx))
		}
		return nil, err
	}
	if string(raw) == "null" {
		return nil, &CallError{Method: method, Kind: ErrNotFound}
	}
	return raw, nil
}

// get decodes a result; whatever decode finds wrong is ErrMalformed.
func get[T any](ctx context.Context, c *Client, decode func(json.RawMessage) (T, error), method string, params ...any) (zero T, err error) {
	raw, err := c.call(ctx, method, params...)
	if err != nil {
		return zero, err
	}
	v, err := decode(raw)
	if err != nil {
		return zero, malformed(method, "%s", quote(err.Error()))
	}
	return v, nil
}

func decodeUint64(raw json.RawMessage) (uint64, error) {
	q := new(quantity)
	if err := json.Unmarshal(raw, q); err != nil {
		return 0, err
	}
	var f fields
	return f.uint64("result", q), f.err
}

func decodeBig(raw json.RawMessage) (*big.Int, error) {
	q := new(quantity)
	err := json.Unmarshal(raw, q)
	return q.v, err
}

func decodeBytes(raw json.RawMessage) ([]byte, error) {
	var b hexutil.Bytes
	err := json.Unmarshal(raw, &b)
	return b, err
}

func decodeHash(raw json.RawMessage) (h common.Hash, err error) {
	err = json.Unmarshal(raw, &h)
	return h, err
}

// ChainID is the chain that the node serves.
func (c *Client) ChainID(ctx context.Context) (uint64, error) {
	return get(ctx, c, decodeUint64, "eth_chainId")
}

// BlockNumber is the number of the newest block.
func (c *Client) BlockNumber(ctx context.Context) (uint64, error) {
	return get(ctx, c, decodeUint64, "eth_blockNumber")
}

// HeaderByTag is the newest block, or the newest that is safe or finalized.
// Nodes without a notion of the latter answer ErrNotFound or ErrRPC.
func (c *Client) HeaderByTag(ctx context.Context, tag string) (Header, error) {
	return get(ctx, c, decodeHeader, "eth_getBlockByNumber", tag, false)
}

// HeaderByNumber is the canonical block with that number.
func (c *Client) HeaderByNumber(ctx context.Context, number uint64) (Header, error) {
	const method = "eth_getBlockByNumber"
	h, err := get(ctx, c, decodeHeader, method, hexutil.Uint64(number), false)
	if err == nil && h.Number != number {
		return Header{}, malformed(method, "block %d, asked for %d", h.Number, number)
	}
	return h, err
}

// HeaderByHash is the block with that hash, canonical or not.
func (c *Client) HeaderByHash(ctx context.Context, hash common.Hash) (Header, error) {
	const method = "eth_getBlockByHash"
	h, err := get(ctx, c, decodeHeader, method, hash, false)
	if err == nil && h.Hash != hash {
		return Header{}, malformed(method, "block %s, asked for %s", h.Hash, hash)
	}
	return h, err
}

// TransactionByHash is a transaction, mined or pending.
func (c *Client) TransactionByHash(ctx context.Context, hash common.Hash) (Tx, error) {
	const method = "eth_getTransactionByHash"
	tx, err := get(ctx, c, decodeTx, method, hash)
	if err == nil && tx.Hash != hash {
		return Tx{}, malformed(method, "transaction %s, asked for %s", tx.Hash, hash)
	}
	return tx, err
}

// TransactionReceipt is the receipt of a mined transaction; ErrNotFound while it
// is pending or unknown.
func (c *Client) TransactionReceipt(ctx context.Context, hash common.Hash) (Receipt, error) {
	raw, err := c.call(ctx, "eth_getTransactionReceipt", hash)
	if err != nil {
		return Receipt{}, err
	}
	return ParseReceipt(raw, hash)
}

// ParseReceipt reads what eth_getTransactionReceipt answered for a transaction.
// Whatever is wrong with it is [ErrMalformed].
func ParseReceipt(raw json.RawMessage, hash common.Hash) (Receipt, error) {
	const method = "eth_getTransactionReceipt"
	r, err := decodeReceipt(raw)
	switch {
	case err != nil:
		return Receipt{}, malformed(method, "%s", quote(err.Error()))
	case r.TxHash != hash:
		return Receipt{}, malformed(method, "receipt of %s, asked for %s", r.TxHash, hash)
	}
	return r, nil
}

// A Call is a message to a contract.
type Call struct {
	From  common.Address
	To    common.Address
	Data  []byte
	Value *big.Int // wei, nil = 0
}

func (m Call) param() map[string]any {
	p := map[string]any{"from": m.From, "to": m.To, "data": hexutil.Bytes(m.Data), "input": hexutil.Bytes(m.Data)}
	if m.Value != nil {
		p["value"] = (*hexutil.Big)(m.Value)
	}
	return p
}

// CallContract executes a message on the state after the block with that tag or
// hex number, without a transaction. A revert wraps ErrReverted.
func (c *Client) CallContract(ctx context.Context, m Call, block string) ([]byte, error) {
	return get(ctx, c, decodeBytes, "eth_call", m.param(), block)
}

// EstimateGas is the node's estimate of the gas that a message needs. A revert
// wraps ErrReverted.
func (c *Client) EstimateGas(ctx context.Context, m Call) (uint64, error) {
	return get(ctx, c, decodeUint64, "eth_estimateGas", m.param())
}

// NonceAt is the number of transactions of an account, Latest or Pending.
func (c *Client) NonceAt(ctx context.Context, account common.Address, block string) (uint64, error) {
	return get(ctx, c, decodeUint64, "eth_getTransactionCount", account, block)
}

// Balance is an account's balance in wei.
func (c *Client) Balance(ctx context.Context, account common.Address, block string) (*big.Int, error) {
	return get(ctx, c, decodeBig, "eth_getBalance", account, block)
}

// CodeAt is a contract's code; empty if there is none.
func (c *Client) CodeAt(ctx context.Context, account common.Address, block string) ([]byte, error) {
	return get(ctx, c, decodeBytes, "eth_getCode", account, block)
}

// SendRawTransaction hands a signed transaction to the node. known reports that
// the node had it already, which is a success. What the error wraps says what to
// do: after ErrNonceTooLow look for the transaction's receipt, after
// ErrUnderpriced replace it; after any other error it may still have been taken.
func (c *Client) SendRawTransaction(ctx context.Context, raw []byte) (known bool, err error) {
	const method = "eth_sendRawTransaction"
	got, err := get(ctx, c, decodeHash, method, hexutil.Bytes(raw))
	var call *CallError
	if errors.As(err, &call) && call.Kind == ErrRPC && isKnown(call.Message) {
		return true, nil
	}
	if want := crypto.Keccak256Hash(raw); err == nil && got != want {
		return false, malformed(method, "hash %s, sent %s", got, want)
	}
	return false, err
}

func isKnown(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "already known") || strings.Contains(m, "known transaction") ||
		strings.Contains(m, "already imported") || strings.Contains(m, "already in mempool")
}

// Raw makes any other call and returns its result as it came, at most
// [Options.MaxResponseBytes] long; null is ErrNotFound.
func (c *Client) Raw(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	return c.call(ctx, method, params...)
}
