package recorder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"karatum/flight"
)

const (
	firstBackoff = time.Second
	lastBackoff  = 5 * time.Minute
)

// sender is the background half of a Recorder. One goroutine owns it.
type sender struct {
	flushes chan chan error
	woken   chan struct{} // a step waits; capacity 1
	done    chan struct{} // closed when the goroutine has ended
	cancel  context.CancelFunc

	// Of the goroutine alone:
	checked  bool          // the node's head was compared with the journal
	backoff  time.Duration // before the next attempt, 0 after a success
	quietTil time.Time     // the node asked not to be called before
	quietErr error         // its answer
}

func (r *Recorder) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.sender = sender{
		flushes: make(chan chan error), woken: make(chan struct{}, 1), done: make(chan struct{}), cancel: cancel,
	}
	if r.node == nil {
		close(r.done)
		return
	}
	go r.run(ctx)
}

// stop ends the sender; a request under way is abandoned, and sent again with the
// same bytes by the next Open.
func (r *Recorder) stop() {
	r.cancel()
	<-r.done
}

// wake tells the sender that a step waits.
func (r *Recorder) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	wait, armed := r.pause(nil)
	if r.journal.state().Inflight != nil {
		wait, armed = 0, true // the last run ended before the answer came
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	if !armed {
		timer.Stop()
	}
	for {
		var reply chan error
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
			if !armed {
				timer.Reset(r.opt.Interval)
				armed = true
			}
			continue
		case reply = <-r.flushes:
		case <-timer.C:
		}
		err := r.attempt(ctx)
		if reply != nil {
			reply <- err
		}
		if wait, armed = r.pause(err); armed {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}

// attempt delivers what waits now, unless the node asked for quiet.
func (r *Recorder) attempt(ctx context.Context) error {
	if left := time.Until(r.quietTil); left > 0 {
		return fmt.Errorf("%w (it asks to wait another %s)", r.quietErr, left.Round(time.Second))
	}
	err := r.deliver(ctx)
	if err == nil {
		r.backoff, r.quietErr = 0, nil
		return nil
	}
	if ctx.Err() != nil {
		return err // Close gave up waiting; nobody's fault
	}
	var ne *NodeError
	if errors.As(err, &ne) && ne.RetryAfter > 0 {
		r.quietTil, r.quietErr = time.Now().Add(ne.RetryAfter), err
	}
	r.backoff = min(max(2*r.backoff, firstBackoff), lastBackoff)
	r.report(err)
	return err
}

// pause returns how long to wait for the next attempt, and whether there is a
// reason for one. After a failure it is the back-off with jitter, or what the node
// asked for plus some jitter, so that many recorders do not return as one.
func (r *Recorder) pause(err error) (time.Duration, bool) {
	if err == nil {
		c := r.journal.state()
		return r.opt.Interval, c.Seq > c.From
	}
	jittered := r.backoff/2 + rand.N(r.backoff/2+1)
	if quiet := time.Until(r.quietTil); quiet > 0 {
		return quiet + rand.N(min(quiet/10, time.Minute)+1), true
	}
	return jittered, true
}

// deliver sends every step that waits when it is called: first the batch in
// flight, whose bytes never change, then new ones, each signed only now.
func (r *Recorder) deliver(ctx context.Context) error {
	target := r.journal.state()
	for {
		c := r.journal.state()
		if c.Inflight != nil {
			if err := r.post(ctx, &c); err != nil {
				return err
			}
			continue
		}
		if c.Stream == target.Stream && c.From >= target.Seq {
			return nil
		}
		if c.Stream != target.Stream {
			target = c
		}
		if !r.checked {
			if err := r.compare(ctx, &c); err != nil {
				return err
			}
			continue
		}
		if err := r.sign(ctx); err != nil {
			return err
		}
	}
}

// sign signs the next batch and journals it. A header that was signed but not yet
// journaled was seen by nobody and may differ the next time.
func (r *Recorder) sign(ctx context.Context) error {
	h, ok, err := r.journal.nextHeader(r.opt.Clock())
	if err != nil || !ok {
		return err
	}
	sig, err := r.opt.Signer.Sign(ctx, h, r.opt.Scheme)
	if err != nil {
		return fmt.Errorf("recorder: sign batch %d: %w", h.Index, err)
	}
	b := flight.Batch{Header: h, Scheme: r.opt.Scheme, Signature: sig}
	if err := b.Verify(); err != nil {
		return fmt.Errorf("%w: %w", ErrSigner, err)
	}
	_, err = r.journal.appendBatch(&b)
	return err
}

// post sends the batch in flight and journals a definitive answer.
func (r *Recorder) post(ctx context.Context, c *cursor) error {
	b, err := flight.ParseBatch(c.Inflight)
	if err != nil {
		return fmt.Errorf("%w: batch in flight: %w", ErrDamaged, err)
	}
	if err := r.journal.secureBatch(&b.Header); err != nil {
		return err
	}
	id := b.ID()
	receipt, err := r.node.send(ctx, c.Inflight, id)
	if err == nil {
		err = r.checkNode(c, receipt)
	}
	if err == nil {
		return r.journal.settle(id, receipt)
	}
	var ne *NodeError
	if !errors.As(err, &ne) || ne.Code != "EQUIVOCATION" {
		return err
	}
	r.report(err)
	if err := r.journal.settle(id, nil); err != nil {
		return err
	}
	if b.Header.Stream != c.Stream {
		return nil // that stream is left already
	}
	return r.leave("the node holds another history of it", b.Header.FromSeq)
}

// checkNode refuses a receipt that is signed by another key than the pinned one:
// whoever can answer in the node's place could otherwise promise what nobody keeps.
func (r *Recorder) checkNode(c *cursor, receipt *flight.Receipt) error {
	want := r.pinned(c)
	if want == receipt.Node || want == (flight.Address{}) {
		return nil
	}
	e := &ReceiptKeyError{URL: r.node.base, Got: receipt.Node, Want: want}
	if r.opt.NodeAddress == (flight.Address{}) {
		e.Journal = r.opt.Journal
	}
	return e
}

// compare asks the node for the head of the stream before anything is signed.
func (r *Recorder) compare(ctx context.Context, c *cursor) error {
	head, err := r.node.head(ctx, c.Agent, c.Stream)
	if err != nil {
		return err
	}
	r.checked = true
	switch {
	case head == nil && c.Index == 0:
		return nil
	case head == nil || head.Index+1 < c.Index && r.delivered(c.Stream, head):
		r.report(fmt.Errorf("%w: stream %s has %d", ErrNodeBehind, c.Stream, c.Index))
		return nil
	case head.Index+1 == c.Index && head.ToSeq+1 == c.From && head.Head == c.PrevHead:
		return nil
	}
	return r.leave(fmt.Sprintf("the node knows batch %d up to step %d, which the journal does not", head.Index, head.ToSeq), c.From)
}

// delivered reports whether the node's head is a batch of the journal.
func (r *Recorder) delivered(stream string, head *nodeHead) bool {
	rd, err := OpenReader(r.opt.Journal)
	if err != nil {
		return false
	}
	b, err := rd.src.batch(stream, head.ToSeq)
	return err == nil && b.ID() == head.BatchID
}

func (r *Recorder) leave(why string, from uint64) error {
	change, err := r.journal.leave(why, from)
	if err != nil {
		return err
	}
	r.checked = false
	r.report(change)
	return nil
}
