package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"karatum/chain"
	"karatum/chain/eas"
	"karatum/store"
)

// Limits of the health report.
const (
	lookEvery  = 5 * time.Second // a chain is asked at most this often
	lookWait   = 3 * time.Second
	staleRuns  = 3        // intervals without a good run before a job counts as stalled
	diskLow    = 64 << 20 // bytes
	shownRuns  = 20
	jobAnchor  = "anchor"
	jobRecheck = "recheck"

	minuteMs     = 60_000
	hourMinutes  = 60
	dayMs        = 24 * 60 * minuteMs
	dayCountRest = 1000 // ms
)

// A dayCount remembers the verdicts of the day for a moment: counting them reads an
// entry of an index for each.
type dayCount struct {
	mu   sync.Mutex // guards the rest; held while they are counted, so one does
	at   uint64     // unix ms, 0 before the first
	view VerdictsView
}

// count returns what was counted within dayCountRest.
func (d *dayCount) count(ctx context.Context, tx *store.ReadTx, now uint64) (VerdictsView, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	midnight := now - now%dayMs
	if d.at >= midnight && d.at > 0 && now >= d.at && now-d.at < dayCountRest {
		return d.view, nil
	}
	v, err := tx.VerdictsBetween(ctx, midnight, now)
	if err != nil {
		return VerdictsView{}, err
	}
	d.at, d.view = now, VerdictsView(v)
	return d.view, nil
}

// An hourCount remembers where each of the last minutes begins among the batches. A
// minute that has begun begins there for ever, so that each is looked for once.
type hourCount struct {
	mu     sync.Mutex // guards the rest; held while they are looked for, so one does
	minute uint64     // the running one, since 1970
	first  [hourMinutes]uint64
}

// count returns how many batches were stored in each of the last minutes, the oldest
// first and the running one last, of so many in all.
func (h *hourCount) count(ctx context.Context, tx *store.ReadTx, now, batches uint64) ([]uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, minute := h.first, now/minuteMs
	known := 0 // minutes at the start of first that are known
	if passed := minute - h.minute; h.minute > 0 && minute >= h.minute && passed < hourMinutes {
		known = copy(first[:], h.first[passed:])
	}
	below := batches + 1
	for i := hourMinutes - 1; i >= known; i-- {
		var err error
		if first[i], err = tx.FirstBatchSince(ctx, (minute-min(minute, uint64(hourMinutes-1-i)))*minuteMs, below); err != nil {
			return nil, err
		}
		below = first[i]
	}
	h.first, h.minute = first, minute
	counts := make([]uint64, hourMinutes)
	end := batches + 1
	for i, at := range slices.Backward(first[:]) {
		at = min(at, end) // of a reader that sees fewer batches than another did
		counts[i], end = end-at, at
	}
	return counts, nil
}

// A sight is what was last seen of a chain.
type sight struct {
	mu   sync.Mutex // guards the rest; held while the chain is asked, so one asks
	at   time.Time
	view ChainView
}

// ChainNames labels a chain for people.
func chainName(id uint64) string {
	if n, err := eas.NetworkByChainID(id); err == nil {
		return n.Name
	}
	return fmt.Sprintf("chain %d", id)
}

// look returns what is known of a chain, asking it when that is older than
// lookEvery.
func (a *App) look(ctx context.Context, id uint64) ChainView {
	s := a.sights[id]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && a.now().Sub(s.at) < lookEvery {
		return s.view
	}
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	start := time.Now()
	head, err := a.chains[id].BlockNumber(ctx)
	v := ChainView{ChainID: id, Name: chainName(id), RPC: a.rpcName(id), Head: head, LatencyMs: uint64(time.Since(start).Milliseconds())}
	if err != nil {
		v.Head, v.Error = s.view.Head, plain(err)
	}
	s.at, s.view = a.now(), v
	return v
}

// rpcName says where a chain is read from, without credentials.
func (a *App) rpcName(id uint64) string {
	if id == a.anchor.Network.ChainID {
		if len(a.cfg.RPCURL) == 0 {
			return "embedded"
		}
		return redactAll(a.cfg.RPCURL)
	}
	urls, err := a.cfg.Chains()
	if err != nil { // Validate has refused it
		return ""
	}
	return redactAll(urls[id])
}

// plain puts the class of a chain's failure in plain words.
func plain(err error) string {
	for _, c := range []struct {
		is  error
		say string
	}{
		{chain.ErrRateLimited, "the node limits our calls; they go on more slowly"},
		{chain.ErrTimeout, "the node did not answer in time"},
		{chain.ErrIndexing, "the node is still indexing; it will answer soon"},
		{chain.ErrPruned, "the node has pruned this history; configure an archive node"},
		{chain.ErrMalformed, "the node's answer was not JSON-RPC; is the URL right?"},
		{chain.ErrUnavailable, "the node cannot be reached"},
		{context.DeadlineExceeded, "the node did not answer in time"},
	} {
		if errors.Is(err, c.is) {
			return c.say
		}
	}
	return err.Error()
}

