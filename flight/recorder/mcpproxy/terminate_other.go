//go:build !unix

package mcpproxy

import "os"

// terminate ends the process; there is no way to ask.
func terminate(p *os.Process) error { return p.Kill() }
