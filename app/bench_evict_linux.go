package app

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// evict drops a file from the system's cache, so that reading it again is reading
// the disk.
func evict(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}
