//go:build soak

package soak

import "time"

// How long and how often, under the tag soak.
const (
	longRun    = true
	killRounds = 50
	fightFor   = 60 * time.Second
	idleFor    = 60 * time.Second
	devBlocks  = 1000
	sleepFor   = 30 * time.Second
	replayRuns = 1000
)
