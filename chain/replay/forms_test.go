package replay_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"

	"karatum/chain"
	"karatum/chain/replay"
)

// Without the earlier transactions the outcome may differ; the result says that
// they were left out.
func TestPrefixNone(t *testing.T) {
	m := onDevChain(t)
	bump := m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5))
	to := m.account(5).Address
	m.together(func() {
		m.call(1, &m.machine, 0, bump, 300_000)
		m.call(2, &m.machine, 0, bump, 300_000)
		m.call(3, &to, 5, nil, 100_000)
	})
	var second, third common.Hash
	m.together(func() {
		second = m.call(3, &to, 5, nil, 100_000)
		third = m.call(3, &to, 5, nil, 100_000)
	})
	r := newReplayer(t, replay.Options{})
	run := func(hash common.Hash) replay.Result {
		res, err := r.Replay(t.Context(), replay.Job{Client: m.c, Tx: hash, Prefix: replay.None})
		if err != nil {
			t.Fatal(err)
		}
		if res.Prefix != replay.None || res.PrefixCount != 0 {
			t.Errorf("%s: prefix %s of %d", hash, res.Prefix, res.PrefixCount)
		}
		return res
	}
	for _, hash := range m.mined[len(m.mined)-5:] {
		res := run(hash)
		index := res.Outcome.Told.Index
		left := strings.Contains(strings.Join(res.Differences, "\n"), "earlier transactions of the block were left out")
		if left != (index > 0) {
			t.Errorf("index %d: differences %q", index, res.Differences)
		}
		switch {
		case res.Outcome.Tx.To != nil && *res.Outcome.Tx.To == m.machine:
			if res.Reproduced != (index == 0) { // it logs what was there before
				t.Errorf("bump at index %d: reproduced %v", index, res.Reproduced)
			}
		case hash == third:
			if res.Reproduced || !strings.Contains(res.Differences[0], "nonce too high") {
				t.Errorf("a transaction after another of its sender: %+v", res)
			}
		case hash == second, index > 0:
			if !res.Reproduced {
				t.Errorf("a transfer: %+v", res)
			}
		}
	}
}

func TestEvaluate(t *testing.T) {
	m, hash := bumped(t)
	job := replay.Job{Client: m.c, Tx: hash, Evaluate: func(o replay.Outcome) (any, error) {
		if o.Tx.Hash != hash || o.Tx.From != m.account(1).Address || *o.Tx.To != m.machine || len(o.Receipt.Logs) != 2 || o.Header.Hash != o.Told.BlockHash {
			return nil, fmt.Errorf("outcome %+v", o)
		}
		return "confirmed", nil
	}}
	r := newReplayer(t, replay.Options{})
	res, err := r.Replay(t.Context(), job)
	if err != nil || res.Verdict != "confirmed" {
		t.Errorf("%+v, %v", res, err)
	}
	boom := errors.New("boom")
	job.Evaluate = func(replay.Outcome) (any, error) { return nil, boom }
	if _, err := r.Replay(t.Context(), job); !errors.Is(err, boom) {
		t.Errorf("%v, want the evaluation's error", err)
	}
}

