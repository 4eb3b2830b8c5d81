//go:build !race

package recorder

const cutEvery = 1
