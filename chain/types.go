package chain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// A Header is the part of a block's header that anchoring and verdicts use.
type Header struct {
	Number     uint64
	Hash       common.Hash
	ParentHash common.Hash
	StateRoot  common.Hash
	Time       uint64   // Unix seconds
	BaseFee    *big.Int // wei; nil before EIP-1559
}

// A Tx is a transaction of any type, OP-stack deposits (0x7e) included.
type Tx struct {
	Hash        common.Hash
	Type        uint64
	From        common.Address  // as the node says
	To          *common.Address // nil creates a contract
	Nonce       uint64
	Value       *big.Int // wei
	Input       []byte
	BlockHash   common.Hash // zero while pending
	BlockNumber uint64      // valid if Mined
	Index       uint64      // position in the block, valid if Mined
	Mined       bool
}

// A Log is one event of a receipt.
type Log struct {
	Address common.Address
	Topics  []common.Hash // at most 4
	Data    []byte
	Index   uint64 // position in the block
	Removed bool   // a reorganisation took it out of the chain
}

// A Receipt is the outcome of a mined transaction.
type Receipt struct {
	TxHash            common.Hash
	Type              uint64
	Status            uint64 // 1 = success, 0 = reverted
	From              common.Address
	To                *common.Address // nil created a contract
	ContractAddress   *common.Address // the created contract
	BlockHash         common.Hash
	BlockNumber       uint64
	Index             uint64 // position in the block
	GasUsed           uint64
	CumulativeGasUsed uint64   // of the block up to and with this transaction; 0 if the node does not say
	EffectiveGasPrice *big.Int // wei per gas; nil if the node does not say
	L1Fee             *big.Int // wei, OP-stack only, else nil
	Logs              []Log
}

// A quantity is an unsigned number in hex, at most 256 bits. Leading zeros,
// which some nodes send, are accepted.
type quantity struct{ v *big.Int }

func (q *quantity) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return errors.New("quantity is not a string")
	}
	if len(s) < 3 || len(s) > 66 || s[0] != '0' || s[1] != 'x' {
		return errors.New("quantity is not 0x and 1 to 64 digits")
	}
	for _, c := range []byte(s[2:]) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return errors.New("quantity has a digit that is not hex")
		}
	}
	q.v, _ = new(big.Int).SetString(s[2:], 16)
	return nil
}

func (q *quantity) big() *big.Int {
	if q == nil {
		return nil
	}
	return q.v
}

// fields collects what is missing or too large, so that decoding reads as one
// list of members and reports the first fault.
type fields struct{ err error }

func (f *fields) fail(name, what string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s %s", name, what)
	}
}

func (f *fields) uint64(name string, q *quantity) uint64 {
	switch {
	case q == nil || q.v == nil:
		f.fail(name, "is missing")
	case !q.v.IsUint64():
		f.fail(name, "exceeds 64 bits")
	default:
		return q.v.Uint64()
	}
	return 0
}

// optional is uint64 for members that old nodes leave out.
func (f *fields) optional(name string, q *quantity) uint64 {
	if q == nil {
		return 0
	}
	return f.uint64(name, q)
}

func require[T any](f *fields, name string, v *T) (zero T) {
	if v == nil {
		f.fail(name, "is missing")
		return zero
	}
	return *v
}

func decodeHeader(raw json.RawMessage) (Header, error) {
	var j struct {
		Number     *quantity    `json:"number"`
		Hash       *common.Hash `json:"hash"`
		ParentHash *common.Hash `json:"parentHash"`
		StateRoot  *common.Hash `json:"stateRoot"`
		Time       *quantity    `json:"timestamp"`
		BaseFee    *quantity    `json:"baseFeePerGas"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return Header{}, err
	}
	var f fields
	h := Header{
		Number:     f.uint64("number", j.Number),
		Hash:       require(&f, "hash", j.Hash),
		ParentHash: require(&f, "parentHash", j.ParentHash),
		StateRoot:  require(&f, "stateRoot", j.StateRoot),
		Time:       f.uint64("timestamp", j.Time),
		BaseFee:    j.BaseFee.big(),
	}
	return h, f.err
}

func decodeTx(raw json.RawMessage) (Tx, error) {
	var j struct {
		Hash        *common.Hash    `json:"hash"`
		Type        *quantity       `json:"type"`
		From        *common.Address `json:"from"`
		To          *common.Address `json:"to"`
		Nonce       *quantity       `json:"nonce"`
		Value       *quantity       `json:"value"`
		Input       *hexutil.Bytes  `json:"input"`
		BlockHash   *common.Hash    `json:"blockHash"`
		BlockNumber *quantity       `json:"blockNumber"`
		Index       *quantity       `json:"transactionIndex"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return Tx{}, err
	}
	var f fields
	tx := Tx{
		Hash:  require(&f, "hash", j.Hash),
		Type:  f.optional("type", j.Type),
		From:  require(&f, "from", j.From),
		To:    j.To,
		Nonce: f.uint64("nonce", j.Nonce),
		Value: require(&f, "value", j.Value).v,
		Input: require(&f, "input", j.Input),
		Mined: j.BlockHash != nil,
	}
	if tx.Mined {
		tx.BlockHash = *j.BlockHash
		tx.BlockNumber = f.uint64("blockNumber", j.BlockNumber)
		tx.Index = f.uint64("transactionIndex", j.Index)
	}
	return tx, f.err
}

