package replay_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain/replay"
)

// deposit has anvil mine a deposit, which no key signs.
func (m *mix) deposit(source byte, from common.Address, to *common.Address, mint, value int64, gas uint64, data []byte) {
	m.t.Helper()
	tx := map[string]any{
		"type": "0x7e", "from": from, "gas": hexutil.Uint64(gas), "input": hexutil.Bytes(data), "isSystemTx": false,
		"sourceHash": crypto.Keccak256Hash([]byte{source}), "mint": (*hexutil.Big)(big.NewInt(mint)), "value": (*hexutil.Big)(big.NewInt(value)),
	}
	if to != nil {
		tx["to"] = to
	}
	var hash common.Hash
	if err := json.Unmarshal(raw(m.t, m.c, "eth_sendTransaction", tx), &hash); err != nil {
		m.t.Fatal(err)
	}
	m.sent = append(m.sent, hash)
}

// p256Input is a valid signature of an all-zero hash on P-256, by the key 1: with
// the nonce 1 as well, r is the generator's x, and s = hash + r = r.
var p256Input = common.FromHex("0000000000000000000000000000000000000000000000000000000000000000" +
	"6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" + // r
	"6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" + // s
	"6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" + // x
	"4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5") // y

// On anvil's OP-stack rules: deposits that mint, revert, create and lack funds,
// and transactions that pay for L1, whose senders' balances go into logs.
func TestOPStack(t *testing.T) {
	for _, hardfork := range []string{"isthmus", "jovian"} {
		t.Run(hardfork, func(t *testing.T) { testOPStack(t, hardfork) })
	}
}

func testOPStack(t *testing.T, hardfork string) {
	m := onAnvil(t, "--network", "optimism", "--hardfork", hardfork)
	l1Block := common.HexToAddress("0x4200000000000000000000000000000000000015")
	set := func(slot int64, value string) {
		raw(t, m.c, "anvil_setStorageAt", l1Block, common.BigToHash(big.NewInt(slot)), common.HexToHash(value))
	}
	fees := func(operator string) {
		raw(t, m.c, "anvil_setCode", l1Block, "0x00")                                // storage is of contracts only
		set(1, "0x3b9aca00")                                                         // L1 base fee, 1 gwei
		set(3, "0x00000000000000000000000000000000000a118b000008dd0000000000000000") // scalars
		set(7, "0x5f5e100")                                                          // blob base fee
		set(8, operator)
		m.mine() // the header of the block before does not know of this
	}
	// One account each: anvil's pool has one deposit an account.
	depositor := func(i byte) common.Address { return common.BytesToAddress([]byte{0xde, 0xad, i}) }
	bump := m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(2))
	environment := m.pack(m.machineABI, "environment", big.NewInt(1))
	source := byte(0)
	block := func() {
		source += 5
		m.deposit(source, depositor(0), &m.machine, 0, 0, 1_000_000, bump)
		m.deposit(source+1, depositor(1), &m.machine, 1000, 400, 1_000_000, bump)
		m.deposit(source+2, depositor(2), &m.machine, 5, 0, 200_000, m.pack(m.machineABI, "refuse", big.NewInt(0)))
		m.deposit(source+3, depositor(3), nil, 0, 0, 2_000_000, m.machineABI.Bytecode)
		for i := range 3 {
			m.call(1+i, &m.machine, 0, environment, 500_000)
			m.call(1, &m.token, 0, m.pack(m.tokenABI, "faucet", m.account(2+i).Address, big.NewInt(9)), 200_000)
		}
		m.call(4, &m.machine, 0, make([]byte, 700), 200_000) // zeros compress well
		m.call(5, &m.machine, 0, m.pack(m.machineABI, "through", common.BytesToAddress([]byte{1, 0}), big.NewInt(0), p256Input), 300_000)
		m.seal()
	}
	block()
	fees("0x00")
	block()
	fees("0x0000000000000000000000000000000000000000000000070000000000000123")
	block()
	deposits, byRules := 0, map[string]int{}
	r := newReplayer(t, replay.Options{})
	for _, hash := range m.mined[2:] { // after the two contracts
		res, err := r.Replay(t.Context(), replay.Job{Client: m.c, Tx: hash})
		if err == nil {
			err = exact(res)
		}
		if err != nil {
			t.Errorf("%s: type %#x, index %d: %v", hash, res.Outcome.Tx.Type, res.Outcome.Told.Index, err)
		}
		byRules[res.Rules]++
		if res.Outcome.Tx.Type == 0x7e {
			deposits++
		}
	}
	if deposits != 12 || byRules["prague, "+hardfork] == 0 {
		t.Errorf("%d deposits, rules %v", deposits, byRules)
	}
}
