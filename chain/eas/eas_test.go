package eas

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/holiman/uint256"
	"pgregory.net/rapid"

	"karatum/chain/contracts"
)

type vector struct {
	BatchIDs        []common.Hash `json:"batchIds"`
	Root            common.Hash   `json:"root"`
	Schema          string        `json:"schema"`
	SchemaUID       common.Hash   `json:"schemaUid"`
	AttestationData hexutil.Bytes `json:"attestationData"`
	AttestCalldata  hexutil.Bytes `json:"attestCalldata"`
}

func loadVector(t testing.TB) vector {
	t.Helper()
	raw, err := os.ReadFile("../../testvectors/v1.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Flight struct{ Epoch vector } }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Flight.Epoch
}

func TestVectors(t *testing.T) {
	v := loadVector(t)
	epoch := Epoch{Root: v.Root, Count: uint32(len(v.BatchIDs)), Spec: SpecV1}
	if v.Schema != Schema || EpochSchemaUID() != v.SchemaUID {
		t.Errorf("schema %q has UID %s, want %q with %s", Schema, EpochSchemaUID(), v.Schema, v.SchemaUID)
	}
	if got := epoch.Data(); !bytes.Equal(got, v.AttestationData) {
		t.Errorf("data = %x, want %s", got, v.AttestationData)
	}
	if got := epoch.Calldata(); !bytes.Equal(got, v.AttestCalldata) {
		t.Errorf("calldata = %x, want %s", got, v.AttestCalldata)
	}
	if got, err := ParseEpochCalldata(v.AttestCalldata); err != nil || got != epoch {
		t.Errorf("ParseEpochCalldata = %+v, %v; want %+v", got, err, epoch)
	}
}

// Every bit of the calldata counts: no other bytes parse as the same epoch.
func TestEveryBitCounts(t *testing.T) {
	v := loadVector(t)
	want, err := ParseEpochCalldata(v.AttestCalldata)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(v.AttestCalldata) * 8 {
		input := bytes.Clone(v.AttestCalldata)
		input[i/8] ^= 1 << (i % 8)
		if got, err := ParseEpochCalldata(input); err == nil && got == want {
			t.Errorf("bit %d flipped: still %+v", i, got)
		} else if err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("bit %d flipped: %v does not wrap ErrMalformed", i, err)
		}
	}
	for n := range len(v.AttestCalldata) {
		if _, err := ParseEpochCalldata(v.AttestCalldata[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := ParseEpochCalldata(append(bytes.Clone(v.AttestCalldata), 0)); !errors.Is(err, ErrMalformed) {
		t.Errorf("trailing zero: %v", err)
	}
}

func TestParseEpochRefuses(t *testing.T) {
	good := Epoch{Root: [32]byte{1}, Count: 3, Spec: SpecV1}
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"empty", nil},
		{"no batches", Epoch{Root: good.Root, Spec: SpecV1}.Data()},
		{"another spec", Epoch{Root: good.Root, Count: 3, Spec: "karatum.flightrec.v2"}.Data()},
		{"count beyond 32 bits", func() []byte { d := good.Data(); d[59] = 1; return d }()},
		{"trailing word", append(good.Data(), make([]byte, 32)...)},
	} {
		if got, err := ParseEpoch(tt.data); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	for _, r := range []Request{
		{Schema: common.Hash{1}, Data: good.Data()},
		{Schema: EpochSchemaUID(), Data: good.Data(), Recipient: common.Address{1}},
		{Schema: EpochSchemaUID(), Data: good.Data(), Revocable: true},
		{Schema: EpochSchemaUID(), Data: good.Data(), Value: *uint256.NewInt(1)},
		{Schema: EpochSchemaUID(), Data: good.Data(), ExpirationTime: 1},
		{Schema: EpochSchemaUID(), Data: good.Data(), RefUID: common.Hash{1}},
	} {
		if got, err := ParseEpochCalldata(r.Calldata()); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %+v, %v", r, got, err)
		}
	}
}

// Our encoder agrees with go-ethereum's, which works from the contract's ABI.
func TestAgainstABI(t *testing.T) {
	artifact, err := contracts.EAS()
	if err != nil {
		t.Fatal(err)
	}
	registry, err := contracts.SchemaRegistry()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		type data struct {
			Recipient      common.Address
			ExpirationTime uint64
			Revocable      bool
			RefUID         [32]byte
			Data           []byte
			Value          *big.Int
		}
		want, err := artifact.ABI.Pack("attest", struct {
			Schema [32]byte
			Data   data
		}{r.Schema, data{r.Recipient, r.ExpirationTime, r.Revocable, r.RefUID, r.Data, r.Value.ToBig()}})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Calldata(); !bytes.Equal(got, want) {
			t.Fatalf("calldata = %x, want %x", got, want)
		}
		back, err := ParseCalldata(want)
		if err != nil || !bytes.Equal(back.Calldata(), want) || back.Recipient != r.Recipient || back.ExpirationTime != r.ExpirationTime {
			t.Fatalf("ParseCalldata = %+v, %v; want %+v", back, err, r)
		}
		schema := rapid.String().Draw(t, "schema")
		want, err = registry.ABI.Pack("register", schema, r.Recipient, r.Revocable)
		if got := RegisterCalldata(schema, r.Recipient, r.Revocable); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("register = %x, want %x (%v)", got, want, err)
		}
	})
}

