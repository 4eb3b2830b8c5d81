package app

import (
	"os"
	"syscall"
)

// KillPoint returns a hook for Deps.Checkpoint that ends the process, as a power
// cut would, after the durable step of anchoring that KARATUM_TEST_KILL names. It
// is nil where the variable is not set.
func KillPoint(getenv func(string) string) func(step string) {
	at := getenv("KARATUM_TEST_KILL")
	if at == "" {
		return nil
	}
	return func(step string) {
		if step == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // never reached a second step
		}
	}
}
