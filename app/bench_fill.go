package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"karatum/flight"
	"karatum/store"
)

// A fill makes a database as a busy node has it after a month: everything in it is
// valid, goes through the store's own methods and is drawn from one seed, so that
// two runs of one size make the same pages. Its clock runs from a month ago to now.
type fill struct {
	batches, steps int // to make
	keys           *Keys
	st             *store.Store
	rng            *rand.Rand
	streams        fillStreams
	begin          time.Time
	clock          atomic.Int64 // unix ms, what the store sees
	planned, opens int          // batches and opened steps so far
	twists         map[flight.Address]uint64
}

// fillSpan is how long the filled node has been running.
const fillSpan = 30 * 24 * time.Hour

// fillMark is the file that tells a directory with a filled database from an
// operator's, which no benchmark opens or writes to. It is made at the end.
const fillMark = "filled-by-bench"

// A fillGroup is what is written in one transaction: the batches of one epoch.
type fillGroup struct {
	at   time.Time
	rows []*fillRow
}

// A fillRow is one batch with what is opened of it.
type fillRow struct {
	key      *flight.Key
	header   flight.Header
	scheme   flight.Scheme
	steps    []flight.Step // all of the batch, where some are opened
	open     []fillClaim   // which, and what their claims say
	twist    bool          // sign a second history of the same index
	batch    flight.Batch
	id       flight.Hash
	opened   []fillStep
	evidence *flight.Evidence
}

// fillPages makes a data directory with its keys and database.
func fillPages(ctx context.Context, dir, schema string, batches, steps int) error {
	if _, err := OpenDir(dir); err != nil {
		return err
	}
	keys, err := LoadKeys(dir, true)
	if err != nil {
		return err
	}
	f := &fill{batches: batches, steps: steps, keys: keys, rng: rand.New(rand.NewPCG(1, 2)), begin: time.Now().Add(-fillSpan), twists: map[flight.Address]uint64{}}
	f.streams = newFillStreams(f.rng, batches)
	f.clock.Store(f.begin.UnixMilli())
	f.st, err = store.Open(ctx, store.Options{Dir: dir, Schema: schema, Seal: Sealer(keys), Now: func() time.Time { return time.UnixMilli(f.clock.Load()) }})
	if err != nil {
		return err
	}
	if err := errors.Join(f.run(ctx), f.st.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fillMark), nil, 0o600)
}

// run plans and signs the next group while the store writes the one before.
func (f *fill) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	groups, planned := make(chan *fillGroup, 2), make(chan error, 1)
	go func() {
		defer close(groups)
		planned <- f.produce(ctx, groups)
	}()
	for g := range groups {
		f.clock.Store(g.at.UnixMilli())
		if err := f.st.Update(ctx, func(tx *store.Tx) error { return f.write(ctx, tx, g) }); err != nil {
			return err
		}
	}
	if err := <-planned; err != nil {
		return err
	}
	return f.st.Update(ctx, func(tx *store.Tx) error { return f.crons(ctx, tx) })
}

