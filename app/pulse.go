package app

import (
	"context"

	"karatum/store"
)

// A PulseView is what every page shows of the node. It was last known when it was
// taken: showing it asks neither the database nor a chain.
type PulseView struct {
	At         uint64 // unix ms, 0 before the first
	Block      uint64 // newest block of the anchoring network, 0 where none was seen
	Answers    bool   // whether that network answered when it was last asked
	Waiting    uint64 // batches not yet in an epoch
	NextAnchor uint64 // unix ms, 0 while the crons do not run
}

// Pulse returns what was last known. It is taken after every run of a job, the
// shortest of which runs each 15 seconds, and whenever somebody asks for the status.
func (a *App) Pulse() PulseView {
	if v := a.pulse.Load(); v != nil {
		return *v
	}
	return PulseView{}
}

// takePulse looks at the counts and the anchoring network. What cannot be read now
// stays as it was last known.
func (a *App) takePulse(ctx context.Context) {
	var c store.Counts
	err := a.store.View(ctx, func(tx *store.ReadTx) (err error) {
		c, err = tx.Counts(ctx)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			a.log.WarnContext(ctx, "counts not read", "err", err)
		}
		return
	}
	a.keepPulse(c.Batches-c.Anchored, a.look(ctx, a.anchor.Network.ChainID))
}

func (a *App) keepPulse(waiting uint64, anchoring ChainView) {
	a.pulse.Store(&PulseView{At: a.nowMs(), Block: anchoring.Head, Answers: anchoring.Error == "", Waiting: waiting, NextAnchor: a.crons.next(jobAnchor)})
}
