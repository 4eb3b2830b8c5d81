package contracts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/holiman/uint256"

	"karatum/chain"
	"karatum/chain/chaintest"
	"karatum/chain/contracts"
	"karatum/chain/devchain"
	"karatum/chain/eas"
)

const revocableSchema = "uint256 reading"

// A pair is one contract of ours and its original, on the same dev chain.
type pair struct{ ours, original common.Address }

type bench struct {
	t             *testing.T
	c             *chain.Client
	registry, eas pair
	alice, bob    devchain.Account
	easABI        abi.ABI
}

func newBench(t *testing.T) *bench {
	t.Helper()
	artifact, err := contracts.EAS()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, c: chain.NewInProc(chaintest.DevChain(t).Client(), chain.Options{}), easABI: artifact.ABI,
		alice: chaintest.Account(t, 1), bob: chaintest.Account(t, 2),
	}
	b.registry.ours, b.eas.ours = devchain.SchemaRegistryAddress, devchain.EASAddress
	b.registry.original, b.eas.original = chaintest.DeployOriginal(t, b.c, chaintest.Account(t, 0).Key)
	return b
}

// outcome executes a call at the newest block and describes what came back: the
// result, or the revert data.
func (b *bench) outcome(from, to common.Address, value int64, data []byte) string {
	b.t.Helper()
	rich := map[common.Address]any{from: map[string]any{"balance": (*hexutil.Big)(big.NewInt(1e18))}}
	call := map[string]any{"from": from, "to": to, "data": hexutil.Bytes(data), "value": (*hexutil.Big)(big.NewInt(value))}
	raw, err := b.c.Raw(b.t.Context(), "eth_call", call, chain.Latest, rich)
	var failed *chain.CallError
	switch {
	case err == nil:
		var result hexutil.Bytes
		if err := json.Unmarshal(raw, &result); err != nil {
			b.t.Fatal(err)
		}
		return "returns " + result.String()
	case errors.As(err, &failed) && errors.Is(err, chain.ErrReverted):
		return fmt.Sprintf("reverts with %s %#x", eas.RevertName(failed.Data), failed.Data)
	}
	b.t.Fatal(err)
	return ""
}

// both sends the same transaction to both contracts and compares status and
// logs. The two are in blocks of different times, so the data of Attested and
// Revoked logs, which is a UID, is left to the caller.
func (b *bench) both(p pair, from devchain.Account, data []byte) (ours, original chain.Receipt) {
	b.t.Helper()
	ours = chaintest.Send(b.t, b.c, from.Key, &p.ours, nil, data)
	original = chaintest.Send(b.t, b.c, from.Key, &p.original, nil, data)
	if ours.Status != 1 || original.Status != 1 || len(ours.Logs) != len(original.Logs) {
		b.t.Fatalf("status %d with %d logs, the original has %d with %d", ours.Status, len(ours.Logs), original.Status, len(original.Logs))
	}
	for i, l := range ours.Logs {
		o := original.Logs[i]
		if len(l.Topics) != len(o.Topics) || l.Topics[0] != o.Topics[0] || l.Topics[1] != o.Topics[1] || len(l.Data) != len(o.Data) {
			b.t.Errorf("log %+v, the original's is %+v", l, o)
		}
	}
	return ours, original
}

// attest attests on both and checks both UIDs against the rule.
func (b *bench) attest(from devchain.Account, r eas.Request) (uids uidPair) {
	b.t.Helper()
	ours, original := b.both(b.eas, from, r.Calldata())
	for i, receipt := range []chain.Receipt{ours, original} {
		block, err := b.c.HeaderByHash(b.t.Context(), receipt.BlockHash)
		if err != nil {
			b.t.Fatal(err)
		}
		a, err := eas.ParseAttested(receipt.Logs[0].Topics, receipt.Logs[0].Data)
		if err != nil {
			b.t.Fatal(err)
		}
		if want := r.UID(from.Address, block.Time, 0); a.UID != want || a.Recipient != r.Recipient || a.Attester != from.Address || a.Schema != r.Schema {
			b.t.Errorf("contract %d: %+v, want UID %s", i, a, want)
		}
		uids[i] = a.UID
	}
	return uids
}

// A uidPair is a UID on our contract and the one on the original.
type uidPair [2]common.Hash

