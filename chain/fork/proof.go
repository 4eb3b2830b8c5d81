package fork

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
)

// accountProof is an answer to eth_getProof.
type accountProof struct {
	AccountProof []hexutil.Bytes `json:"accountProof"`
	Balance      *hexutil.Big    `json:"balance"`
	Nonce        *hexutil.Uint64 `json:"nonce"`
	StorageProof []struct {
		Key   storageKey      `json:"key"`
		Value *hexutil.Big    `json:"value"`
		Proof []hexutil.Bytes `json:"proof"`
	} `json:"storageProof"`
}

// storageKey reads a slot's number in either form that nodes use: 32 bytes, or a
// quantity.
type storageKey common.Hash

func (k *storageKey) UnmarshalText(text []byte) error {
	if len(text) == 2+2*common.HashLength {
		return (*common.Hash)(k).UnmarshalText(text)
	}
	var q hexutil.Big
	if err := q.UnmarshalText(text); err != nil {
		return err
	}
	*k = storageKey(common.BigToHash(q.ToInt()))
	return nil
}

// nodes are the nodes of a proof by their hash. It is what trie.VerifyProof
// reads from.
type nodes map[common.Hash][]byte

func newNodes(proof []hexutil.Bytes) nodes {
	n := make(nodes, len(proof))
	for _, raw := range proof {
		n[crypto.Keccak256Hash(raw)] = raw
	}
	return n
}

// Has implements ethdb.KeyValueReader.
func (n nodes) Has(key []byte) (bool, error) {
	_, ok := n[common.BytesToHash(key)]
	return ok, nil
}

// Get implements ethdb.KeyValueReader.
func (n nodes) Get(key []byte) ([]byte, error) {
	raw, ok := n[common.BytesToHash(key)]
	if !ok {
		return nil, errors.New("not in the proof")
	}
	return raw, nil
}

// prove is the value at keccak(key) under a root; nil if the proof shows that
// there is none.
func prove(root common.Hash, key []byte, proof []hexutil.Bytes) ([]byte, error) {
	if root == types.EmptyRootHash {
		return nil, nil // nothing is below it, with or without a proof
	}
	return trie.VerifyProof(root, crypto.Keccak256(key), newNodes(proof))
}

// A proved account and the slots that came with it.
type proved struct {
	account *types.StateAccount // nil = there is none
	slots   map[common.Hash]common.Hash
}

// verify reads an answer to eth_getProof and checks all of it against the state
// root. The slots asked for must all be there.
func verify(raw json.RawMessage, root common.Hash, addr common.Address, slots []common.Hash) (proved, error) {
	var p accountProof
	if err := json.Unmarshal(raw, &p); err != nil {
		return proved{}, malformed("eth_getProof", err)
	}
	if p.Balance == nil || p.Nonce == nil {
		return proved{}, malformed("eth_getProof", errors.New("balance or nonce is missing"))
	}
	account, err := verifyAccount(p, root, addr)
	if err != nil {
		return proved{}, err
	}
	out := proved{account, make(map[common.Hash]common.Hash, len(slots))}
	storage := types.EmptyRootHash
	if account != nil {
		storage = account.Root
	}
	for _, s := range p.StorageProof {
		if s.Value == nil {
			return proved{}, malformed("eth_getProof", errors.New("slot without a value"))
		}
		v, err := verifySlot(storage, common.Hash(s.Key), s.Proof)
		if err != nil {
			return proved{}, contradiction("slot %s of %s: %v", common.Hash(s.Key), addr, err)
		}
		if told := common.BigToHash(s.Value.ToInt()); told != v {
			return proved{}, contradiction("slot %s of %s is %s by its proof, told %s", common.Hash(s.Key), addr, v, told)
		}
		out.slots[common.Hash(s.Key)] = v
	}
	for _, slot := range slots {
		if _, ok := out.slots[slot]; !ok {
			return proved{}, malformed("eth_getProof", fmt.Errorf("slot %s of %s is missing", slot, addr))
		}
	}
	return out, nil
}

func verifyAccount(p accountProof, root common.Hash, addr common.Address) (*types.StateAccount, error) {
	raw, err := prove(root, addr[:], p.AccountProof)
	if err != nil {
		return nil, contradiction("account %s: %v", addr, err)
	}
	balance, nonce := new(big.Int), uint64(0)
	var account *types.StateAccount
	if raw != nil {
		account = new(types.StateAccount)
		if err := rlp.DecodeBytes(raw, account); err != nil {
			return nil, contradiction("account %s: %v", addr, err)
		}
		balance, nonce = account.Balance.ToBig(), account.Nonce
	}
	if p.Balance.ToInt().Cmp(balance) != 0 || uint64(*p.Nonce) != nonce {
		return nil, contradiction("account %s has balance %s and nonce %d by its proof, told %s and %d", addr, balance, nonce, p.Balance.ToInt(), uint64(*p.Nonce))
	}
	return account, nil
}

func verifySlot(storage, slot common.Hash, proof []hexutil.Bytes) (common.Hash, error) {
	raw, err := prove(storage, slot[:], proof)
	if err != nil || raw == nil {
		return common.Hash{}, err
	}
	content, rest, err := rlp.SplitString(raw)
	switch {
	case err != nil:
		return common.Hash{}, err
	case len(rest) != 0 || len(content) > common.HashLength:
		return common.Hash{}, errors.New("value is not one of at most 32 bytes")
	}
	return common.BytesToHash(content), nil
}
