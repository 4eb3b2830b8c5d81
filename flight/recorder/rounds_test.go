//go:build !soak

package recorder

// killRounds is how often TestKill kills its agent; the tag soak asks for more.
const killRounds = 30