func drawRequest(t *rapid.T) Request {
	bytesN := func(n int, name string) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, name) }
	return Request{
		Schema:         common.BytesToHash(bytesN(32, "schema uid")),
		Recipient:      common.BytesToAddress(bytesN(20, "recipient")),
		ExpirationTime: rapid.Uint64().Draw(t, "expiration"),
		Revocable:      rapid.Bool().Draw(t, "revocable"),
		RefUID:         common.BytesToHash(bytesN(32, "refUID")),
		Data:           rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"),
		Value:          *new(uint256.Int).SetBytes(bytesN(32, "value")),
	}
}

func TestParseEpochSchema(t *testing.T) {
	registry, err := contracts.SchemaRegistry()
	if err != nil {
		t.Fatal(err)
	}
	type record struct {
		Uid       [32]byte
		Resolver  common.Address
		Revocable bool
		Schema    string
	}
	for _, tt := range []struct {
		name       string
		record     record
		registered bool
		err        error
	}{
		{"registered", record{Uid: EpochSchemaUID(), Schema: Schema}, true, nil},
		{"absent", record{}, false, nil},
		{"revocable", record{Uid: EpochSchemaUID(), Schema: Schema, Revocable: true}, false, ErrMalformed},
		{"another text", record{Uid: EpochSchemaUID(), Schema: "bytes32 x"}, false, ErrMalformed},
	} {
		result, err := registry.ABI.Methods["getSchema"].Outputs.Pack(tt.record)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseEpochSchema(result); got != tt.registered || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, err, tt.registered, tt.err)
		}
	}
	if _, err := ParseEpochSchema(nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("empty result, as of an address without code: %v", err)
	}
}

func TestRevertName(t *testing.T) {
	plain := append(selector("Error(string)"), encoder(nil).uint(32).tail([]byte("out of tea"))...)
	for _, tt := range []struct {
		data []byte
		want string
	}{
		{nil, "no reason given"},
		{selector("InvalidSchema()"), "InvalidSchema"},
		{encoder(selector("ResolverUnsupported(address)")).address(common.Address{1}), "ResolverUnsupported"},
		{plain, `"out of tea"`},
		{[]byte{1, 2, 3, 4, 5}, "unknown error 0x01020304"},
		{[]byte{1}, "unknown error 0x01"},
	} {
		if got := RevertName(tt.data); got != tt.want {
			t.Errorf("RevertName(%x) = %s, want %s", tt.data, got, tt.want)
		}
	}
}

// No two errors share a selector, and our contracts have no error without a name.
func TestCustomErrorsAreComplete(t *testing.T) {
	seen := map[string]string{}
	for _, s := range customErrors {
		id := string(selector(s))
		if seen[id] != "" {
			t.Errorf("%s and %s share a selector", s, seen[id])
		}
		seen[id] = s
	}
	for _, load := range []func() (contracts.Artifact, error){contracts.EAS, contracts.SchemaRegistry} {
		a, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name, e := range a.ABI.Errors {
			if seen[string(e.ID[:4])] == "" {
				t.Errorf("%s.%s has no name here", a.ContractName, name)
			}
		}
	}
}

