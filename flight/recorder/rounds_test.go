//go:build !soak

package recorder

// How hard the default run tries; the tag soak asks for more.
const (
	killRounds = 30
	manySteps  = 100_000
)
