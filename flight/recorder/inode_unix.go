//go:build unix

package recorder

import (
	"os"
	"syscall"
)

// inode returns the file's inode number, 0 where it cannot be had.
func inode(f *os.File) uint64 {
	fi, err := f.Stat()
	if err != nil {
		return 0
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
