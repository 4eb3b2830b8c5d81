package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The most that a node may take while nobody asks for anything.
const (
	idleMemory = 150 << 20 // bytes, resident
	idleShare  = 0.01      // of a core
)

// TestReadyAndIdle prints how long a start takes on a directory with a chain of
// many blocks, and checks what the node takes while nobody asks for anything.
func TestReadyAndIdle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	node := start(t, dir, nil)
	for range devBlocks {
		var number string
		ask(t, node.ChainURL, "evm_mine", &number)
	}
	stop(t, node)
	node = start(t, dir, nil)
	t.Logf("ready in %d ms on a directory with %d blocks", node.Ready.Milliseconds(), devBlocks)
	before, err := node.CPU(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(idleFor) // what is measured
	after, err := node.CPU(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	share, memory := (after-before).Seconds()/idleFor.Seconds(), resident(t, node.PID())
	t.Logf("idle for %s: %.2f %% of a core, %d MB resident", idleFor, 100*share, memory>>20)
	if memory > idleMemory {
		t.Errorf("%d bytes resident, at most %d", memory, idleMemory)
	}
	if longRun && share > idleShare { // what a start leaves to do weighs in a short one
		t.Errorf("%.2f %% of a core, at most %.2f %%", 100*share, 100*idleShare)
	}
	stop(t, node)
}

// resident is the memory of a process in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		t.Fatalf("statm is %q", b)
	}
	pages, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestSleepCausesOneRun stops the process as a sleeping laptop does, for many
// intervals of its crons. Waking up must cause one run, not one for each interval
// that passed.
func TestSleepCausesOneRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	node := start(t, dir, nil, "--anchor-cron", "@every 1s")
	const counter = `karatum_job_seconds_count{job="anchor",outcome="ok"}`
	for {
		if _, err := node.Metric(t.Context(), counter); err == nil { // the first run makes it
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	runs := func() float64 {
		n, err := node.Metric(t.Context(), counter)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	from := time.Now()
	before := runs()
	asleep := time.Now()
	if err := syscall.Kill(node.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(sleepFor) // the sleep itself
	slept := time.Since(asleep)
	if err := syscall.Kill(node.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	after := runs()
	for ; after == before; after = runs() {
		time.Sleep(20 * time.Millisecond)
	}
	got, awake := after-before, time.Since(from)-slept
	t.Logf("asleep for %s, %v runs within %s awake", sleepFor, got, awake.Round(time.Millisecond))
	// One that was due, one that may have begun before the sleep, one a second awake.
	if most := 2 + awake.Seconds(); got > most {
		t.Errorf("%v runs after the sleep, want at most %.0f: one for each interval that was slept through", got, most)
	}
	stop(t, node)
}