// The JSON of a result is a promise.
func TestResultJSON(t *testing.T) {
	m, hash := bumped(t)
	res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: m.c, Tx: hash, BlockHash: m.receipt(hash).BlockHash})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(res, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("HASH", res.BlockHash.Hex(), "FORK", fmt.Sprint(res.ForkBlock), "TRIPS", fmt.Sprint(res.Trips)).Replace(`{
 "reproduced": true,
 "verdict": null,
 "forkBlock": FORK,
 "blockHash": "HASH",
 "prefix": "full",
 "prefixCount": 1,
 "differences": [],
 "state": "proved against block HASH",
 "confirmedBy": [
  "the block hash given"
 ],
 "notes": [],
 "chainId": 31337,
 "rules": "prague",
 "trips": TRIPS
}`)
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The trace has the instructions that anvil's own has, in the form of EIP-3155.
func TestTrace(t *testing.T) {
	m := onAnvil(t, "--hardfork", "prague", "--steps-tracing")
	data := m.pack(m.machineABI, "bump", big.NewInt(1), big.NewInt(5))
	m.call(1, &m.machine, 0, data, 300_000)
	m.call(2, &m.machine, 0, m.pack(m.machineABI, "through", m.machine, big.NewInt(1), data), 300_000)
	m.call(3, &m.machine, 0, m.pack(m.machineABI, "refuse", big.NewInt(1)), 300_000)
	m.call(4, &m.machine, 0, m.pack(m.machineABI, "create", [32]byte{1}, true), 900_000)
	m.seal()
	r := newReplayer(t, replay.Options{})
	for _, hash := range m.mined[2:] {
		var out bytes.Buffer
		res, err := r.Replay(t.Context(), replay.Job{Client: m.c, Tx: hash, Trace: &out})
		if err != nil || exact(res) != nil {
			t.Fatalf("%+v, %v", res, err)
		}
		var theirs struct {
			StructLogs []struct {
				PC    uint64
				Op    string
				Gas   uint64
				Depth int
			}
		}
		if err := json.Unmarshal(raw(t, m.c, "debug_traceTransaction", hash), &theirs); err != nil {
			t.Fatal(err)
		}
		n := 0
		for lines := bufio.NewScanner(&out); lines.Scan(); {
			var line struct {
				PC      *uint64              `json:"pc"`
				Op      *int                 `json:"op"`
				Gas     *math.HexOrDecimal64 `json:"gas"`
				GasCost *math.HexOrDecimal64 `json:"gasCost"`
				MemSize *int                 `json:"memSize"`
				Stack   *[]string            `json:"stack"`
				Depth   *int                 `json:"depth"`
				Refund  *int                 `json:"refund"`
				OpName  string               `json:"opName"`
				Output  *string              `json:"output"`
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatalf("%v: %s", err, lines.Text())
			}
			if line.Output != nil {
				continue
			}
			if line.PC == nil || line.Op == nil || line.Gas == nil || line.GasCost == nil || line.MemSize == nil || line.Stack == nil || line.Depth == nil || line.Refund == nil {
				t.Fatalf("a member is missing: %s", lines.Text())
			}
			if n >= len(theirs.StructLogs) {
				t.Fatalf("%s: more than anvil's %d instructions", hash, n)
			}
			if s := theirs.StructLogs[n]; s.PC != *line.PC || s.Gas != uint64(*line.Gas) || s.Depth != *line.Depth {
				t.Fatalf("%s: instruction %d is %s, anvil has %+v", hash, n, lines.Text(), s)
			}
			n++
		}
		if n != len(theirs.StructLogs) || n == 0 {
			t.Errorf("%s: %d instructions, anvil has %d", hash, n, len(theirs.StructLogs))
		}
	}
}

// Many replays in a row leave nothing behind, of more blocks than are kept in
// memory.
func TestMemoryStaysFlat(t *testing.T) {
	m := onDevChain(t)
	for i := range 20 {
		m.random(i)
		m.seal()
	}
	r := newReplayer(t, replay.Options{})
	heap := func(rounds int) uint64 {
		for range rounds {
			for _, hash := range m.mined {
				if res, err := r.Replay(t.Context(), replay.Job{Client: m.c, ChainID: 31337, Tx: hash}); err != nil || !res.Reproduced {
					t.Fatalf("%+v, %v", res, err)
				}
			}
		}
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap(2)
	after := heap(50)
	if grown := int64(after) - int64(before); grown > 4<<20 { // 4 KiB a replay would show
		t.Errorf("the heap grew by %d bytes in 1,000 replays", grown)
	}
}

// Nor do many replays of more blocks than memory and disk may keep take ever more
// of either: each reads anew what was evicted.
func TestBoundsHoldOverManyBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("1,000 replays that read")
	}
	const most = 48 << 10 // bytes on disk: fewer blocks than there are
	m := onDevChain(t)
	for i := range 40 {
		m.random(i)
		m.seal()
	}
	dir := t.TempDir()
	r := newReplayer(t, replay.Options{CacheDir: dir, CacheBytes: most})
	job := replay.Job{Client: m.c, ChainID: 31337}
	round := func() {
		for _, job.Tx = range m.mined {
			if res, err := r.Replay(t.Context(), job); err != nil || !res.Reproduced {
				t.Fatalf("%+v, %v", res, err)
			}
		}
	}
	var heaps []uint64
	for i := range 1000/len(m.mined) + 1 {
		round()
		if size := treeSize(t, dir); size > most+(16<<10) { // and the last one's receipt
			t.Fatalf("round %d: the cache takes %d bytes", i, size)
		}
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		heaps = append(heaps, s.HeapAlloc)
	}
	if grown := int64(heaps[len(heaps)-1]) - int64(heaps[1]); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	t.Logf("%d replays; heap %d to %d bytes, disk %d", len(heaps)*len(m.mined), heaps[1], heaps[len(heaps)-1], treeSize(t, dir))
}

