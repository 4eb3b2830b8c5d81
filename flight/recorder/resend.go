package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"karatum/flight"
)

// A ResendReport counts what [Resend] did.
type ResendReport struct {
	Batches   int           // signed batches in the journal
	Receipted int           // the node has these now
	Refused   []flight.Hash // the node holds another history in their place
}

// Resend posts every signed batch of the journal in dir to the node at nodeURL, oldest
// first and with the bytes that were signed, so that a node which lost them, or
// another node, has them. A node answers a batch that it has with its receipt again,
// so nothing happens twice. It reads without the journal's lock, signs nothing and
// writes nothing. Where the node asks for patience ([NodeError.RetryAfter]) it waits;
// wait, if not nil, is told first. A nil client is http.DefaultClient.
//
// The error is fs.ErrNotExist where there is no journal, wraps [ErrDamaged], or is the
// node's first refusal other than EQUIVOCATION; the report says how far it came.
func Resend(ctx context.Context, dir, nodeURL string, client *http.Client, wait func(time.Duration, error)) (*ResendReport, error) {
	n, err := newNode(nodeURL, client)
	if err != nil {
		return nil, err
	}
	rd, err := OpenReader(dir)
	if err != nil {
		return nil, err
	}
	rep := new(ResendReport)
	return rep, rd.src.batches(func(b *signed) error {
		rep.Batches++
		return rep.send(ctx, n, b, wait)
	})
}

// A signed is a batch as it stands in the journal.
type signed struct {
	flight.Batch
	body []byte // as it was sent
}

// batches reads the batches of a segment.
func (s *segment) batches() ([]signed, error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	var all []signed
	_, err = replaySegment(s.path, s.n, data, func(r *record) error {
		if r.kind == "batch" {
			all = append(all, signed{r.batch, r.body})
		}
		return nil
	})
	return all, err
}

// send posts one batch until the answer is definitive.
func (rep *ResendReport) send(ctx context.Context, n *node, b *signed, wait func(time.Duration, error)) error {
	id := b.ID()
	for {
		_, err := n.send(ctx, b.body, id)
		var ne *NodeError
		switch {
		case err == nil:
			rep.Receipted++
			return nil
		case errors.As(err, &ne) && ne.Code == "EQUIVOCATION":
			rep.Refused = append(rep.Refused, id)
			return nil
		case ne == nil || ne.RetryAfter == 0:
			return fmt.Errorf("batch %d of %s: %w", b.Header.Index, b.Header.Stream, err)
		}
		if wait != nil {
			wait(ne.RetryAfter, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(ne.RetryAfter):
		}
	}
}