type logJSON struct {
	Address     *common.Address `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        *hexutil.Bytes  `json:"data"`
	Index       *quantity       `json:"logIndex"`
	Removed     bool            `json:"removed"`
	TxHash      *common.Hash    `json:"transactionHash"`
	BlockHash   *common.Hash    `json:"blockHash"`
	BlockNumber *quantity       `json:"blockNumber"`
}

func decodeReceipt(raw json.RawMessage) (Receipt, error) {
	var j struct {
		TxHash            *common.Hash    `json:"transactionHash"`
		Type              *quantity       `json:"type"`
		Status            *quantity       `json:"status"`
		From              *common.Address `json:"from"`
		To                *common.Address `json:"to"`
		ContractAddress   *common.Address `json:"contractAddress"`
		BlockHash         *common.Hash    `json:"blockHash"`
		BlockNumber       *quantity       `json:"blockNumber"`
		Index             *quantity       `json:"transactionIndex"`
		GasUsed           *quantity       `json:"gasUsed"`
		CumulativeGasUsed *quantity       `json:"cumulativeGasUsed"`
		EffectiveGasPrice *quantity       `json:"effectiveGasPrice"`
		L1Fee             *quantity       `json:"l1Fee"`
		Logs              *[]logJSON      `json:"logs"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return Receipt{}, err
	}
	var f fields
	r := Receipt{
		TxHash:            require(&f, "transactionHash", j.TxHash),
		Type:              f.optional("type", j.Type),
		Status:            f.uint64("status", j.Status),
		From:              require(&f, "from", j.From),
		To:                j.To,
		ContractAddress:   j.ContractAddress,
		BlockHash:         require(&f, "blockHash", j.BlockHash),
		BlockNumber:       f.uint64("blockNumber", j.BlockNumber),
		Index:             f.uint64("transactionIndex", j.Index),
		GasUsed:           f.uint64("gasUsed", j.GasUsed),
		CumulativeGasUsed: f.optional("cumulativeGasUsed", j.CumulativeGasUsed),
		EffectiveGasPrice: j.EffectiveGasPrice.big(),
		L1Fee:             j.L1Fee.big(),
	}
	if r.Status > 1 {
		f.fail("status", "is neither 0 nor 1")
	}
	for _, l := range require(&f, "logs", j.Logs) {
		r.Logs = append(r.Logs, decodeLog(&f, l, r))
	}
	return r, f.err
}

// decodeLog reads one log, which must belong to the receipt's transaction and
// block wherever it names them.
func decodeLog(f *fields, j logJSON, r Receipt) Log {
	switch {
	case len(j.Topics) > 4:
		f.fail("log", "has more than 4 topics")
	case j.TxHash != nil && *j.TxHash != r.TxHash:
		f.fail("log", "belongs to another transaction")
	case j.BlockHash != nil && *j.BlockHash != r.BlockHash:
		f.fail("log", "belongs to another block")
	case j.BlockNumber != nil && f.uint64("log blockNumber", j.BlockNumber) != r.BlockNumber:
		f.fail("log", "has another block number")
	}
	return Log{
		Address: require(f, "log address", j.Address),
		Topics:  j.Topics,
		Data:    require(f, "log data", j.Data),
		Index:   f.uint64("log index", j.Index),
		Removed: j.Removed,
	}
}
