package app

import "os"

// KillPoint returns a hook for Deps.Checkpoint that ends the process, as a power
// cut would, after the durable step of anchoring that KARATUM_TEST_KILL names. It
// is nil where the variable is not set.
func KillPoint(getenv func(string) string) func(step string) {
	at := getenv("KARATUM_TEST_KILL")
	if at == "" {
		return nil
	}
	return func(step string) {
		if step != at {
			return
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill() // where it fails, the test that asked for it notices
		}
		select {}
	}
}