// Status returns the health of the node, without secrets.
func (a *App) Status(ctx context.Context) (StatusView, error) {
	st := a.store.Stats()
	v := StatusView{
		Version: a.version, Network: a.anchor.Network.Name, Node: a.keys.Receipt.Address(), Attester: a.keys.Anchor.Address(),
		StartedAt: uint64(a.started.UnixMilli()), NextAnchor: a.crons.next(jobAnchor),
		DatabaseBytes: uint64(st.FileBytes), WALBytes: uint64(st.WALBytes), DiskFreeBytes: diskFree(a.store.Path()), Problems: []string{},
	}
	err := a.view(ctx, nil, func(tx *store.ReadTx) error {
		if err := a.counts(ctx, tx, &v); err != nil {
			return err
		}
		if err := a.replayStatus(ctx, tx, &v); err != nil {
			return err
		}
		return a.cronViews(ctx, tx, &v)
	})
	for id := range a.chains {
		seen := a.look(ctx, id)
		if v.Chains = append(v.Chains, seen); id == a.anchor.Network.ChainID && err == nil {
			a.keepPulse(v.Waiting, seen)
		}
	}
	slices.SortFunc(v.Chains, func(x, y ChainView) int { return cmp.Compare(x.ChainID, y.ChainID) })
	a.problems(&v)
	v.Healthy = len(v.Problems) == 0
	return v, err
}

func (a *App) counts(ctx context.Context, tx *store.ReadTx, v *StatusView) error {
	c, err := tx.Counts(ctx)
	v.Batches, v.Agents, v.Epochs, v.Equivocations, v.OpenedSteps = c.Batches, c.Agents, c.Epochs, c.Evidence, c.Steps
	v.Waiting = c.Batches - c.Anchored
	if err != nil {
		return err
	}
	now := a.nowMs()
	if v.PerMinute, err = tx.BatchesSince(ctx, now-min(now, minuteMs)+1); err != nil {
		return err
	}
	if v.LastHour, err = a.lastHour.count(ctx, tx, now, c.Batches); err != nil {
		return err
	}
	v.Today, err = a.today.count(ctx, tx, now)
	return err
}

func (a *App) cronViews(ctx context.Context, tx *store.ReadTx, v *StatusView) error {
	for _, j := range a.jobs() {
		runs, err := tx.CronRuns(ctx, j.name, shownRuns)
		if err != nil {
			return err
		}
		c := CronView{Name: j.name, Schedule: j.schedule, Next: a.crons.next(j.name), Runs: []CronRunView{}}
		for _, r := range runs {
			c.Runs = append(c.Runs, CronRunView{Start: r.Start, End: r.End, Error: r.Error, Note: r.Note})
		}
		v.Crons = append(v.Crons, c)
	}
	return nil
}

// problems says in plain words what is wrong. A process that lives while its
// anchoring stands still is not healthy.
func (a *App) problems(v *StatusView) {
	add := func(format string, args ...any) { v.Problems = append(v.Problems, fmt.Sprintf(format, args...)) }
	for _, c := range v.Chains {
		if c.Error != "" {
			add("%s: %s. Verdicts on it wait; batches are still taken in.", c.Name, c.Error)
		}
	}
	for _, c := range v.Crons {
		if len(c.Runs) > 0 && c.Runs[0].Error != "" {
			add("The last run of %s failed: %s", c.Name, c.Runs[0].Error)
		}
	}
	if late := a.crons.stalled(jobAnchor, a.now()); late > 0 {
		add("Anchoring has not run for %s.", late.Round(time.Second))
	}
	if late := a.crons.stalled(jobRecheck, a.now()); late > 0 {
		add("Open verdicts have not been looked at for %s.", late.Round(time.Second))
	}
	if r := v.Replays.Running; r != nil && time.Duration(r.AgeMs)*time.Millisecond > a.cfg.ReplayTimeout+replayStuck {
		add("A replay has been running for %s.", (time.Duration(r.AgeMs) * time.Millisecond).Round(time.Second))
	}
	if v.DiskFreeBytes < diskLow {
		add("Only %d MB of disk are left; below 8 MB no batch is taken in.", v.DiskFreeBytes>>20)
	}
}

// Ready returns nil when the node can do its work: the database answers, the
// anchoring network answers, and the crons run. The error is NOT_READY.
func (a *App) Ready(ctx context.Context) error {
	notReady := func(what string) error {
		return &Error{Code: "NOT_READY", Status: http.StatusServiceUnavailable, Message: what, RetryAfter: 5 * time.Second}
	}
	if err := a.view(ctx, nil, func(tx *store.ReadTx) error { _, err := tx.Counts(ctx); return err }); err != nil {
		return notReady("the database does not answer")
	}
	if v := a.look(ctx, a.anchor.Network.ChainID); v.Error != "" {
		return notReady(v.Name + ": " + v.Error)
	}
	if a.crons.next(jobAnchor) == 0 {
		return notReady("the crons do not run")
	}
	for _, name := range []string{jobAnchor, jobRecheck} {
		if late := a.crons.stalled(name, a.now()); late > 0 {
			return notReady(fmt.Sprintf("%s has not run for %s", name, late.Round(time.Second)))
		}
	}
	return nil
}

// AttesterBalance returns what the anchoring key can spend, in wei.
func (a *App) AttesterBalance(ctx context.Context) (string, error) {
	b, err := a.anchor.Client.Balance(ctx, common.Address(a.keys.Anchor.Address()), chain.Latest)
	if err != nil {
		return "", err
	}
	return b.String(), nil
}

// diskFree returns the bytes that an unprivileged process may still write beside
// file, 0 where that cannot be told.
func diskFree(file string) uint64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(file, &fs); err != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}
