//go:build unix

package mcpproxy

import (
	"os"
	"syscall"
)

// terminate asks the process to end; it is killed after the grace period.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
