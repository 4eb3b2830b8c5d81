//go:build unix

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"karatum/flight"
)

// The test binary runs itself as another process: childEnv names the role.
const childEnv = "KARATUM_STORE_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "ingest":
		childIngest(os.Getenv("KARATUM_STORE_DIR"))
	case "lock":
		childLock(os.Getenv("KARATUM_STORE_DIR"))
	}
	os.Exit(1) // a child is killed, it does not end
}

// child starts the test binary in a role. Its standard output is returned.
func child(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+role, "KARATUM_STORE_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// childIngest continues the streams of eight agents from where the file stands,
// eight callers at once, and prints "agent index position" for each batch after
// it was acknowledged.
func childIngest(dir string) {
	key, err := flight.KeyFromBytes(append(make([]byte, 31), 0xa1))
	if err != nil {
		panic(err)
	}
	schema, err := os.ReadFile(filepath.Join("..", "schema.sql"))
	if err != nil {
		panic(err)
	}
	s, err := Open(context.Background(), Options{Dir: dir, Schema: string(schema), Now: time.Now, Seal: sealWith(key), MinFree: 1, WALLimit: 8 << 20})
	if err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	var out sync.Mutex
	for n := range 8 {
		wg.Go(func() {
			index := uint64(0)
			err := s.View(context.Background(), func(tx *ReadTx) error {
				st, err := tx.Stream(context.Background(), testAgent(n), "crash")
				if errors.Is(err, ErrNotFound) {
					return nil
				}
				index = st.LastIndex + 1
				return err
			})
			for ; err == nil; index++ {
				var r *flight.Receipt
				err = s.Update(context.Background(), func(tx *Tx) (err error) {
					if index%16 == 7 { // an epoch with what waits
						if err := nextEpoch(context.Background(), tx); err != nil {
							return err
						}
					}
					r, err = insert(context.Background(), tx, testBatch(n, "crash", index))
					return err
				})
				if err == nil {
					out.Lock()
					fmt.Println(n, index, r.Position)
					out.Unlock()
				}
			}
			panic(err)
		})
	}
	wg.Wait()
}

// TestKill kills a process that ingests, again and again on one file, and expects
// every acknowledged batch at its place and a whole file. KARATUM_KILLS sets how
// often, 5 where it is not set.
func TestKill(t *testing.T) {
	kills := 5
	if v := os.Getenv("KARATUM_KILLS"); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	acked := map[uint64]flight.Hash{} // by position
	for round := range kills {
		cmd, out := child(t, "ingest", dir)
		lines := 0
		for out.Scan() {
			var n int
			var index, position uint64
			if _, err := fmt.Sscan(out.Text(), &n, &index, &position); err != nil {
				break // cut off by the kill
			}
			b := testBatch(n, "crash", index)
			acked[position] = b.ID()
			if lines++; lines == 40+round*37%200 {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || lines == 0 {
			t.Fatalf("round %d: the child ended with %v after %d batches", round, err, lines)
		}
		checkAcked(t, dir, acked)
	}
	t.Logf("%d batches acknowledged over %d kills", len(acked), kills)
}

// checkAcked looks at a copy, so that the next child recovers from the log by
// itself.
func checkAcked(t *testing.T, dir string, acked map[uint64]flight.Hash) {
	t.Helper()
	look := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		copyFile(t, filepath.Join(dir, FileName+suffix), filepath.Join(look, FileName+suffix))
	}
	if err := Check(t.Context(), filepath.Join(look, FileName)); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, options(t, look))
	read(t, s, func(tx *ReadTx) error {
		for position, id := range acked {
			b, err := tx.BatchAt(t.Context(), position)
			if err != nil || b.ID != id {
				t.Fatalf("position %d = %s, %v; acknowledged %s", position, b.ID, err, id)
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// smallDisk mounts a file system of the given size, or skips the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("needs root on Linux, to mount a small tmpfs")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir
}

// TestDiskFull fills a real small file system under the store. Writes must fail
// with ErrDiskFull and nothing else, reads go on, and writes work again by
// themselves once there is room; nothing acknowledged is lost.
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, "6m")
	opt := options(t, dir)
	s, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // before the disk goes
	ballast := filepath.Join(dir, "ballast")
	ids := map[uint64]flight.Hash{}
	index := uint64(0)
	ingest := func() error {
		return s.Update(t.Context(), func(tx *Tx) error {
			b := testBatch(int(index%5), "full", index/5)
			r, err := insert(t.Context(), tx, b)
			if err == nil {
				ids[r.Position] = b.ID() // taken back below where the commit fails
			}
			return err
		})
	}
	for round := range 3 {
		fill(t, ballast)
		// The first round meets the check for room, the others the file system.
		if err := s.onWriter(t.Context(), func(w *writer) error { w.s.opt.MinFree = uint64(1 - min(round, 1)); return nil }); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for tries := 0; failed < 20 && tries < 5000; tries++ {
			if err := ingest(); err != nil {
				if !errors.Is(err, ErrDiskFull) {
					t.Fatalf("round %d: %v, want ErrDiskFull", round, err)
				}
				delete(ids, uint64(len(ids)))
				failed++
				continue
			}
			index++
		}
		if failed == 0 {
			t.Fatal("the disk never was full")
		}
		read(t, s, func(tx *ReadTx) error {
			for position := range ids {
				if _, err := tx.Receipt(t.Context(), position); err != nil {
					return err
				}
			}
			return nil
		})
		if err := os.Truncate(ballast, max(fileSize(ballast)-1<<20, 0)); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if err := ingest(); err != nil {
				t.Fatalf("round %d: with room again: %v", round, err)
			}
			index++
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), filepath.Join(dir, FileName)); err != nil {
		t.Error(err)
	}
	s = openStore(t, opt)
	read(t, s, func(tx *ReadTx) error {
		for position, id := range ids {
			if b, err := tx.BatchAt(t.Context(), position); err != nil || b.ID != id {
				t.Errorf("position %d = %s, %v; want %s", position, b.ID, err, id)
			}
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// fill writes into a file until the file system is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill = %v, want no space", err)
	}
	f.Close() // its error is the full disk again
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestMinFree refuses writes, but no reads, while less than MinFree is free.
func TestMinFree(t *testing.T) {
	opt := options(t, t.TempDir())
	s := openStore(t, opt)
	put(t, s, testBatch(1, "a", 0))
	setMinFree := func(n uint64) {
		if err := s.onWriter(t.Context(), func(w *writer) error { w.s.opt.MinFree = n; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	setMinFree(1 << 60)
	if err := s.Update(t.Context(), func(tx *Tx) error { return tx.SetMeta(t.Context(), "a", nil) }); !errors.Is(err, ErrDiskFull) {
		t.Errorf("Update = %v, want ErrDiskFull", err)
	}
	read(t, s, func(tx *ReadTx) error { _, err := tx.BatchAt(t.Context(), 1); return err })
	setMinFree(1)
	put(t, s, testBatch(1, "a", 1))
}

// childLock holds the directory until it is killed.
func childLock(dir string) {
	l, err := LockDir(dir)
	if err == nil {
		err = l.Describe("127.0.0.1:8080")
	}
	fmt.Println("held", err)
	time.Sleep(time.Hour)
}

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	l, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.Warning != "" {
		t.Errorf("warning on a local disk: %s", l.Warning)
	}
	if _, err := LockDir(dir); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("second lock = %v, want ErrLocked naming this process", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, out := child(t, "lock", dir)
	if !out.Scan() || out.Text() != "held <nil>" {
		t.Fatalf("child: %q", out.Text())
	}
	_, err = LockDir(dir)
	for _, want := range []string{fmt.Sprint("process ", cmd.Process.Pid), "started 2", "serving 127.0.0.1:8080", dir} {
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), want) {
			t.Errorf("lock = %v, want ErrLocked with %q", err, want)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed
	l, err = LockDir(dir)
	if err != nil {
		t.Fatalf("the lock outlived its process: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
