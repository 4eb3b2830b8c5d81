//go:build unix

package devchain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/ethdb/leveldb"
	"github.com/ethereum/go-ethereum/node"
)

// These tests run the test binary again as a child, which opens the chain in a
// directory and then suffers something that no process survives, or should.
const (
	childDir = "KARATUM_DEVCHAIN_TEST_DIR"
	childRun = "KARATUM_DEVCHAIN_TEST_RUN"
)

func child(t *testing.T, run, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childRun+"="+run)
	return cmd
}

func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	switch os.Getenv(childRun) {
	case "":
		t.Skip("runs only as a child of the tests in this file")
	case "send":
		childSend(t, dir)
	case "full":
		childFull(t, dir)
	case "full at start":
		childFullAtStart(t, dir)
	}
}

// childSend sends transactions until it is killed, and prints the hash of each
// whose receipt it has seen.
func childSend(t *testing.T, dir string) {
	c := openTest(t, testOptions(dir))
	nonce, err := ethclient.NewClient(c.Client()).NonceAt(t.Context(), c.Accounts()[0].Address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for ; t.Context().Err() == nil; nonce++ {
		hash := send(t, c, nonce)
		receipt(t, c.Client(), hash)
		fmt.Println("receipt", hash.Hex())
	}
}

func TestKillKeepsEveryReceipt(t *testing.T) {
	dir := t.TempDir()
	var seen []common.Hash
	for round := range 3 {
		cmd := child(t, "send", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		stop := len(seen) + 20*(round+1)
		for lines.Scan() {
			if hash, ok := strings.CutPrefix(lines.Text(), "receipt "); ok {
				seen = append(seen, common.HexToHash(hash))
			}
			if len(seen) == stop {
				cmd.Process.Signal(syscall.SIGKILL) // what is in the pipe is read on
			}
		}
		if err := cmd.Wait(); err == nil || len(seen) < stop {
			t.Fatalf("child ended with %v after %d receipts", err, len(seen))
		}
	}
	c := openTest(t, testOptions(dir))
	for _, hash := range seen {
		if r := receipt(t, c.Client(), hash); r.Status != 1 {
			t.Errorf("receipt of %s has status %d", hash, r.Status)
		}
	}
	if r := receipt(t, c.Client(), send(t, c, uint64(call[hexutil.Uint64](t, c, "eth_getTransactionCount", c.Accounts()[0].Address, "latest")))); r.Status != 1 {
		t.Errorf("the chain does not go on: %+v", r)
	}
}

// A crash between persistHead and SetCanonical leaves a head that is in no
// index. The state is made here by taking the index entries away.
func TestRepairHead(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, testOptions(dir))
	hash := send(t, c, 0)
	block := receipt(t, c.Client(), hash)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	kv, err := leveldb.New(c.sealer.dbDir, 16, 16, "", false)
	if err != nil {
		t.Fatal(err)
	}
	rawdb.DeleteCanonicalHash(kv, block.BlockNumber.Uint64())
	rawdb.DeleteTxLookupEntry(kv, hash)
	if err := kv.Close(); err != nil {
		t.Fatal(err)
	}
	c = openTest(t, testOptions(dir))
	if again := receipt(t, c.Client(), hash); again.BlockHash != block.BlockHash {
		t.Errorf("receipt in %s, was in %s", again.BlockHash, block.BlockHash)
	}
	receipt(t, c.Client(), send(t, c, 1))
}

func TestJournalsAreFound(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "50% [new] *")
	c := openTest(t, testOptions(dir))
	paths, err := journals(c.sealer.dbDir)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no journals in %s: %v", c.sealer.dbDir, err)
	}
	if err := syncJournals(c.sealer.dbDir); err != nil {
		t.Error(err)
	}
}

// limitFiles makes every write beyond a size fail, in the whole process, as on a
// full disk.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: size}); err != nil {
		t.Fatal(err)
	}
}

// childFull fills the disk without a guard. The chain must die, the process not.
func childFull(t *testing.T, dir string) {
	c := openTest(t, testOptions(dir))
	last := send(t, c, 0)
	receipt(t, c.Client(), last)
	limitFiles(t, 256<<10)
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		err = c.Mine()
	}
	if !errors.Is(err, ErrDead) || !errors.Is(c.Err(), ErrDead) {
		t.Fatalf("Mine = %v, want ErrDead", err)
	}
	if err := c.Mine(); !errors.Is(err, ErrDead) {
		t.Errorf("Mine on a dead chain = %v, want ErrDead", err)
	}
	if err := c.Close(); !errors.Is(err, ErrDead) {
		t.Errorf("Close = %v, want ErrDead", err)
	}
	fmt.Println("alive after", last.Hex())
}

func TestFullDiskDoesNotEndTheProcess(t *testing.T) {
	dir := t.TempDir()
	out, err := child(t, "full", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	_, after, ok := strings.Cut(string(out), "alive after ")
	if !ok {
		t.Fatalf("child did not get to the end:\n%s", out)
	}
	hash := common.HexToHash(strings.Fields(after)[0])
	c := openTest(t, testOptions(dir)) // with space again
	receipt(t, c.Client(), hash)
	receipt(t, c.Client(), send(t, c, 1))
}

// childFullAtStart opens a chain when nothing can be written any more.
func childFullAtStart(t *testing.T, dir string) {
	limitFiles(t, 0)
	c, err := Open(t.Context(), testOptions(dir))
	if err == nil {
		t.Fatalf("Open succeeded: %v", c.Err())
	}
	fmt.Println("refused:", err)
}

func TestFullDiskAtStart(t *testing.T) {
	dir := t.TempDir()
	c := openTest(t, testOptions(dir))
	hash := send(t, c, 0)
	receipt(t, c.Client(), hash)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, t.TempDir()} {
		out, err := child(t, "full at start", d).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "refused:") {
			t.Errorf("child: %v\n%s", err, out)
		}
	}
	receipt(t, openTest(t, testOptions(dir)).Client(), hash)
}

// A chain that was there and is damaged is an error, never a fresh beginning.
func TestDamage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(dir string) error
	}{
		{"database deleted", os.RemoveAll},
		{"database emptied", func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) }},
		{"contents overwritten", func(dir string) error {
			return overwrite(dir, "*.log", "*.ldb", "MANIFEST-*")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			c := openTest(t, testOptions(dir))
			receipt(t, c.Client(), send(t, c, 0))
			db := c.sealer.dbDir
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(db); err != nil {
				t.Fatal(err)
			}
			if c, err := Open(t.Context(), testOptions(dir)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Open = %v, %v; want ErrCorrupt", c, err)
			}
		})
	}
}

// overwrite puts noise in place of the files' contents.
func overwrite(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, bytes.Repeat([]byte{0x5a}, int(info.Size())), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestForeignChain(t *testing.T) {
	dir := t.TempDir()
	n, err := node.New(&node.Config{Name: "devchain", DataDir: dir, DBEngine: "leveldb"})
	if err != nil {
		t.Fatal(err)
	}
	g := core.DefaultSepoliaGenesisBlock()
	c := ethConfig(g)
	if _, err := eth.New(n, c); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := Open(t.Context(), testOptions(dir)); !errors.Is(err, ErrForeign) {
		t.Errorf("Open = %v, %v; want ErrForeign", c, err)
	}
}
