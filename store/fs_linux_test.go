package store

import "testing"

func TestNetworkFS(t *testing.T) {
	if got := networkFS(t.TempDir()); got != "" {
		t.Errorf("a temporary directory is on %s", got)
	}
	if got := networkFS("/proc"); got != "" {
		t.Errorf("/proc is on %s", got)
	}
	for magic, want := range map[int64]string{0x6969: "NFS", 0xff534d42: "CIFS", 0x65735546: "FUSE"} {
		if got := networkMagic[uint32(magic)]; got != want {
			t.Errorf("magic %#x = %q, want %s", magic, got, want)
		}
	}
	if free, err := freeBytes(t.TempDir()); err != nil || free == 0 {
		t.Errorf("free = %d, %v", free, err)
	}
}
