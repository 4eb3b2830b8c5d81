//go:build !soak

package soak

import "time"

// How long and how often, in the default run.
const (
	longRun    = false
	killRounds = 10
	fightFor   = 10 * time.Second
	idleFor    = 5 * time.Second
	devBlocks  = 100
	sleepFor   = 4 * time.Second
	replayRuns = 200
)
