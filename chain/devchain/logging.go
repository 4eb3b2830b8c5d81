package devchain

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	gethlog "github.com/ethereum/go-ethereum/log"
)

// gethHandler takes the log records of go-ethereum, which are process-wide.
//
// Records go to the application's logger, one step quieter: go-ethereum warns
// about much that is normal on a dev chain.
//
// A record of level Crit is the last thing go-ethereum does before it exits the
// process, mostly because a database write failed. The handler announces it and
// does not return: the goroutine that meant to exit is parked for good, with
// the locks it holds. The chain is dead then, the rest of the process is not.
type gethHandler struct {
	out  slog.Handler
	dead *fuse
}

// A fuse blows once and says why.
type fuse struct {
	once   sync.Once
	blown  chan struct{} // closed after reason is set
	reason string
}

func newFuse() *fuse { return &fuse{blown: make(chan struct{})} }

func (f *fuse) blow(reason string) {
	f.once.Do(func() {
		f.reason = reason
		close(f.blown)
	})
}

// err is nil while the fuse is whole.
func (f *fuse) err() error {
	select {
	case <-f.blown:
		return fmt.Errorf("%w: %s", ErrDead, f.reason)
	default:
		return nil
	}
}

func (h *gethHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= gethlog.LevelCrit || level >= slog.LevelWarn && h.out.Enabled(ctx, quieter(level))
}

func (h *gethHandler) Handle(ctx context.Context, r slog.Record) error {
	q := slog.NewRecord(r.Time, quieter(r.Level), "devchain: "+r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		q.AddAttrs(a)
		return true
	})
	if r.Level < gethlog.LevelCrit {
		return h.out.Handle(ctx, q)
	}
	reason := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" || a.Key == "error" {
			reason += ": " + a.Value.String()
		}
		return true
	})
	h.dead.blow(reason)
	// The log's sink may be on the same full disk; it cannot stop us any more.
	_ = h.out.Handle(ctx, q)
	select {}
}

func (h *gethHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &gethHandler{h.out.WithAttrs(attrs), h.dead}
}

func (h *gethHandler) WithGroup(name string) slog.Handler {
	return &gethHandler{h.out.WithGroup(name), h.dead}
}

func quieter(level slog.Level) slog.Level {
	switch {
	case level >= gethlog.LevelCrit:
		return slog.LevelError
	case level >= slog.LevelError:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// embedded keeps go-ethereum from recognising its own logger type, whose
// SetDefault would take over the application's default slog logger too.
type embedded struct{ gethlog.Logger }

// captureLog sends go-ethereum's log to l until the next call.
func captureLog(l *slog.Logger, dead *fuse) gethlog.Logger {
	out := embedded{gethlog.NewLogger(&gethHandler{l.Handler(), dead})}
	gethlog.SetDefault(out)
	return out
}
