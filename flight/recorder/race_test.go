//go:build race

package recorder

// cutEvery thins out the cuts of TestCutAtEveryByte: the race detector slows
// hashing some twenty times, and the cuts differ in nothing that it could see.
const cutEvery = 23
