package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/eth/tracers/logger"

	"karatum/chain/fork"
)

// trace executes the scene and writes the last transaction's trace. Its length
// is bounded, and the first failed write ends it.
func (r *Replayer) trace(ctx context.Context, s scene, st *fork.State, w io.Writer) error {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	out := &bounded{w: w, left: r.o.TraceBytes, stop: cut}
	buf := bufio.NewWriterSize(out, 64<<10)
	s.tracer = logger.NewJSONLogger(&logger.Config{}, buf)
	s.tracer.OnFault = nil // it would write the failing instruction a second time
	_, err := r.execute(ctx, s, st.Reader(ctx))
	if out.err != nil {
		return out.err
	}
	if err != nil {
		return err
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("replay: trace: %w", err)
	}
	return nil
}

// bounded passes on at most left bytes; then, or when a write fails, it stops
// the execution, since nobody would read on.
type bounded struct {
	w    io.Writer
	left int64
	stop func(error)
	err  error
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.err == nil && int64(len(p)) > b.left {
		b.err = fmt.Errorf("%w: the trace is longer than permitted", ErrLimit)
	}
	if b.err == nil {
		b.left -= int64(len(p))
		if _, err := b.w.Write(p); err != nil {
			b.err = fmt.Errorf("replay: trace: %w", err)
		}
	}
	if b.err != nil {
		b.stop(b.err)
		return 0, b.err
	}
	return len(p), nil
}
