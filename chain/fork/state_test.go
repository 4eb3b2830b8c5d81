package fork

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"karatum/chain"
)

// Batch answers like a node that has the world as the state of one block.
func (w *world) Batch(t testing.TB) callerFunc {
	return func(calls []chain.BatchCall) {
		for i := range calls {
			c := &calls[i]
			switch c.Method {
			case "eth_getCode":
				c.Result = json.RawMessage(`"0x"`)
			case "eth_getProof":
				addr, asked := c.Params[0].(common.Address), c.Params[1].([]common.Hash)
				p := w.proof(t, int(addr[19]), 100)
				var kept []any
				for _, s := range p["storageProof"].([]any) {
					for _, want := range asked {
						if s.(map[string]any)["key"] == want {
							kept = append(kept, s)
						}
					}
				}
				p["storageProof"] = kept
				c.Result = marshal(t, p)
			default:
				c.Err = &chain.CallError{Method: c.Method, Kind: chain.ErrRPC, Code: -32601}
			}
		}
	}
}

type callerFunc func([]chain.BatchCall)

func (f callerFunc) Batch(_ context.Context, calls []chain.BatchCall) { f(calls) }

func (w *world) header() Header {
	h := &types.Header{Root: w.accounts.Hash(), Number: big.NewInt(7), Difficulty: new(big.Int)}
	return Header{Header: h, Hash: h.Hash()}
}

func TestStateReads(t *testing.T) {
	w := newWorld(t, 20)
	trips := 0
	inner := w.Batch(t)
	s := NewState(callerFunc(func(c []chain.BatchCall) { trips++; inner(c) }), w.header(), Options{})
	var need Need
	for i := range 24 {
		need.Account(address(i))
		for k := range 20 {
			need.Slot(address(i), slot(k))
		}
	}
	if err := s.Fetch(t.Context(), need); err != nil || trips != 1 {
		t.Fatalf("%d trips, %v", trips, err)
	}
	r := s.Reader(t.Context())
	for i := range 24 {
		a, err := r.Account(address(i))
		if err != nil || (a == nil) != (i >= 20) {
			t.Errorf("account %d: %+v, %v", i, a, err)
		}
		for k := range 20 {
			want := common.Hash{}
			if i < 20 && i%3 == 0 && k < i {
				want = slotValue(i, k)
			}
			if v, err := r.Storage(address(i), slot(k)); err != nil || v != want {
				t.Errorf("slot %d of account %d: %s, %v", k, i, v, err)
			}
		}
	}
	if trips != 1 || s.Unproved() != "" {
		t.Errorf("%d trips, unproved %q", trips, s.Unproved())
	}
	if _, err := r.Storage(address(18), slot(77)); err != nil || trips != 2 {
		t.Errorf("one more slot: %d trips, %v", trips, err)
	}
	if _, err := r.Storage(address(4), slot(77)); err != nil || trips != 2 {
		t.Errorf("a slot of an account without storage: %d trips, %v", trips, err)
	}
}

// What an EVM does to an account that it was given stays with it.
func TestAccountsAreCopies(t *testing.T) {
	w := newWorld(t, 5)
	r := NewState(w.Batch(t), w.header(), Options{}).Reader(t.Context())
	for range 2 {
		a, err := r.Account(address(3))
		if err != nil || a.Balance.Uint64() != 3001 {
			t.Fatalf("%+v, %v", a, err)
		}
		a.Balance.SetUint64(1)
		a.Nonce = 99
	}
}

