package soak

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"karatum/app/load"
	"karatum/flight"
)

// TestDiskFull fills a small file system under the node. It must refuse batches
// with 507 and a code, go on answering reads, and take batches again by itself
// once there is room.
func TestDiskFull(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=160m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("a tmpfs is needed: %v; run as root", err)
		}
		t.Skipf("a tmpfs is needed: %v; run as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(mount, "data")
	node := start(t, dir, nil, unlimited...)
	t.Cleanup(node.Kill) // before the unmount
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	s := load.NewStream(key, "full", uint64(time.Now().Unix()))
	first := s.Sign()
	if status, answer := post(t, node, first); status != http.StatusCreated {
		t.Fatalf("before: %d %s", status, answer)
	}
	filler := filepath.Join(mount, "filler")
	fill(t, filler)
	second := s.Sign()
	status, answer := post(t, node, second)
	if status != http.StatusInsufficientStorage || !strings.Contains(answer, `"DISK_FULL"`) {
		t.Errorf("on a full disk: %d %s, want 507 DISK_FULL", status, answer)
	}
	for _, path := range []string{"/v1/flight/batches/" + first.ID().String(), "/healthz", "/", "/v1/status"} {
		if status, err := node.Get(t.Context(), path, nil); err != nil || status != http.StatusOK {
			t.Errorf("GET %s on a full disk: %d %v, want 200", path, status, err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if status, answer := post(t, node, second); status != http.StatusCreated {
		t.Errorf("with room again: %d %s, want 201", status, answer)
	}
	stop(t, node)
}

func post(t *testing.T, node *load.Child, b flight.Batch) (int, string) {
	t.Helper()
	body, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := node.Post(t.Context(), "/v1/flight/batches", body, "")
	if err != nil {
		t.Fatal(err)
	}
	return status, string(answer)
}

// fill writes a file until nothing more fits.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
	}
}
