//go:build !unix

package app

import (
	"errors"
	"time"
)

// cpuTime cannot be told here; the benchmarks need it.
func cpuTime() (time.Duration, error) {
	return 0, errors.New("the CPU time of a process is not measured on this system")
}
