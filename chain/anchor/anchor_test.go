package anchor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"karatum/chain"
	"karatum/chain/anchor"
	"karatum/chain/chaintest"
	"karatum/chain/contracts"
	"karatum/chain/eas"
)

var maxFee = big.NewInt(100_000_000_000)

const poll = time.Millisecond

// A place is a chain with an EAS on it.
type place struct {
	client  *chain.Client
	network eas.Network
	signer  anchor.KeySigner
}

// places are our contracts on the dev chain, over HTTP and in process, the
// original ones on the dev chain and on anvil, and the older version that stands
// on Sepolia. The same code must work on all.
func places(t *testing.T, run func(*testing.T, place)) {
	account := chaintest.Account(t, 1)
	deployer := chaintest.Account(t, 0)
	dev, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	original := func(t *testing.T, c *chain.Client) eas.Network {
		n := dev
		n.Registry, n.EAS = chaintest.DeployOriginal(t, c, deployer.Key)
		return n
	}
	for name, open := range map[string]func(t *testing.T) (*chain.Client, eas.Network){
		"devchain": func(t *testing.T) (*chain.Client, eas.Network) {
			return chaintest.Dial(t, chaintest.DevChain(t).URL()), dev
		},
		"devchain in process": func(t *testing.T) (*chain.Client, eas.Network) {
			return chain.NewInProc(chaintest.DevChain(t).Client(), chain.Options{}), dev
		},
		"original on devchain": func(t *testing.T) (*chain.Client, eas.Network) {
			c := chain.NewInProc(chaintest.DevChain(t).Client(), chain.Options{})
			return c, original(t, c)
		},
		"sepolia's on devchain": func(t *testing.T) (*chain.Client, eas.Network) {
			c, n := chain.NewInProc(chaintest.DevChain(t).Client(), chain.Options{}), dev
			n.Registry, n.EAS = chaintest.DeploySepolia(t, c, deployer.Key)
			return c, n
		},
		"original on anvil": func(t *testing.T) (*chain.Client, eas.Network) {
			c := chaintest.Dial(t, chaintest.Anvil(t))
			return c, original(t, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := open(t)
			run(t, place{c, n, anchor.NewKeySigner(account.Key)})
		})
	}
}