func revokeCalldata(t *testing.T, a abi.ABI, schema, uid common.Hash, value int64) []byte {
	t.Helper()
	type data struct {
		Uid   [32]byte
		Value *big.Int
	}
	out, err := a.Pack("revoke", struct {
		Schema [32]byte
		Data   data
	}{schema, data{uid, big.NewInt(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Our contracts and the original ones, given the same bytes, answer the same
// bytes: results, UIDs, custom errors, and reverts on calldata that no ABI
// encoder writes.
func TestSameOutcomes(t *testing.T) {
	b := newBench(t)
	fixed, loose := eas.EpochSchemaUID(), eas.SchemaUID(revocableSchema, common.Address{}, true)
	registerFixed := eas.RegisterCalldata(eas.Schema, common.Address{}, false)
	registerLoose := eas.RegisterCalldata(revocableSchema, common.Address{}, true)
	epoch := eas.Request{Schema: fixed, Data: eas.Epoch{Root: [32]byte{1}, Count: 2, Spec: eas.SpecV1}.Data()}

	same := func(name string, p pair, from common.Address, value int64, data []byte, want string) {
		t.Helper()
		ours, original := b.outcome(from, p.ours, value, data), b.outcome(from, p.original, value, data)
		if ours != original {
			t.Errorf("%s: ours %s; the original %s", name, ours, original)
		}
		if !strings.HasPrefix(ours, want) {
			t.Errorf("%s: %s, want %s", name, ours, want)
		}
	}
	alice, bob := b.alice.Address, b.bob.Address

	same("register", b.registry, alice, 0, registerFixed, "returns "+fixed.Hex())
	same("attest before registering", b.eas, alice, 0, epoch.Calldata(), "reverts with InvalidSchema")
	b.both(b.registry, b.alice, registerFixed)
	b.both(b.registry, b.alice, registerLoose)
	same("register again", b.registry, bob, 0, registerFixed, "reverts with AlreadyExists")
	same("register with ether", b.registry, bob, 1, registerLoose, "reverts with no reason")
	same("register an empty schema", b.registry, bob, 0, eas.RegisterCalldata("", common.Address{}, true), "returns "+eas.SchemaUID("", common.Address{}, true).Hex())
	same("getSchema", b.registry, alice, 0, eas.GetSchemaCalldata(fixed), "returns")
	same("getSchema of nothing", b.registry, alice, 0, eas.GetSchemaCalldata(common.Hash{1}), "returns")

	edit := func(change func(*eas.Request)) []byte {
		r := epoch
		change(&r)
		return r.Calldata()
	}
	dirty := epoch.Calldata()
	dirty[4+3*32] = 1 // above the recipient's 20 bytes
	truth := epoch.Calldata()
	truth[4+5*32+31] = 2 // neither true nor false
	far := epoch.Calldata()
	far[4] = 0xff // offset of the request
	for _, tt := range []struct {
		name  string
		value int64
		data  []byte
		want  string
	}{
		{"attest", 0, epoch.Calldata(), "returns 0x"},
		{"no such schema", 0, edit(func(r *eas.Request) { r.Schema = common.Hash{1} }), "reverts with InvalidSchema"},
		{"expired", 0, edit(func(r *eas.Request) { r.ExpirationTime = 1 }), "reverts with InvalidExpirationTime"},
		{"expires far away", 0, edit(func(r *eas.Request) { r.ExpirationTime = 1 << 63 }), "returns"},
		{"revocable against the schema", 0, edit(func(r *eas.Request) { r.Revocable = true }), "reverts with Irrevocable"},
		{"expired and revocable", 0, edit(func(r *eas.Request) { r.Revocable, r.ExpirationTime = true, 1 }), "reverts with InvalidExpirationTime"},
		{"reference to nothing", 0, edit(func(r *eas.Request) { r.RefUID = common.Hash{1} }), "reverts with NotFound"},
		{"value for no resolver", 0, edit(func(r *eas.Request) { r.Value = *uint256.NewInt(1) }), "reverts with NotPayable"},
		{"value that is sent", 5, edit(func(r *eas.Request) { r.Value = *uint256.NewInt(5) }), "reverts with NotPayable"},
		{"reference and value", 0, edit(func(r *eas.Request) { r.Value, r.RefUID = *uint256.NewInt(1), common.Hash{1} }), "reverts with NotFound"},
		{"ether on top", 5, epoch.Calldata(), "returns"},
		{"a recipient", 0, edit(func(r *eas.Request) { r.Recipient = bob }), "returns"},
		{"no data", 0, edit(func(r *eas.Request) { r.Data = nil }), "returns"},
		{"much data", 0, edit(func(r *eas.Request) { r.Data = make([]byte, 5000) }), "returns"},
		{"dirty recipient", 0, dirty, "reverts with no reason"},
		{"third truth value", 0, truth, "reverts with no reason"},
		{"offset outside", 0, far, "reverts with no reason"},
		{"cut off", 0, epoch.Calldata()[:200], "reverts with no reason"},
		{"trailing bytes", 0, append(epoch.Calldata(), 1, 2, 3), "returns"},
		{"selector only", 0, epoch.Calldata()[:4], "reverts with no reason"},
		{"nothing", 0, nil, "reverts with no reason"},
		{"unknown function", 0, []byte{1, 2, 3, 4}, "reverts with no reason"},
		{"version", 0, b.easABI.Methods["version"].ID, "returns"},
		{"getName", 0, b.easABI.Methods["getName"].ID, "returns"},
		{"getAttestation of nothing", 0, eas.GetAttestationCalldata(common.Hash{1}), "returns"},
		{"isAttestationValid of nothing", 0, eas.IsAttestationValidCalldata(common.Hash{1}), "returns 0x00"},
	} {
		same(tt.name, b.eas, alice, tt.value, tt.data, tt.want)
	}
	// A contract that takes no ether cannot be refunded.
	same("no refund", b.eas, devchain.USDCAddress, 5, epoch.Calldata(), "reverts with FailedCall")

	b.revocations(fixed, loose, epoch)
	b.timestamps(same)
}

func (b *bench) revocations(fixed, loose common.Hash, epoch eas.Request) {
	b.t.Helper()
	firm := b.attest(b.alice, epoch)
	soft := b.attest(b.alice, eas.Request{Schema: loose, Data: make([]byte, 32), Revocable: true, Recipient: b.bob.Address})
	referring := eas.Request{Schema: fixed, Data: []byte{1}}
	check := func(name string, from common.Address, schema common.Hash, uids uidPair, value int64, want string) {
		b.t.Helper()
		ours := b.outcome(from, b.eas.ours, 0, revokeCalldata(b.t, b.easABI, schema, uids[0], value))
		original := b.outcome(from, b.eas.original, 0, revokeCalldata(b.t, b.easABI, schema, uids[1], value))
		if ours != original || !strings.HasPrefix(ours, want) {
			b.t.Errorf("%s: ours %s; the original %s; want %s", name, ours, original, want)
		}
	}
	alice, bob := b.alice.Address, b.bob.Address
	check("revoke nothing", alice, loose, uidPair{{1}, {1}}, 0, "reverts with NotFound")
	check("revoke under no schema", alice, common.Hash{1}, soft, 0, "reverts with InvalidSchema")
	check("revoke under another schema", alice, fixed, soft, 0, "reverts with InvalidSchema")
	check("revoke as another", bob, loose, soft, 0, "reverts with AccessDenied")
	check("revoke the irrevocable", alice, fixed, firm, 0, "reverts with Irrevocable")
	check("revoke with a value", alice, loose, soft, 1, "reverts with NotPayable")
	check("revoke", alice, loose, soft, 0, "returns 0x")
	for i, at := range []common.Address{b.eas.ours, b.eas.original} {
		referring.RefUID = soft[i]
		if got := b.outcome(alice, at, 0, referring.Calldata()); !strings.HasPrefix(got, "returns") {
			b.t.Errorf("a reference that exists, contract %d: %s", i, got)
		}
		r := chaintest.Send(b.t, b.c, b.alice.Key, &at, nil, revokeCalldata(b.t, b.easABI, loose, soft[i], 0))
		if r.Status != 1 || len(r.Logs) != 1 || r.Logs[0].Topics[0] != b.easABI.Events["Revoked"].ID || !bytes.Equal(r.Logs[0].Data, soft[i][:]) {
			b.t.Errorf("revoke, contract %d: %+v", i, r)
		}
	}
	check("revoke twice", alice, loose, soft, 0, "reverts with AlreadyRevoked")
}

func (b *bench) timestamps(same func(string, pair, common.Address, int64, []byte, string)) {
	b.t.Helper()
	pack := func(method string) []byte {
		data, err := b.easABI.Pack(method, [32]byte{7})
		if err != nil {
			b.t.Fatal(err)
		}
		return data
	}
	same("getTimestamp of nothing", b.eas, b.alice.Address, 0, pack("getTimestamp"), "returns 0x00")
	same("timestamp", b.eas, b.alice.Address, 0, pack("timestamp"), "returns 0x00")
	b.both(b.eas, b.alice, pack("timestamp"))
	same("timestamp twice", b.eas, b.bob.Address, 0, pack("timestamp"), "reverts with AlreadyTimestamped")
}

// The one deviation: a resolver is refused instead of being ignored.
func TestResolverRefused(t *testing.T) {
	b := newBench(t)
	data := eas.RegisterCalldata("bool ok", common.Address{9}, false)
	if got := b.outcome(b.alice.Address, b.registry.ours, 0, data); !strings.HasPrefix(got, "reverts with ResolverUnsupported") {
		t.Errorf("ours %s, want ResolverUnsupported", got)
	}
	if got := b.outcome(b.alice.Address, b.registry.original, 0, data); !strings.HasPrefix(got, "returns") {
		t.Errorf("the original %s, want a UID", got)
	}
}
