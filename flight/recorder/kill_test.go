//go:build unix

package recorder

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"karatum/flight"
)

// The test binary starts itself with these set to play an agent.
const (
	envAgent   = "RECORDER_TEST_AGENT" // journal directory
	envNode    = "RECORDER_TEST_NODE"  // node URL
	envFsize   = "RECORDER_TEST_FSIZE" // largest file in bytes, as a disk that fills up
	agentSteps = 400                   // at most, before an agent ends by itself
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envAgent); dir != "" {
		if err := agent(dir, os.Getenv(envNode)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// agent records from four goroutines as fast as it can, delivers all the time, and
// prints a line once a step is recorded.
func agent(dir, node string) error {
	key, err := flight.KeyFromBytes(append(make([]byte, 31), 7))
	if err != nil {
		return err
	}
	var fail error
	var mu sync.Mutex
	r, err := Open(context.Background(), Options{
		Journal: dir, Signer: Local(key), NodeURL: node, Interval: time.Millisecond, RetainPlaintext: true,
		SegmentBytes: 64 << 10,
		OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if !errors.Is(err, ErrTorn) {
				fail = errors.Join(fail, err)
			}
		},
	})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range agentSteps / 4 {
				if ref, err := r.Record(context.Background(), Step{Kind: "note", Result: i}); err == nil {
					fmt.Printf("%s %d\n", ref.Hash, ref.Seq)
				}
				if i%10 == 9 { // so that kills hit every phase of a delivery
					_ = r.Flush(context.Background())
				}
			}
		})
	}
	wg.Wait()
	err = r.Close(context.Background())
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(fail, err)
}

// TestKill kills an agent with SIGKILL at random under load, again and again over
// one journal. It must resume its one stream; every step that Record returned must
// reach the node; the node must never see a second history.
func TestKill(t *testing.T) {
	s := newSetup(t)
	recorded := map[string]bool{}
	for round := range killRounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envAgent+"="+s.dir, envNode+"="+s.url)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := rand.IntN(agentSteps)
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			recorded[lines.Text()] = true
			if n == after {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || exit.Exited()) {
			t.Fatalf("round %d, killed after %d steps: the agent ended with %v", round, after, err)
		}
	}
	r := s.open()
	flush(t, r)
	checkNode(t, s.node)
	headers := s.node.Headers()
	for _, h := range headers {
		if h.Stream != headers[0].Stream {
			t.Errorf("batch %d of another stream, %s", h.Index, h.Stream)
		}
	}
	last := headers[len(headers)-1]
	if last.ToSeq+1 < uint64(len(recorded)) {
		t.Errorf("the node holds %d steps, the agents recorded %d", last.ToSeq+1, len(recorded))
	}
	rep, err := Check(s.dir)
	if err != nil || len(rep.Problems) > 0 || rep.Batches != len(headers) {
		t.Errorf("Check = %+v, %v; want %d sound batches", rep, err, len(headers))
	}
	rd, err := OpenReader(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	for line := range recorded {
		var hash string
		var seq uint64
		if _, err := fmt.Sscan(line, &hash, &seq); err != nil {
			continue // the line was cut by the kill
		}
		if rec, err := rd.src.step(last.Stream, seq); err != nil || rec.hash.String() != hash {
			t.Errorf("step %d is %s, %v; want %s", seq, rec.hash, err, hash)
		}
	}
	t.Logf("%d kills, %d steps recorded, %d batches, %d files", killRounds, len(recorded), len(headers), rep.Segments)
}

// TestFullDisk lets the journal's file meet a size limit: lines are taken in part
// and refused. Record must report it, change nothing and go on once there is room.
func TestFullDisk(t *testing.T) {
	if os.Getenv(envFsize) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), envFsize+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	s := newSetup(t)
	r := s.open()
	good := recordN(t, r, 3)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	size := uint64(r.journal.size)
	for _, room := range []uint64{0, 1, 100, 500} {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size + room, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		if ref, err := r.Record(t.Context(), Step{Kind: "note", Result: "lost"}); err == nil {
			t.Errorf("%d bytes of room: recorded as %v", room, ref)
		}
		if err := r.Flush(t.Context()); err == nil || len(s.node.Headers()) != 0 {
			t.Errorf("%d bytes of room: flush = %v, the node holds %d batches; a batch that is not on disk was sent", room, err, len(s.node.Headers()))
		}
		if got := uint64(len(readFile(t, r.journal.f.Name()))); got != size {
			t.Errorf("%d bytes of room: the file has %d bytes, want %d", room, got, size)
		}
	}
	if !s.errs.has(syscall.EFBIG) {
		t.Errorf("OnError heard %v, want the disk's error", s.errs.all())
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if next := recordN(t, r, 1)[0]; next.Seq != good[2].Seq+1 {
		t.Errorf("the next step has seq %d, want %d", next.Seq, good[2].Seq+1)
	}
	flush(t, r)
	checkNode(t, s.node)
	if rep, err := Check(s.dir); err != nil || len(rep.Problems) > 0 || rep.Steps != 4 {
		t.Errorf("Check = %+v, %v", rep, err)
	}
}