func (p place) build(t *testing.T, root [32]byte, count uint32) anchor.Tx {
	t.Helper()
	nonce, err := p.client.NonceAt(t.Context(), p.signer.Address(), chain.Pending)
	if err != nil {
		t.Fatal(err)
	}
	fees, err := p.client.SuggestFees(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := anchor.BuildAttest(t.Context(), p.client, p.network, p.signer, nonce, fees, root, count)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (p place) send(t *testing.T, tx anchor.Tx) {
	t.Helper()
	if _, err := p.client.SendRawTransaction(t.Context(), tx.Raw); err != nil {
		t.Fatal(err)
	}
	chaintest.Receipt(t, p.client, tx.Hash)
}

func TestAnchoring(t *testing.T) {
	places(t, func(t *testing.T, p place) {
		ctx, root, count := t.Context(), [32]byte{0xaa}, uint32(7)
		if err := anchor.CheckNetwork(ctx, p.client, p.network); err != nil {
			t.Fatal(err)
		}
		_, err := anchor.BuildAttest(ctx, p.client, p.network, p.signer, 0, chain.Fees{Cap: maxFee, Tip: new(big.Int)}, root, count)
		if !errors.Is(err, anchor.ErrRefused) || !bytes.Contains([]byte(err.Error()), []byte("InvalidSchema")) {
			t.Errorf("attest without the schema: %v; want a refusal named InvalidSchema", err)
		}
		sent, err := anchor.EnsureSchema(ctx, p.client, p.network, p.signer, maxFee, poll)
		if err != nil || sent == (common.Hash{}) {
			t.Fatalf("EnsureSchema = %s, %v; want a transaction", sent, err)
		}
		if sent, err := anchor.EnsureSchema(ctx, p.client, p.network, p.signer, maxFee, poll); err != nil || sent != (common.Hash{}) {
			t.Errorf("EnsureSchema again = %s, %v; want nothing to do", sent, err)
		}
		_, err = anchor.BuildRegister(ctx, p.client, p.network, p.signer, 0, chain.Fees{Cap: maxFee, Tip: new(big.Int)})
		if !errors.Is(err, anchor.ErrRefused) || !bytes.Contains([]byte(err.Error()), []byte("AlreadyExists")) {
			t.Errorf("register again: %v; want a refusal named AlreadyExists", err)
		}

		tx := p.build(t, root, count)
		if again := p.build(t, root, count); !bytes.Equal(again.Raw, tx.Raw) {
			t.Errorf("the same epoch under the same nonce gave other bytes:\n%x\n%x", tx.Raw, again.Raw)
		}
		if _, err := anchor.Find(ctx, p.client, p.network, tx.Hash, root, count); !errors.Is(err, chain.ErrNotFound) {
			t.Errorf("before sending: %v, want ErrNotFound", err)
		}
		p.send(t, tx)
		a, err := anchor.Find(ctx, p.client, p.network, tx.Hash, root, count)
		if err != nil {
			t.Fatal(err)
		}
		p.checkAnchor(t, a, root, count, 0)
		if known, err := p.client.SendRawTransaction(ctx, tx.Raw); !known && !errors.Is(err, chain.ErrNonceTooLow) {
			t.Errorf("sending the mined bytes again: known %v, %v", known, err)
		}
		for _, wrong := range []struct {
			root  [32]byte
			count uint32
		}{{[32]byte{0xab}, count}, {root, count + 1}} {
			if _, err := anchor.Find(ctx, p.client, p.network, tx.Hash, wrong.root, wrong.count); !errors.Is(err, anchor.ErrMismatch) {
				t.Errorf("as an anchor of %x, %d: %v, want ErrMismatch", wrong.root, wrong.count, err)
			}
		}
		if _, err := anchor.Find(ctx, p.client, p.network, sent, root, count); !errors.Is(err, anchor.ErrMismatch) {
			t.Errorf("the registration as an anchor: %v, want ErrMismatch", err)
		}
	})
}

// checkAnchor compares an anchor with what the contract says and with the UID
// rule.
func (p place) checkAnchor(t *testing.T, a anchor.Anchor, root [32]byte, count uint32, bump uint32) {
	t.Helper()
	block, err := p.client.HeaderByHash(t.Context(), a.BlockHash)
	if err != nil {
		t.Fatal(err)
	}
	epoch := eas.Epoch{Root: root, Count: count, Spec: eas.SpecV1}
	request := eas.Request{Schema: eas.EpochSchemaUID(), Data: epoch.Data()}
	if want := request.UID(p.signer.Address(), block.Time, bump); a.AttestationUID != want || a.Attester != p.signer.Address() {
		t.Errorf("attestation %s by %s, want %s by %s", a.AttestationUID, a.Attester, want, p.signer.Address())
	}
	valid, err := p.client.CallContract(t.Context(), chain.Call{To: p.network.EAS, Data: eas.IsAttestationValidCalldata(a.AttestationUID)}, chain.Latest)
	if err != nil || new(big.Int).SetBytes(valid).Int64() != 1 {
		t.Errorf("isAttestationValid = %x, %v", valid, err)
	}
	artifact, err := contracts.EAS()
	if err != nil {
		t.Fatal(err)
	}
	result, err := p.client.CallContract(t.Context(), chain.Call{To: p.network.EAS, Data: eas.GetAttestationCalldata(a.AttestationUID)}, chain.Latest)
	if err != nil {
		t.Fatal(err)
	}
	values, err := artifact.ABI.Unpack("getAttestation", result)
	if err != nil {
		t.Fatal(err)
	}
	stored := fmt.Sprintf("%+v", values[0])
	if want := fmt.Sprintf("Data:%v}", epoch.Data()); !bytes.HasSuffix([]byte(stored), []byte(want)) {
		t.Errorf("stored attestation %s does not end with %s", stored, want)
	}
	state, confirmations, err := anchor.BlockState(t.Context(), p.client, a.BlockNumber, a.BlockHash)
	if err != nil || state == anchor.Orphaned || confirmations == 0 {
		t.Errorf("BlockState = %s, %d, %v", state, confirmations, err)
	}
	if state, _, err := anchor.BlockState(t.Context(), p.client, a.BlockNumber, common.Hash{1}); err != nil || state != anchor.Orphaned {
		t.Errorf("BlockState of another block = %s, %v; want orphaned", state, err)
	}
	if state, _, err := anchor.BlockState(t.Context(), p.client, a.BlockNumber+100, a.BlockHash); err != nil || state != anchor.Orphaned {
		t.Errorf("BlockState of a block to come = %s, %v; want orphaned", state, err)
	}
}

// Two equal attestations in one block exist side by side: the second has the
// next bump.
func TestEqualAttestationsInOneBlock(t *testing.T) {
	account := chaintest.Account(t, 1)
	dev, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	url := chaintest.Anvil(t) // it can be told not to mine
	c := chaintest.Dial(t, url)
	n := dev
	n.Registry, n.EAS = chaintest.DeployOriginal(t, c, account.Key)
	p := place{c, n, anchor.NewKeySigner(account.Key)}
	if _, err := anchor.EnsureSchema(t.Context(), c, n, p.signer, maxFee, poll); err != nil {
		t.Fatal(err)
	}
	rawCall(t, c, "evm_setAutomine", false)
	first := p.build(t, [32]byte{1}, 1)
	if _, err := c.SendRawTransaction(t.Context(), first.Raw); err != nil {
		t.Fatal(err)
	}
	if known, err := c.SendRawTransaction(t.Context(), first.Raw); err != nil || !known {
		t.Errorf("sending pending bytes again: known %v, %v", known, err)
	}
	if _, err := anchor.Find(t.Context(), c, n, first.Hash, [32]byte{1}, 1); !errors.Is(err, anchor.ErrPending) {
		t.Errorf("Find = %v, want ErrPending", err)
	}
	second := p.build(t, [32]byte{1}, 1)
	if _, err := c.SendRawTransaction(t.Context(), second.Raw); err != nil {
		t.Fatal(err)
	}
	rawCall(t, c, "evm_mine")
	for bump, tx := range []anchor.Tx{first, second} {
		chaintest.Receipt(t, c, tx.Hash)
		a, err := anchor.Find(t.Context(), c, n, tx.Hash, [32]byte{1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		p.checkAnchor(t, a, [32]byte{1}, 1, uint32(bump))
	}
}

// A transaction that is stuck with a low fee is replaced under its nonce: one of
// the two is mined, the other never.
func TestBumpReplaces(t *testing.T) {
	account := chaintest.Account(t, 1)
	n, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	c := chaintest.Dial(t, chaintest.Anvil(t))
	n.Registry, n.EAS = chaintest.DeployOriginal(t, c, account.Key)
	p := place{c, n, anchor.NewKeySigner(account.Key)}
	if _, err := anchor.EnsureSchema(t.Context(), c, n, p.signer, maxFee, poll); err != nil {
		t.Fatal(err)
	}
	rawCall(t, c, "evm_setAutomine", false)
	stuck := p.build(t, [32]byte{2}, 1)
	if _, err := c.SendRawTransaction(t.Context(), stuck.Raw); err != nil {
		t.Fatal(err)
	}
	bumped, err := anchor.Bump(stuck.Raw, n, p.signer, chain.Fees{})
	if err != nil {
		t.Fatal(err)
	}
	if bumped.Nonce != stuck.Nonce || bumped.Gas != stuck.Gas || bumped.Hash == stuck.Hash {
		t.Errorf("bumped %+v from %+v", bumped, stuck)
	}
	tenth := new(big.Int).Div(new(big.Int).Mul(stuck.Fees.Cap, big.NewInt(110)), big.NewInt(100))
	if bumped.Fees.Cap.Cmp(tenth) < 0 {
		t.Errorf("cap went from %s to %s, less than a tenth more", stuck.Fees.Cap, bumped.Fees.Cap)
	}
	p.sendOnly(t, bumped)
	rawCall(t, c, "evm_mine")
	chaintest.Receipt(t, c, bumped.Hash)
	if _, err := anchor.Find(t.Context(), c, n, bumped.Hash, [32]byte{2}, 1); err != nil {
		t.Error(err)
	}
	if _, err := anchor.Find(t.Context(), c, n, stuck.Hash, [32]byte{2}, 1); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("the replaced transaction: %v, want ErrNotFound", err)
	}
	if known, err := c.SendRawTransaction(t.Context(), stuck.Raw); known || !errors.Is(err, chain.ErrNonceTooLow) {
		t.Errorf("sending the replaced transaction again: known %v, %v; want ErrNonceTooLow", known, err)
	}
}

func (p place) sendOnly(t *testing.T, tx anchor.Tx) {
	t.Helper()
	if _, err := p.client.SendRawTransaction(t.Context(), tx.Raw); err != nil {
		t.Fatal(err)
	}
}

// A reorganisation takes the anchor out of the chain; the same bytes go in again.
func TestOrphanedAnchor(t *testing.T) {
	dev := chaintest.DevChain(t)
	n, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	p := place{chain.NewInProc(dev.Client(), chain.Options{}), n, anchor.NewKeySigner(chaintest.Account(t, 1).Key)}
	if _, err := anchor.EnsureSchema(t.Context(), p.client, n, p.signer, maxFee, poll); err != nil {
		t.Fatal(err)
	}
	var snapshot hexutil.Uint64
	if err := dev.Client().Call(&snapshot, "evm_snapshot"); err != nil {
		t.Fatal(err)
	}
	root := [32]byte{3}
	tx := p.build(t, root, 1)
	p.send(t, tx)
	first, err := anchor.Find(t.Context(), p.client, n, tx.Hash, root, 1)
	if err != nil {
		t.Fatal(err)
	}
	if state, confirmations, err := anchor.BlockState(t.Context(), p.client, first.BlockNumber, first.BlockHash); err != nil || state != anchor.Final || confirmations != 1 {
		t.Errorf("BlockState = %s, %d, %v; want final, 1", state, confirmations, err)
	}
	var ok bool
	if err := dev.Client().Call(&ok, "evm_revert", snapshot); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for range 3 { // the height advances past the old block
		if err := dev.Mine(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := anchor.Find(t.Context(), p.client, n, tx.Hash, root, 1); !errors.Is(err, chain.ErrNotFound) {
		t.Errorf("Find after the reorganisation = %v, want ErrNotFound", err)
	}
	if state, _, err := anchor.BlockState(t.Context(), p.client, first.BlockNumber, first.BlockHash); err != nil || state != anchor.Orphaned {
		t.Errorf("BlockState = %s, %v; want orphaned", state, err)
	}
	p.send(t, tx)
	second, err := anchor.Find(t.Context(), p.client, n, tx.Hash, root, 1)
	if err != nil || second.BlockHash == first.BlockHash || second.AttestationUID == first.AttestationUID {
		t.Errorf("anchored again as %+v, %v; before %+v", second, err, first)
	}
}

func rawCall(t *testing.T, c *chain.Client, method string, params ...any) {
	t.Helper()
	if _, err := c.Raw(t.Context(), method, params...); err != nil && !errors.Is(err, chain.ErrNotFound) {
		t.Fatal(err)
	}
}

func TestGuards(t *testing.T) {
	dev := chaintest.DevChain(t)
	c := chain.NewInProc(dev.Client(), chain.Options{})
	n, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	s := anchor.NewKeySigner(chaintest.Account(t, 1).Key)
	other := n
	other.ChainID = 84532
	if err := anchor.CheckNetwork(t.Context(), c, other); !errors.Is(err, eas.ErrChainID) {
		t.Errorf("wrong chain id: %v", err)
	}
	for _, at := range []common.Address{{1}, dev.USDC(), n.Registry} {
		other = n
		other.EAS = at
		if err := anchor.CheckNetwork(t.Context(), c, other); !errors.Is(err, anchor.ErrNotEAS) {
			t.Errorf("EAS at %s: %v, want ErrNotEAS", at, err)
		}
	}
	other = n
	other.Registry = common.Address{1}
	if _, err := anchor.SchemaRegistered(t.Context(), c, other); !errors.Is(err, anchor.ErrNotEAS) {
		t.Errorf("registry without code: %v, want ErrNotEAS", err)
	}
	if _, err := anchor.EnsureSchema(t.Context(), c, n, s, common.Big1, poll); !errors.Is(err, chain.ErrFeeLimit) {
		t.Errorf("fee limit of 1 wei: %v, want ErrFeeLimit", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := anchor.EnsureSchema(ctx, c, n, s, maxFee, poll); !errors.Is(err, stop) {
		t.Errorf("cancelled: %v, want the cause", err)
	}
	if _, err := anchor.EnsureSchema(t.Context(), c, n, s, maxFee, poll); err != nil {
		t.Fatal(err)
	}
	p := place{c, n, s}
	tx := p.build(t, [32]byte{1}, 1)
	if got, err := anchor.ParseTx(tx.Raw, n, s.Address()); err != nil || got.Hash != tx.Hash || got.Nonce != tx.Nonce || got.MaxCost().Cmp(tx.MaxCost()) != 0 {
		t.Errorf("ParseTx = %+v, %v; want %+v", got, err, tx)
	}
	other = n
	other.ChainID = 1
	for name, parse := range map[string]func() (anchor.Tx, error){
		"another account": func() (anchor.Tx, error) { return anchor.ParseTx(tx.Raw, n, common.Address{1}) },
		"another chain":   func() (anchor.Tx, error) { return anchor.ParseTx(tx.Raw, other, s.Address()) },
		"cut off":         func() (anchor.Tx, error) { return anchor.ParseTx(tx.Raw[:50], n, s.Address()) },
		"bump of another": func() (anchor.Tx, error) {
			return anchor.Bump(tx.Raw, n, anchor.NewKeySigner(chaintest.Account(t, 2).Key), chain.Fees{})
		},
	} {
		if _, err := parse(); !errors.Is(err, anchor.ErrForeignTx) {
			t.Errorf("%s: %v, want ErrForeignTx", name, err)
		}
	}
}

// Every part of transaction and receipt that Check relies on is looked at.
func TestCheckRefuses(t *testing.T) {
	n, err := eas.NetworkByName("dev")
	if err != nil {
		t.Fatal(err)
	}
	root, count, attester := [32]byte{9}, uint32(2), common.Address{7}
	elsewhere := common.Address{8}
	good := func() (chain.Tx, chain.Receipt) {
		eAS := n.EAS
		tx := chain.Tx{
			Hash: common.Hash{1}, From: attester, To: &eAS, Mined: true, BlockHash: common.Hash{2}, BlockNumber: 5,
			Input: eas.Epoch{Root: root, Count: count, Spec: eas.SpecV1}.Calldata(),
		}
		uid := common.Hash{3}
		r := chain.Receipt{
			TxHash: tx.Hash, From: attester, To: &eAS, Status: 1, BlockHash: tx.BlockHash, BlockNumber: 5,
			Logs: []chain.Log{{
				Address: n.EAS, Data: uid[:],
				Topics: []common.Hash{eas.AttestedTopic(), {}, common.BytesToHash(attester[:]), eas.EpochSchemaUID()},
			}},
		}
		return tx, r
	}
	tx, r := good()
	if a, err := anchor.Check(tx, r, n, root, count); err != nil || a.AttestationUID != (common.Hash{3}) || a.Attester != attester {
		t.Fatalf("Check = %+v, %v", a, err)
	}
	for name, tt := range map[string]struct {
		spoil func(*chain.Tx, *chain.Receipt)
		want  error
	}{
		"creation":              {func(tx *chain.Tx, _ *chain.Receipt) { tx.To = nil }, anchor.ErrMismatch},
		"another contract":      {func(tx *chain.Tx, _ *chain.Receipt) { tx.To = &elsewhere }, anchor.ErrMismatch},
		"longer input":          {func(tx *chain.Tx, _ *chain.Receipt) { tx.Input = append(tx.Input, 0) }, anchor.ErrMismatch},
		"pending":               {func(tx *chain.Tx, _ *chain.Receipt) { tx.Mined = false }, anchor.ErrPending},
		"other receipt":         {func(_ *chain.Tx, r *chain.Receipt) { r.TxHash = common.Hash{9} }, anchor.ErrMismatch},
		"other sender":          {func(_ *chain.Tx, r *chain.Receipt) { r.From = elsewhere }, anchor.ErrMismatch},
		"receipt elsewhere":     {func(_ *chain.Tx, r *chain.Receipt) { r.To = &elsewhere }, anchor.ErrMismatch},
		"receipt of creation":   {func(_ *chain.Tx, r *chain.Receipt) { r.To = nil }, anchor.ErrMismatch},
		"other block":           {func(_ *chain.Tx, r *chain.Receipt) { r.BlockHash = common.Hash{9} }, anchor.ErrMismatch},
		"other height":          {func(_ *chain.Tx, r *chain.Receipt) { r.BlockNumber = 6 }, anchor.ErrMismatch},
		"reverted":              {func(_ *chain.Tx, r *chain.Receipt) { r.Status = 0 }, anchor.ErrReverted},
		"no log":                {func(_ *chain.Tx, r *chain.Receipt) { r.Logs = nil }, anchor.ErrMismatch},
		"log twice":             {func(_ *chain.Tx, r *chain.Receipt) { r.Logs = append(r.Logs, r.Logs[0]) }, anchor.ErrMismatch},
		"log of another":        {func(_ *chain.Tx, r *chain.Receipt) { r.Logs[0].Address = elsewhere }, anchor.ErrMismatch},
		"removed log":           {func(_ *chain.Tx, r *chain.Receipt) { r.Logs[0].Removed = true }, anchor.ErrMismatch},
		"log of another schema": {func(_ *chain.Tx, r *chain.Receipt) { r.Logs[0].Topics[3] = common.Hash{9} }, anchor.ErrMismatch},
		"log of another sender": {func(_ *chain.Tx, r *chain.Receipt) { r.Logs[0].Topics[2] = common.Hash{31: 9} }, anchor.ErrMismatch},
		"log with a recipient":  {func(_ *chain.Tx, r *chain.Receipt) { r.Logs[0].Topics[1] = common.Hash{31: 9} }, anchor.ErrMismatch},
	} {
		tx, r := good()
		tt.spoil(&tx, &r)
		if a, err := anchor.Check(tx, r, n, root, count); !errors.Is(err, tt.want) {
			t.Errorf("%s: %+v, %v; want %v", name, a, err, tt.want)
		}
	}
}

// The addresses of public networks are those that the authors of EAS publish, and
// the contracts there have the functions, the event and the errors used here.
func TestPublishedDeployments(t *testing.T) {
	dev, err := contracts.EAS()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range eas.Networks() {
		if !n.Public {
			continue
		}
		registry := chaintest.ReadOriginal(t, "deployments/"+n.Name+"/SchemaRegistry.json")
		service := chaintest.ReadOriginal(t, "deployments/"+n.Name+"/EAS.json")
		if registry.Address != n.Registry || service.Address != n.EAS {
			t.Errorf("%s: published registry %s and EAS %s, the table has %s and %s", n.Name, registry.Address, service.Address, n.Registry, n.EAS)
		}
		for _, method := range []string{"attest", "getAttestation", "isAttestationValid", "getSchemaRegistry"} {
			if got, want := service.ABI.Methods[method].Sig, dev.ABI.Methods[method].Sig; got != want {
				t.Errorf("%s: %s is %q, want %q", n.Name, method, got, want)
			}
		}
		if got := service.ABI.Events["Attested"]; got.ID != eas.AttestedTopic() || got.Inputs[2].Indexed {
			t.Errorf("%s: event %s", n.Name, got)
		}
		for name, e := range service.ABI.Errors {
			if got := eas.RevertName(e.ID[:4]); got != name {
				t.Errorf("%s: error %s is decoded as %s", n.Name, e.Sig, got)
			}
		}
	}
}

// Stored bytes may be damaged: they are refused, or a transaction of the account that
// a replacement can be made of.
func FuzzParseTx(f *testing.F) {
	n, err := eas.NetworkByName("dev")
	if err != nil {
		f.Fatal(err)
	}
	account := chaintest.Account(f, 1)
	signer := anchor.NewKeySigner(account.Key)
	for _, data := range []types.TxData{
		&types.DynamicFeeTx{ChainID: big.NewInt(31337), Gas: 300_000, GasFeeCap: maxFee, GasTipCap: common.Big1, To: &n.EAS, Data: eas.Epoch{Count: 1, Spec: eas.SpecV1}.Calldata()},
		&types.LegacyTx{Gas: 21_000, GasPrice: maxFee, To: &n.EAS},
	} {
		tx, err := types.SignNewTx(account.Key, types.LatestSignerForChainID(big.NewInt(31337)), data)
		if err != nil {
			f.Fatal(err)
		}
		raw, err := tx.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := anchor.ParseTx(raw, n, account.Address)
		if err != nil {
			if !errors.Is(err, anchor.ErrForeignTx) {
				t.Fatal(err)
			}
			return
		}
		next, err := anchor.Bump(raw, n, signer, chain.Fees{})
		if err != nil || next.Nonce != tx.Nonce || next.Gas != tx.Gas || next.Fees.Cap.Cmp(tx.Fees.Cap) <= 0 {
			t.Fatalf("%+v is replaced by %+v, %v", tx, next, err)
		}
	})
}
