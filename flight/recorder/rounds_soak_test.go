//go:build soak

package recorder

const killRounds = 300
