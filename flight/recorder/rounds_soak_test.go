//go:build soak

package recorder

const (
	killRounds = 300
	manySteps  = 1_000_000
)
