package recorder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"karatum/flight"
)

// A Signer holds the agent's key: in this process, in an encrypted file or in a
// wallet (see the signer package).
type Signer interface {
	Address() flight.Address
	// Sign signs the header under the scheme. It is called only when the header is
	// about to be sent. The recorder checks the signature.
	Sign(ctx context.Context, h flight.Header, s flight.Scheme) (flight.Signature, error)
}

// Local returns a signer over a key in memory.
func Local(k *flight.Key) Signer { return localSigner{k} }

type localSigner struct{ key *flight.Key }

func (l localSigner) Address() flight.Address { return l.key.Address() }

func (l localSigner) Sign(_ context.Context, h flight.Header, s flight.Scheme) (flight.Signature, error) {
	return l.key.Sign(h.Digest(s)), nil
}

// Options configure [Open]. Journal and Signer are required.
type Options struct {
	Journal string // directory, created where it does not exist
	Signer  Signer
	// NodeURL is the node to deliver to, such as http://127.0.0.1:8080. Without one
	// the steps wait in the journal.
	NodeURL string
	// NodeAddress is the address of the key that must sign the node's receipts. Where
	// it is zero, the last receipt in the journal says it, and the first one is
	// trusted. Naming another address here is how an owner follows a node to a new
	// key; a receipt by any other key is a [*ReceiptKeyError] and does not count.
	NodeAddress flight.Address
	// Stream begins the stream's name, which is drawn as NAME-<8 random hex> when the
	// journal is created. Defaults to "main".
	Stream string
	// Interval is how long a step waits for others before it is sent. Defaults to
	// 120 s.
	Interval time.Duration
	// Scheme defaults to flight.EIP712.
	Scheme flight.Scheme
	// OnError hears of everything that goes wrong and of every change of stream. It
	// may be called from several goroutines and must not block.
	OnError func(error)
	// Fsync defaults to FsyncInterval.
	Fsync Fsync
	// RetainPlaintext keeps values and salts in the journal, so that steps can be
	// opened later. Without it only the commitments are kept and nothing can ever be
	// opened.
	RetainPlaintext bool
	HTTPClient      *http.Client     // defaults to one of its own
	Clock           func() time.Time // stamps steps and batches; defaults to time.Now
	SegmentBytes    int64            // see JournalOptions
}

// A Recorder records one agent's steps. Its methods may be called from any
// goroutine.
type Recorder struct {
	opt     Options
	journal *FileJournal
	node    *node // nil without NodeURL
	salts   *salts
	sender
	closing sync.Once
}

// Open opens or creates the journal and starts the sender. ctx bounds the opening
// only; [Recorder.Close] ends the recorder. What was repaired goes to OnError.
func Open(ctx context.Context, opt Options) (*Recorder, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if opt.Journal == "" || opt.Signer == nil {
		return nil, errors.New("recorder: Options need Journal and Signer")
	}
	if opt.Interval <= 0 {
		opt.Interval = 120 * time.Second
	}
	if opt.Scheme == "" {
		opt.Scheme = flight.EIP712
	}
	if opt.Scheme != flight.EIP712 && opt.Scheme != flight.EIP191 {
		return nil, fmt.Errorf("recorder: scheme is %q; it is eip712 or eip191", opt.Scheme)
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	r := &Recorder{opt: opt, salts: newSalts()}
	var err error
	if opt.NodeURL != "" {
		if r.node, err = newNode(opt.NodeURL, opt.HTTPClient); err != nil {
			return nil, err
		}
	}
	r.journal, err = OpenJournal(opt.Journal, JournalOptions{
		Agent: opt.Signer.Address(), Name: opt.Stream, Fsync: opt.Fsync, SegmentBytes: opt.SegmentBytes,
	})
	if err != nil {
		return nil, err
	}
	for _, repair := range r.journal.Repairs() {
		r.report(repair)
	}
	r.start()
	return r, nil
}

// Record commits to the step's values, chains it and appends it to the journal. It
// waits for the disk, never for the network. An error means that the step is not
// in the record; OnError has heard of it, so an agent may ignore it. A cancelled
// ctx keeps no step out: what was done was done.
func (r *Recorder) Record(_ context.Context, s Step) (Ref, error) {
	ref, err := r.record(&s)
	if err != nil {
		r.report(err)
	}
	return ref, err
}

func (r *Recorder) record(s *Step) (Ref, error) {
	rec, open, err := s.commit(r.salts, r.opt.Clock())
	if err != nil {
		return Ref{}, err
	}
	if !r.opt.RetainPlaintext {
		open = nil
	}
	hash, err := r.journal.record(&rec, open)
	if hash.IsZero() {
		return Ref{}, err
	}
	r.wake()
	return Ref{Stream: rec.Stream, Seq: rec.Seq, Hash: hash}, err
}

// report hands an error to OnError. A handler that panics does not take the agent
// down.
func (r *Recorder) report(err error) {
	if r.opt.OnError == nil {
		return
	}
	defer func() { _ = recover() }()
	r.opt.OnError(err)
}

// Agent returns the address that signs.
func (r *Recorder) Agent() flight.Address { return r.opt.Signer.Address() }

// A Status says how far a recorder is.
type Status struct {
	Stream  string
	Steps   uint64 // in the stream
	Waiting uint64 // of them in no signed batch
	Batches uint64 // signed, the one in flight included
	// Inflight is set while a signed batch has no definitive answer.
	Inflight bool
	// Node is the address whose receipts count; zero before the first receipt where
	// Options.NodeAddress does not say it.
	Node flight.Address
}

// Status returns how far the recorder is.
func (r *Recorder) Status() Status {
	c := r.journal.state()
	return Status{Stream: c.Stream, Steps: c.Seq, Waiting: c.Seq - c.From, Batches: c.Index, Inflight: c.Inflight != nil, Node: r.pinned(&c)}
}

// pinned returns the address whose receipts count, or zero where any would.
func (r *Recorder) pinned(c *cursor) flight.Address {
	if r.opt.NodeAddress != (flight.Address{}) {
		return r.opt.NodeAddress
	}
	return c.Node
}

// Flush sends what waits and returns once the node has acknowledged every step
// recorded before the call, or with the error of the first attempt that fails. The
// sender goes on trying. Where the node asked to be left alone for a while
// (Retry-After), Flush returns that error at once.
func (r *Recorder) Flush(ctx context.Context) error {
	if r.node == nil {
		return ErrNoNode
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	reply := make(chan error, 1)
	select {
	case r.flushes <- reply:
	case <-r.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close makes one more attempt to deliver, for as long as ctx allows, and closes
// the journal. Steps that could not be delivered wait there for the next Open; the
// error says so. Later calls return nil.
func (r *Recorder) Close(ctx context.Context) (err error) {
	r.closing.Do(func() {
		if r.node != nil {
			err = r.Flush(ctx)
		}
		r.stop()
		err = errors.Join(err, r.journal.Close())
	})
	return err
}

// Disclose opens the named fields of one of this recorder's steps; see
// [Reader.Disclose].
func (r *Recorder) Disclose(stream string, seq uint64, fields ...string) (*flight.Disclosure, error) {
	rd, err := OpenReader(r.opt.Journal)
	if err != nil {
		return nil, err
	}
	return rd.Disclose(stream, seq, fields...)
}
