package replay_test

import (
	"testing"

	"karatum/chain/replay"
)

// The tenth transaction of a block of ten, with the nine before it. Cold makes a
// new Replayer and reads all state; cached reads the same from disk.
func BenchmarkReplay(b *testing.B) {
	m := onDevChain(b)
	m.together(func() {
		for i := range 10 {
			m.random(i)
		}
	})
	last := m.mined[len(m.mined)-1]
	for _, hash := range m.mined {
		if r := m.receipt(hash); r.Index == 9 {
			last = hash
		}
	}
	job := replay.Job{Client: m.c, ChainID: 31337, Tx: last}
	run := func(b *testing.B, r *replay.Replayer) {
		b.Helper()
		res, err := r.Replay(b.Context(), job)
		if err != nil || exact(res) != nil || res.PrefixCount != 9 {
			b.Fatalf("%+v, %v", res, err)
		}
		b.ReportMetric(float64(res.Trips), "trips")
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			run(b, newReplayer(b, replay.Options{}))
		}
	})
	b.Run("warm", func(b *testing.B) { // the block is in memory
		r := newReplayer(b, replay.Options{})
		for b.Loop() {
			run(b, r)
		}
	})
	b.Run("cached", func(b *testing.B) {
		o := replay.Options{CacheDir: b.TempDir()}
		run(b, newReplayer(b, o))
		for b.Loop() {
			run(b, newReplayer(b, o))
		}
	})
}
