package fork

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"

	"karatum/chain"
)

// DepositType is the type of OP-stack deposits.
const DepositType = 0x7e

// A Deposit is an OP-stack transaction that L1 or the sequencer put into the
// block: it has no signature and pays no gas.
type Deposit struct {
	SourceHash common.Hash
	From       common.Address
	To         *common.Address `rlp:"nil"`
	Mint       *big.Int        // wei created for From; 0 = none
	Value      *big.Int        // wei
	Gas        uint64
	IsSystem   bool
	Data       []byte
}

// encode is the deposit's canonical form: the type, then RLP.
func (d *Deposit) encode() ([]byte, error) {
	body, err := rlp.EncodeToBytes(d)
	return append([]byte{DepositType}, body...), err
}

// A Tx is a transaction of a block. Exactly one of Signed and Deposit is set,
// unless its type is unknown here: then neither is.
type Tx struct {
	Hash    common.Hash
	Type    uint64
	From    common.Address
	Signed  *types.Transaction
	Deposit *Deposit
	raw     []byte // canonical encoding, nil if the type is unknown
}

// Encoded is the canonical encoding, nil if the type is unknown here.
func (t *Tx) Encoded() []byte { return t.raw }

// A Block is a block with its transactions.
type Block struct {
	Header
	Txs []Tx
	// TxsUnproved says why the transactions could not be proved to be the block's,
	// "" if they were.
	TxsUnproved string
}

// A Caller makes calls; [chain.Client] is one.
type Caller interface {
	Batch(ctx context.Context, calls []chain.BatchCall)
}

// ReadBlock fetches the block with a hash, which has the given number, and its
// parent's header. strict is for chains whose transactions are all as Ethereum's
// or the OP stack's rules have them: there one that does not hash to its hash is a
// contradiction; elsewhere, as on development chains that make up transactions of
// impersonated senders, it is told in TxsUnproved. Senders are not checked yet,
// see [Block.CheckSenders]. Extra calls may ride along; their outcome is theirs.
func ReadBlock(ctx context.Context, c Caller, hash common.Hash, number uint64, strict bool, extra ...chain.BatchCall) (*Block, Header, error) {
	if number == 0 {
		return nil, Header{}, errors.New("fork: the genesis block has no parent")
	}
	calls := []chain.BatchCall{
		{Method: "eth_getBlockByHash", Params: []any{hash, true}},
		{Method: "eth_getBlockByNumber", Params: []any{hexutil.Uint64(number - 1), false}},
	}
	calls = append(calls, extra...)
	c.Batch(ctx, calls)
	copy(extra, calls[2:])
	if calls[0].Err != nil {
		return nil, Header{}, fmt.Errorf("fork: block %s: %w", hash, calls[0].Err)
	}
	b, err := parseBlock(calls[0].Result, strict)
	if err != nil {
		return nil, Header{}, err
	}
	if b.Hash != hash || b.Number.Uint64() != number {
		return nil, Header{}, malformed("block", fmt.Errorf("block %d %s, asked for %d %s", b.Number, b.Hash, number, hash))
	}
	parent, err := readParent(ctx, c, b, calls[1])
	return b, parent, err
}

// readParent takes the canonical block below if it is the parent, and asks for
// the parent by its hash otherwise.
func readParent(ctx context.Context, c Caller, b *Block, canonical chain.BatchCall) (Header, error) {
	if canonical.Err == nil {
		h, err := parseHeader(canonical.Result)
		if err != nil || h.Hash == b.ParentHash {
			return h, err
		}
	}
	calls := []chain.BatchCall{{Method: "eth_getBlockByHash", Params: []any{b.ParentHash, false}}}
	c.Batch(ctx, calls)
	if calls[0].Err != nil {
		return Header{}, fmt.Errorf("fork: parent of block %d: %w", b.Number, calls[0].Err)
	}
	h, err := parseHeader(calls[0].Result)
	if err == nil && h.Hash != b.ParentHash {
		err = malformed("parent", fmt.Errorf("block %s, asked for %s", h.Hash, b.ParentHash))
	}
	return h, err
}

