package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"karatum/store"
)

// A job is one of the node's crons. Its run says in a note what it did.
type job struct {
	name     string
	schedule string
	timeout  time.Duration
	run      func(context.Context) (note string, err error)
}

// jobs is the table of crons.
func (a *App) jobs() []job {
	return []job{
		{"anchor", a.cfg.AnchorCron, 5 * time.Minute, func(ctx context.Context) (string, error) {
			r, err := a.AnchorNow(ctx)
			return fmt.Sprintf("%s in %s", counted(r.Batches, "batch", "batches"), counted(r.Epochs, "epoch", "epochs")), err
		}},
		{"settle", "@every 15s", time.Minute, a.settle},
		{"recheck", a.cfg.RecheckCron, 50 * time.Second, a.recheckDue},
	}
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// crons runs the jobs. A schedule is computed from the time at which a run
// starts, so a laptop that slept for a night runs each job once, not many times.
type crons struct {
	c       *cron.Cron
	entries map[string]cron.EntryID
	done    chan struct{} // closed when the last run has ended

	mu    sync.Mutex           // guards ended
	ended map[string]time.Time // when each job last ended, or the crons started
}

func newCrons() *crons {
	return &crons{entries: map[string]cron.EntryID{}, done: make(chan struct{}), ended: map[string]time.Time{}}
}

// Start runs the crons until ctx ends. [App.Wait] waits for the runs in flight.
func (a *App) Start(ctx context.Context) error {
	if err := a.recall(ctx); err != nil {
		return err
	}
	l := cronLog{a.log}
	// Recover goes innermost: in cron v3.0.1 a panic outside it would keep the
	// token of SkipIfStillRunning, and the job would never run again.
	c := cron.New(cron.WithLogger(l), cron.WithChain(cron.SkipIfStillRunning(l), cron.Recover(l)))
	for _, j := range a.jobs() {
		id, err := c.AddFunc(j.schedule, func() { a.runJob(ctx, j) })
		if err != nil {
			return fmt.Errorf("schedule of %s: %w", j.name, err)
		}
		a.crons.entries[j.name] = id
		a.crons.end(j.name, a.now())
	}
	a.crons.c = c
	c.Start()
	var work sync.WaitGroup
	work.Go(func() { a.runReplays(ctx) })
	work.Go(func() { a.takePulse(ctx) })
	go func() {
		<-ctx.Done()
		<-c.Stop().Done()
		work.Wait()
		close(a.crons.done)
	}()
	return nil
}

// Wait returns when the crons have stopped, which they do once the context of
// [App.Start] has ended and the runs in flight are over.
func (a *App) Wait() { <-a.crons.done }

// runJob runs a job within its time, and records how it went. A quiet run of
// settle is not recorded, for it would push the others out of sight.
func (a *App) runJob(ctx context.Context, j job) {
	start := a.now()
	run, cancel := context.WithTimeoutCause(ctx, j.timeout, fmt.Errorf("%s took over %s", j.name, j.timeout))
	defer cancel()
	note, err := j.run(run)
	if err != nil && ctx.Err() != nil {
		return // the node stops
	}
	if cause := context.Cause(run); err != nil && cause != nil {
		err = cause
	}
	end := a.now()
	a.crons.end(j.name, end)
	a.takePulse(ctx)
	a.metrics.ran(j.name, start, end, err)
	if err != nil {
		a.log.WarnContext(ctx, "job failed", "job", j.name, "err", err)
	} else if note == "" {
		return
	}
	row := store.CronRun{Job: j.name, Start: uint64(start.UnixMilli()), End: uint64(end.UnixMilli()), Note: note}
	if err != nil {
		row.Error = err.Error()
	}
	if err := a.store.Update(ctx, func(tx *store.Tx) error { return tx.AddCronRun(ctx, row) }); err != nil {
		a.log.WarnContext(ctx, "job not recorded", "job", j.name, "err", err)
	}
}

// next returns when a job runs next, 0 while the crons do not run.
func (c *crons) next(name string) uint64 {
	if c.c == nil {
		return 0
	}
	t := c.c.Entry(c.entries[name]).Next
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMilli())
}

func (c *crons) end(name string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended[name] = at
}

// stalled returns how long a job has not ended, where that is over staleRuns of
// its intervals and its timeout; else 0. A machine that just woke up is not
// stalled before its crons had their turn.
func (c *crons) stalled(name string, now time.Time) time.Duration {
	if c.c == nil {
		return 0
	}
	e := c.c.Entry(c.entries[name])
	interval := e.Schedule.Next(e.Next).Sub(e.Next)
	c.mu.Lock()
	defer c.mu.Unlock()
	if late := now.Sub(c.ended[name]); late > staleRuns*interval+5*time.Minute {
		return late
	}
	return 0
}

// cronLog hands cron's own messages to slog; its routine ones are for debugging.
type cronLog struct{ log *slog.Logger }

func (l cronLog) Info(msg string, kv ...any) { l.log.Debug("cron "+msg, kv...) }

func (l cronLog) Error(err error, msg string, kv ...any) {
	l.log.Error("cron "+msg, append(kv, "err", err)...)
}
