// Package soak holds tests that treat a node badly: they kill it, fill its disk,
// stall its readers and have many writers fight over one stream. They run the real
// binary in a process of its own. By default each runs its short form; the long
// forms are behind the build tag soak, and bash .ci/soak runs those and prints the
// figures.
package soak