func (f *fill) produce(ctx context.Context, groups chan<- *fillGroup) error {
	for f.planned < f.batches {
		g := &fillGroup{at: f.begin.Add(fillSpan / time.Duration(f.batches) * time.Duration(f.planned))}
		for range min(flight.MaxEpoch, f.batches-f.planned) {
			row, err := f.plan(uint64(g.at.UnixMilli()))
			if err != nil {
				return err
			}
			g.rows = append(g.rows, row)
		}
		if err := g.prepare(); err != nil {
			return err
		}
		select {
		case groups <- g:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// plan continues one of the streams.
func (f *fill) plan(now uint64) (*fillRow, error) {
	s, err := f.streams.pick()
	if err != nil {
		return nil, err
	}
	left := float64(f.batches - f.planned)
	f.planned++
	n := 1 + f.rng.IntN(fillSteps)
	open := f.opens < f.steps && (s.dense || f.rng.Float64() < float64(f.steps-f.opens)/fillOpen/left)
	if open {
		n = fillSteps
	}
	row := &fillRow{key: s.key, header: s.next(n, now/1000), scheme: flight.EIP712}
	if a := row.header.Agent; f.planned%500 == 0 && f.twists[a] < maxEvidence {
		row.twist = true
		f.twists[a]++
	}
	if f.rng.IntN(8) == 0 {
		row.scheme = flight.EIP191
	}
	if open {
		if err := f.record(row, now); err != nil {
			return nil, err
		}
	} else {
		row.header.Head, row.header.Root = fillHash(f.rng), fillHash(f.rng)
	}
	s.head = row.header.Head
	return row, nil
}

// prepare signs the batches and proves what is opened of them, on every core.
func (g *fillGroup) prepare() error {
	cores := runtime.NumCPU()
	errs := make([]error, cores)
	var wg sync.WaitGroup
	for c := range cores {
		wg.Go(func() {
			for i := c; i < len(g.rows) && errs[c] == nil; i += cores {
				errs[c] = g.rows[i].prepare(uint64(g.at.UnixMilli()))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *fillRow) prepare(now uint64) error {
	r.batch, r.id = r.header.Sign(r.key, r.scheme), r.header.ID()
	if r.twist {
		other := r.header
		other.Root = flight.Keccak256(other.Root[:])
		r.evidence = flight.NewEvidence(r.batch, other.Sign(r.key, r.scheme))
	}
	for i := range r.open {
		s, err := r.prove(&r.open[i], now)
		if err != nil {
			return err
		}
		r.opened = append(r.opened, s)
	}
	return nil
}

// write stores a group: its batches, what is opened and in conflict, and the epoch.
// The last, shorter group waits for its epoch.
func (f *fill) write(ctx context.Context, tx *store.Tx, g *fillGroup) error {
	ids := make([]flight.Hash, len(g.rows))
	var last uint64
	for i, r := range g.rows {
		receipt, err := tx.InsertBatch(ctx, r.batch, r.id, tx.Now(), tx.Now()/1000+1200)
		if err != nil {
			return err
		}
		ids[i], last = r.id, receipt.Position
	}
	for _, r := range g.rows {
		for i := range r.opened {
			if err := r.opened[i].write(ctx, tx); err != nil {
				return err
			}
		}
		if r.evidence == nil {
			continue
		}
		doc, err := json.Marshal(r.evidence)
		if err != nil {
			return err
		}
		h := &r.header
		if err := tx.AddEvidence(ctx, h.Agent, h.Stream, h.Index, string(r.evidence.Reason), doc, tx.Now()); err != nil {
			return err
		}
	}
	if len(ids) < flight.MaxEpoch {
		return nil
	}
	return f.anchor(ctx, tx, ids, last)
}

// anchor makes the epoch of a group, as far as it can come: only final epochs are
// left alone by a node that starts on them. Some were orphaned on their way.
func (f *fill) anchor(ctx context.Context, tx *store.Tx, ids []flight.Hash, last uint64) error {
	root, err := flight.EpochRoot(ids)
	if err != nil {
		return err
	}
	e, err := tx.InsertEpoch(ctx, root, last+1-uint64(len(ids)), last, store.DevChain)
	if err != nil {
		return err
	}
	sender := f.keys.Anchor.Address()
	at := store.EpochAnchor{
		TxHash: flight.Keccak256(root[:]), BlockNumber: 100 + 3*e.ID, BlockHash: flight.Keccak256(root[:4]), BlockTime: tx.Now() / 1000,
		EAS: flight.Address{1}, SchemaUID: flight.Hash{2}, AttestationUID: flight.Keccak256(root[:8]), Attester: sender, GasUsed: 180_000,
	}
	signed := store.EpochTx{EpochID: e.ID, ChainID: store.DevChain, Sender: sender, Nonce: e.ID, Hash: at.TxHash, Raw: make([]byte, 420), GasLimit: 250_000}
	errs := []error{tx.AddEpochTx(ctx, signed), tx.EpochTxSent(ctx, at.TxHash, nil), tx.SettleEpoch(ctx, e.ID, store.EpochPending, store.EpochIncluded, at)}
	if e.ID%40 == 0 {
		errs = append(errs, tx.SetEpochState(ctx, e.ID, store.EpochIncluded, store.EpochOrphaned, "its block is no longer part of the chain"),
			tx.SettleEpoch(ctx, e.ID, store.EpochOrphaned, store.EpochIncluded, at))
	}
	return errors.Join(append(errs, tx.SetEpochState(ctx, e.ID, store.EpochIncluded, store.EpochSafe, ""),
		tx.SetEpochState(ctx, e.ID, store.EpochSafe, store.EpochFinal, ""))...)
}

func (f *fill) crons(ctx context.Context, tx *store.Tx) error {
	var errs []error
	for i := range uint64(shownRuns) {
		at := tx.Now() - 60_000*(shownRuns-i)
		errs = append(errs,
			tx.AddCronRun(ctx, store.CronRun{Job: jobAnchor, Start: at, End: at + 900, Note: "512 batches in 1 epochs"}),
			tx.AddCronRun(ctx, store.CronRun{Job: jobRecheck, Start: at, End: at + 300, Note: "17 of 17 open transactions asked for"}))
	}
	return errors.Join(errs...)
}

// filled reports whether a data directory has a database that fillPages made; one
// with another database is an error.
func filled(dir string) (bool, error) {
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	_, err := os.Stat(filepath.Join(dir, fillMark))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %s is not one that this benchmark has filled to its end; name another, or none", ErrDataDir, dir)
	}
	return err == nil, err
}
