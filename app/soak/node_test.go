package soak

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"karatum/app/load"
)

// binary is karatum, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "karatum-soak-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "karatum")
	if out, err := exec.Command("go", "build", "-o", binary, "karatum").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// unlimited are flags that switch off what would stop a load from one address.
var unlimited = []string{"--ip-rate", "0", "--batch-quota", strconv.Itoa(math.MaxInt32), "--anchor-cron", "@every 24h"}

// start starts a node in dir; it is killed at the end of the test.
func start(t *testing.T, dir string, env []string, flags ...string) *load.Child {
	t.Helper()
	node, err := load.Start(t.Context(), load.Options{Binary: binary, Data: dir, Args: flags, Env: env, Log: filepath.Join(t.TempDir(), "node.log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Kill)
	return node
}

// stop ends a node and fails the test where it does not end well.
func stop(t *testing.T, node *load.Child) {
	t.Helper()
	took, err := node.Stop(time.Minute) // it takes far less where nothing else runs; the log says how much
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped in %d ms", took.Milliseconds())
}

// audit takes a backup with the command line, which opens the copy, runs SQLite's
// integrity check and recomputes every signature, chain, receipt and root.
func audit(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup.db")
	out, err := exec.CommandContext(t.Context(), binary, "backup", file, "--data", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("karatum backup: %v\n%s", err, out)
	}
	t.Logf("%s", strings.TrimSpace(string(out)))
}

// token is the operator's of a data directory.
func token(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "operator.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}
