package store

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"karatum/flight"
)

// A StreamKey names one stream of one agent.
type StreamKey struct {
	Agent  flight.Address
	Stream string
}

// KeyLocks are mutexes by stream: one writer per (agent, stream). They take memory
// only while held or waited for.
type KeyLocks struct {
	mu    sync.Mutex // guards locks and their counts
	locks map[StreamKey]*keyLock
}

type keyLock struct {
	sync.Mutex
	users int // that hold it or wait
}

// NewKeyLocks returns locks of which none is held.
func NewKeyLocks() *KeyLocks { return &KeyLocks{locks: map[StreamKey]*keyLock{}} }

// Lock waits until the stream is free and holds it until unlock is called.
func (l *KeyLocks) Lock(k StreamKey) (unlock func()) {
	l.mu.Lock()
	lock := l.locks[k]
	if lock == nil {
		lock = &keyLock{}
		l.locks[k] = lock
	}
	lock.users++
	l.mu.Unlock()
	lock.Lock()
	return func() {
		lock.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(l.locks, k)
		}
	}
}

// LockAll holds several streams, each once however often it is named. All callers
// take them in one order, so that none waits for another in a circle.
func (l *KeyLocks) LockAll(keys []StreamKey) (unlock func()) {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b StreamKey) int {
		return cmp.Or(bytes.Compare(a.Agent[:], b.Agent[:]), cmp.Compare(a.Stream, b.Stream))
	})
	keys = slices.Compact(keys)
	unlocks := make([]func(), len(keys))
	for i, k := range keys {
		unlocks[i] = l.Lock(k)
	}
	return func() {
		for _, u := range slices.Backward(unlocks) {
			u()
		}
	}
}