func TestParseAttested(t *testing.T) {
	a := Attested{common.Address{1}, common.Address{2}, common.Hash{3}, common.Hash{4}}
	topics := []common.Hash{AttestedTopic(), common.BytesToHash(a.Recipient[:]), common.BytesToHash(a.Attester[:]), a.Schema}
	if got, err := ParseAttested(topics, a.UID[:]); err != nil || got != a {
		t.Errorf("ParseAttested = %+v, %v; want %+v", got, err, a)
	}
	dirty := []common.Hash{topics[0], {1}, topics[2], topics[3]}
	for _, tt := range []struct {
		name   string
		topics []common.Hash
		data   []byte
	}{
		{"no topics", nil, a.UID[:]},
		{"three topics", topics[:3], a.UID[:]},
		{"another event", append([]common.Hash{{}}, topics[1:]...), a.UID[:]},
		{"long data", topics, make([]byte, 64)},
		{"address of 32 bytes", dirty, a.UID[:]},
	} {
		if _, err := ParseAttested(tt.topics, tt.data); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestNetworks(t *testing.T) {
	for _, n := range Networks() {
		byName, err := NetworkByName(n.Name)
		byID, err2 := NetworkByChainID(n.ChainID)
		if err != nil || err2 != nil || byName != n || byID != n {
			t.Errorf("%s: %+v, %v; %+v, %v", n.Name, byName, err, byID, err2)
		}
		if err := n.CheckChainID(n.ChainID); err != nil {
			t.Error(err)
		}
		if err := n.CheckChainID(1); !errors.Is(err, ErrChainID) {
			t.Errorf("%s on chain 1: %v", n.Name, err)
		}
	}
	for _, name := range []string{"", "mainnet", "Dev", "base"} {
		if _, err := NetworkByName(name); !errors.Is(err, ErrUnknownNetwork) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Results of calls and logs come from a node that is not trusted.
func FuzzResults(f *testing.F) {
	address, epoch := common.Address{1}, Epoch{Root: [32]byte{1}, Count: 3, Spec: SpecV1}
	topics := bytes.Join([][]byte{AttestedTopic().Bytes(), make([]byte, 32), common.BytesToHash(address[:]).Bytes(), EpochSchemaUID().Bytes()}, nil)
	f.Add(topics, make([]byte, 32))
	f.Add(topics[:96], epoch.Data())
	f.Add([]byte{}, common.BytesToHash(address[:]).Bytes())
	f.Add([]byte{}, []byte(encoder(selector("Error(string)")).uint(32).tail([]byte("out of tea"))))
	f.Add([]byte{}, []byte(encoder(selector("Panic(uint256)")).uint(0x11)))
	f.Fuzz(func(t *testing.T, topics, data []byte) {
		var hashes []common.Hash
		for ; len(topics) >= 32; topics = topics[32:] {
			hashes = append(hashes, common.Hash(topics[:32]))
		}
		if a, err := ParseAttested(hashes, data); err == nil && (a.UID != common.Hash(data) || a.Schema != hashes[3]) {
			t.Fatalf("accepted %+v", a)
		} else if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
		if e, err := ParseEpoch(data); err == nil && !bytes.Equal(e.Data(), data) {
			t.Fatal("accepted an epoch that it would not write")
		} else if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
		if a, err := ParseAddress(data); err == nil && common.BytesToHash(a[:]) != common.BytesToHash(data) {
			t.Fatalf("accepted %s", a)
		}
		if registered, err := ParseEpochSchema(data); registered && err != nil {
			t.Fatal("registered, with an error")
		}
		if name := RevertName(data); name == "" || len(name) > 2000 {
			t.Fatalf("named %q", name)
		}
	})
}

func FuzzParseCalldata(f *testing.F) {
	f.Add([]byte(loadVector(f).AttestCalldata))
	f.Add(Request{Data: []byte{1}, Value: *uint256.NewInt(5)}.Calldata())
	f.Fuzz(func(t *testing.T, input []byte) {
		r, err := ParseCalldata(input)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v does not wrap ErrMalformed", err)
			}
			return
		}
		if !bytes.Equal(r.Calldata(), input) {
			t.Fatal("accepted bytes that it would not write")
		}
		if e, err := ParseEpochCalldata(input); err == nil && !bytes.Equal(e.Calldata(), input) {
			t.Fatal("accepted an epoch that it would not write")
		}
	})
}