func treeSize(t testing.TB, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// The replayed receipt is the chain's in every member, log positions included.
func TestReceiptOfTheOutcome(t *testing.T) {
	m, hash := bumped(t)
	res, err := newReplayer(t, replay.Options{}).Replay(t.Context(), replay.Job{Client: m.c, Tx: hash})
	if err != nil {
		t.Fatal(err)
	}
	got, want := res.Outcome.Receipt, res.Outcome.Told
	want.CumulativeGasUsed = 0 // not told by a replay
	if g, w := fmt.Sprintf("%+v", plain(got)), fmt.Sprintf("%+v", plain(want)); g != w {
		t.Errorf("got %s\nwant %s", g, w)
	}
}

// plain is a receipt without pointers, to print.
func plain(r chain.Receipt) string {
	out, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// A second transaction of a block that was just read, or the same again, needs
// the node for its receipt only.
func TestBlockInMemory(t *testing.T) {
	m, hash := bumped(t)
	r := newReplayer(t, replay.Options{})
	for i, job := range []replay.Job{{Tx: hash}, {Tx: hash}, {Tx: m.mined[len(m.mined)-2]}, {Tx: hash, Prefix: replay.None}} {
		job.Client = m.c
		res, err := r.Replay(t.Context(), job)
		if err != nil || (res.Trips == 0) != (i > 0) || res.Reproduced != (job.Prefix != replay.None) {
			t.Errorf("replay %d: %+v, %v", i, res, err)
		}
	}
}

func TestRun(t *testing.T) {
	m, hash := bumped(t)
	second := newProxy(t, m.url, func(rpcCall, *rpcAnswer) {})
	for _, tt := range []struct {
		name      string
		q         replay.Request
		confirmed int
		code      string
	}{
		{"one URL", replay.Request{URLs: []string{m.url}}, 0, ""},
		{"two URLs", replay.Request{URLs: []string{m.url, second.URL}}, 1, ""},
		{"two URLs, one down", replay.Request{URLs: []string{"http://127.0.0.1:1", m.url}}, 0, ""},
		{"block hash", replay.Request{URLs: []string{m.url}, BlockHash: m.receipt(hash).BlockHash}, 1, ""},
		{"another block hash", replay.Request{URLs: []string{m.url}, BlockHash: common.Hash{1}}, 0, replay.CodeOtherBlock},
		{"another chain", replay.Request{URLs: []string{m.url}, ChainID: 1}, 0, replay.CodeWrongChain},
		{"nobody there", replay.Request{URLs: []string{"http://127.0.0.1:1"}}, 0, replay.CodeRPC},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.q.Tx = hash
			res, err := replay.Run(t.Context(), tt.q)
			if replay.Code(err) != tt.code || len(res.ConfirmedBy) != tt.confirmed {
				t.Fatalf("%+v, %v; want %d confirmations and code %q", res, err, tt.confirmed, tt.code)
			}
			if err == nil && exact(res) != nil {
				t.Errorf("%+v", res)
			}
		})
	}
}