func TestCodeHints(t *testing.T) {
	w := newWorld(t, 5)
	codes := NewCodes()
	codes.add(address(3), []byte{1, 2, 3}) // of another time: the account has none
	s := NewState(w.Batch(t), w.header(), Options{Codes: codes})
	if a, err := s.Reader(t.Context()).Account(address(3)); err != nil || common.BytesToHash(a.CodeHash) != types.EmptyCodeHash {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestStateLimits(t *testing.T) {
	w := newWorld(t, 20)
	s := NewState(w.Batch(t), w.header(), Options{Limits: Limits{Entries: 5}})
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		_, err = s.Reader(t.Context()).Account(address(i))
	}
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

// chainOf is n headers, each the parent of the next.
func chainOf(n int) []*types.Header {
	out := []*types.Header{{Number: big.NewInt(1000), Difficulty: new(big.Int)}}
	for i := 1; i < n; i++ {
		out = append(out, &types.Header{Number: big.NewInt(1000 + int64(i)), Difficulty: new(big.Int), ParentHash: out[i-1].Hash(), Extra: []byte{byte(i)}})
	}
	return out
}

func TestAncestors(t *testing.T) {
	headers := chainOf(301)
	asked := 0
	edit := func(map[string]any) {}
	node := callerFunc(func(calls []chain.BatchCall) {
		for i := range calls {
			asked++
			h := headers[uint64(calls[i].Params[0].(hexutil.Uint64))-1000]
			var m map[string]any
			if err := json.Unmarshal(marshal(t, h), &m); err != nil {
				t.Fatal(err)
			}
			m["hash"] = h.Hash()
			if h.Number.Int64() == 1290 {
				edit(m)
			}
			calls[i].Result = marshal(t, m)
		}
	})
	top := headers[300]
	ancestors := func() *Ancestors {
		parent := headers[299]
		return NewAncestors(node, &Block{Header: Header{Header: top, Hash: top.Hash()}}, Header{Header: parent, Hash: parent.Hash()})
	}
	a := ancestors()
	for _, tt := range []struct {
		number uint64
		asked  int
	}{{1299, 0}, {1298, 0}, {1290, 8}, {1295, 8}, {1044, 254}} {
		if got := a.Hash(t.Context(), tt.number); got != headers[tt.number-1000].Hash() || asked != tt.asked {
			t.Errorf("block %d: %s after %d headers, want %s after %d", tt.number, got, asked, headers[tt.number-1000].Hash(), tt.asked)
		}
	}
	for _, number := range []uint64{0, 1043, 1300, 1301} {
		if got := a.Hash(t.Context(), number); got != (common.Hash{}) {
			t.Errorf("block %d: %s, want none", number, got)
		}
	}
	if a.Err() != nil || a.Unproved() != "" {
		t.Errorf("%v, unproved %q", a.Err(), a.Unproved())
	}
	edit = func(m map[string]any) { m["parentHash"] = common.Hash{1} }
	a = ancestors()
	if got := a.Hash(t.Context(), 1288); got != (common.Hash{}) || !errors.Is(a.Err(), ErrContradiction) {
		t.Errorf("a forged header: %s, %v", got, a.Err())
	}
	edit = func(m map[string]any) { m["parentHash"], m["later"] = common.Hash{1}, "0x1" }
	a = ancestors()
	if got := a.Hash(t.Context(), 1289); got != (common.Hash{1}) || !strings.Contains(a.Unproved(), "later") {
		t.Errorf("a header with an unknown member: %s, unproved %q", got, a.Unproved())
	}
}

// A cache file that was edited is found out like a lying node; the cache keeps
// to its size.
func TestCacheFiles(t *testing.T) {
	w := newWorld(t, 20)
	dir := t.TempDir()
	k, err := OpenCache(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	read := func(c Caller) error {
		a := k.Block(1, common.Hash{7}, c)
		if _, err := NewState(a, w.header(), Options{}).Reader(t.Context()).Account(address(5)); err != nil {
			return err
		}
		return a.Save()
	}
	if err := read(w.Batch(t)); err != nil {
		t.Fatal(err)
	}
	none := callerFunc(func([]chain.BatchCall) { t.Error("the node was asked") })
	if err := read(none); err != nil {
		t.Errorf("from the cache: %v", err)
	}
	path := filepath.Join(dir, "1", common.Hash{7}.Hex()+cacheSuffix)
	var file cacheFile
	if !readFile(path, &file) {
		t.Fatal("no file")
	}
	for key, raw := range file.Answers {
		file.Answers[key] = json.RawMessage(strings.Replace(string(raw), `"balance":"0x1389"`, `"balance":"0x1388"`, 1))
	}
	if err := writeFile(path, file); err != nil {
		t.Fatal(err)
	}
	if err := read(none); !errors.Is(err, ErrContradiction) {
		t.Errorf("an edited file: %v", err)
	}
	old := time.Unix(1_000_000_000, 0)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "1", ".new-left-by-a-crash")
	if err := errors.Join(os.WriteFile(left, nil, 0o600), os.Chtimes(left, old, old)); err != nil {
		t.Fatal(err)
	}
	k.max = 10
	other := k.Block(1, common.Hash{8}, w.Batch(t))
	if _, err := NewState(other, w.header(), Options{}).Reader(t.Context()).Account(address(5)); err != nil {
		t.Fatal(err)
	}
	if err := other.Save(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "1", "*"))
	hidden, err2 := filepath.Glob(filepath.Join(dir, "1", ".*"))
	if err != nil || err2 != nil || len(files) != 1 || len(hidden) != 0 || files[0] != other.path {
		t.Errorf("left %v and %v", files, hidden)
	}
}

// A file that would unpack to more than is ever kept is as good as none.
func TestCacheBomb(t *testing.T) {
	for _, tt := range []struct {
		padding int
		want    bool
	}{{0, true}, {maxFileBytes, false}} {
		path := filepath.Join(t.TempDir(), "bomb")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(f)
		_, err = io.WriteString(z, `{"version":1,`)
		spaces := bytes.Repeat([]byte{' '}, 1<<20)
		for n := 0; n < tt.padding && err == nil; n += len(spaces) {
			_, err = z.Write(spaces)
		}
		_, err2 := io.WriteString(z, `"answers":{"x":"0x"}}`)
		if err := errors.Join(err, err2, z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		var file cacheFile
		if got := readFile(path, &file); got != tt.want {
			t.Errorf("with %d bytes of spaces: read %v, want %v", tt.padding, got, tt.want)
		}
	}
}