func parseBlock(raw json.RawMessage, strict bool) (*Block, error) {
	h, err := parseHeader(raw)
	if err != nil {
		return nil, err
	}
	var body struct {
		Transactions []json.RawMessage `json:"transactions"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, malformed("block", err)
	}
	b := &Block{Header: h}
	for i, raw := range body.Transactions {
		tx, unproved, err := parseTx(raw)
		if err != nil {
			return nil, fmt.Errorf("transaction %d: %w", i, err)
		}
		b.Txs = append(b.Txs, tx)
		if unproved != "" && b.TxsUnproved == "" {
			b.TxsUnproved = fmt.Sprintf("transaction %d %s", i, unproved)
		}
	}
	if b.TxsUnproved == "" {
		if root := types.DeriveSha(encodings(b.Txs), trie.NewStackTrie(nil)); root != b.TxHash {
			b.TxsUnproved = fmt.Sprintf("transactions of block %d do not hash to its transaction root", b.Number)
		}
	}
	if strict && b.TxsUnproved != "" && b.Unproved == "" {
		return nil, contradiction("%s", b.TxsUnproved)
	}
	return b, nil
}

// encodings are transactions as the transaction root has them.
type encodings []Tx

func (e encodings) Len() int                           { return len(e) }
func (e encodings) EncodeIndex(i int, w *bytes.Buffer) { w.Write(e[i].raw) }

// parseTx reads a transaction object. unproved says what does not fit together.
func parseTx(raw json.RawMessage) (tx Tx, unproved string, err error) {
	var told struct {
		Hash *common.Hash    `json:"hash"`
		From *common.Address `json:"from"`
		Type *hexutil.Uint64 `json:"type"`
	}
	if err := json.Unmarshal(raw, &told); err != nil {
		return tx, "", malformed("transaction", err)
	}
	if told.Hash == nil || told.From == nil {
		return tx, "", malformed("transaction", errors.New("hash or from is missing"))
	}
	tx = Tx{Hash: *told.Hash, From: *told.From}
	if told.Type != nil {
		tx.Type = uint64(*told.Type)
	}
	switch {
	case tx.Type == DepositType:
		err = tx.parseDeposit(raw)
	case tx.Type <= types.SetCodeTxType:
		err = tx.parseSigned(raw)
	default:
		return tx, fmt.Sprintf("has type %#x, which is not known here", tx.Type), nil
	}
	switch {
	case err != nil:
		return tx, "", malformed("transaction", err)
	case crypto.Keccak256Hash(tx.raw) != tx.Hash:
		return tx, "does not hash to its hash", nil
	}
	return tx, "", nil
}

// CheckSenders recovers the senders of the transactions from one index to
// another, both included. unproved names one that is not signed by the sender
// told; for a strict chain that is a contradiction, see [ReadBlock].
func (b *Block) CheckSenders(chainID uint64, from, to int, strict bool) (unproved string, err error) {
	signer := types.LatestSignerForChainID(new(big.Int).SetUint64(chainID))
	wrong := make([]bool, len(b.Txs))
	var next atomic.Int64
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), to-from+1) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i <= int64(to); i = next.Add(1) - 1 {
				if tx := &b.Txs[i]; tx.Signed != nil {
					sender, err := types.Sender(signer, tx.Signed) // the transaction remembers it
					wrong[i] = err != nil || sender != tx.From
				}
			}
		})
	}
	wg.Wait()
	i := slices.Index(wrong, true)
	if i < 0 {
		return "", nil
	}
	unproved = fmt.Sprintf("transaction %d is not signed by its sender", i)
	if strict && b.Unproved == "" {
		return "", contradiction("%s", unproved)
	}
	return unproved, nil
}

func (t *Tx) parseSigned(raw json.RawMessage) (err error) {
	t.Signed = new(types.Transaction)
	if err := t.Signed.UnmarshalJSON(raw); err != nil {
		return err
	}
	t.raw, err = t.Signed.MarshalBinary()
	return err
}

func (t *Tx) parseDeposit(raw json.RawMessage) (err error) {
	var j struct {
		SourceHash *common.Hash    `json:"sourceHash"`
		To         *common.Address `json:"to"`
		Mint       *hexutil.Big    `json:"mint"`
		Value      *hexutil.Big    `json:"value"`
		Gas        *hexutil.Uint64 `json:"gas"`
		IsSystem   bool            `json:"isSystemTx"`
		Input      *hexutil.Bytes  `json:"input"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return err
	}
	if j.SourceHash == nil || j.Value == nil || j.Gas == nil || j.Input == nil {
		return errors.New("deposit lacks sourceHash, value, gas or input")
	}
	t.Deposit = &Deposit{
		SourceHash: *j.SourceHash, From: t.From, To: j.To, Mint: new(big.Int), Value: j.Value.ToInt(),
		Gas: uint64(*j.Gas), IsSystem: j.IsSystem, Data: *j.Input,
	}
	if j.Mint != nil {
		t.Deposit.Mint = j.Mint.ToInt()
	}
	t.raw, err = t.Deposit.encode()
	return err
}
