//go:build unix

package store

import (
	"os"
	"syscall"
)

var errWouldBlock error = syscall.EWOULDBLOCK

func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
