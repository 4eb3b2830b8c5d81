package replay

import (
	"context"

	"github.com/ethereum/go-ethereum/common"
)

// An early is the reading of the block that a transaction was seen in, begun before
// it is known whether it still is in it. Nil is none.
type early struct {
	at     common.Hash
	cancel context.CancelFunc
	read   chan *reading // takes one, nil if the reading failed
}

// readEarly begins to read the block that the job says the transaction was seen in.
func (r *Replayer) readEarly(ctx context.Context, job Job) *early {
	if job.Seen == nil || job.ChainID == 0 {
		return nil
	}
	at := *job.Seen
	if _, ok := r.recent.Get(job.key(at.BlockHash)); ok {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &early{at: at.BlockHash, cancel: cancel, read: make(chan *reading, 1)}
	go func() {
		got, _, err := r.read(ctx, job, at)
		if err != nil { // read again, for an error that counts, if it is the block
			got = nil
		}
		e.read <- got
	}()
	return e
}

// of waits for the reading if it is of that block. Nil if there is none.
func (e *early) of(block common.Hash) *reading {
	if e == nil || e.at != block {
		return nil
	}
	return <-e.read
}

// drop ends a reading that nobody waits for.
func (e *early) drop() {
	if e != nil {
		e.cancel()
	}
}
