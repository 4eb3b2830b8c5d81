package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"karatum/flight"
	"karatum/flight/merkle"
)

// clock is a settable time.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_700_000_000_000)
	return c
}

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func schemaText(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "schema.sql"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nodeKey signs the receipts of all tests.
func nodeKey(t testing.TB) *flight.Key {
	t.Helper()
	k, err := flight.KeyFromBytes(append(make([]byte, 31), 0xa1))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealWith signs a group as the application does.
func sealWith(k *flight.Key) func([]*flight.Receipt) error {
	return func(rs []*flight.Receipt) error {
		if len(rs) == 1 {
			rs[0].Node, rs[0].Signature = k.Address(), k.SignText(rs[0].Text())
			return nil
		}
		items := make([]flight.Hash, len(rs))
		for i, r := range rs {
			items[i] = r.Item()
		}
		root, proofs, err := merkle.Proofs(items)
		if err != nil {
			return err
		}
		sig := k.SignText(flight.GroupText(root, uint64(len(rs))))
		for i, r := range rs {
			r.Node, r.Signature = k.Address(), sig
			r.Group = &flight.ReceiptGroup{Root: root, Size: uint64(len(rs)), Proof: proofs[i]}
		}
		return nil
	}
}

func options(t testing.TB, dir string) Options {
	return Options{Dir: dir, Schema: schemaText(t), Now: newClock().now, Seal: sealWith(nodeKey(t)), MinFree: 1}
}

func openStore(t testing.TB, opt Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

func fresh(t testing.TB) *Store { return openStore(t, options(t, t.TempDir())) }

func testAgent(n int) (a flight.Address) {
	binary.BigEndian.PutUint64(a[:8], uint64(n)*0x9e3779b97f4a7c15)
	a[19] = byte(n)
	return a
}

func testHash(parts ...any) flight.Hash { return flight.Keccak256([]byte(fmt.Sprint(parts...))) }

// testBatch is batch index of a stream whose batches span ten steps each.
func testBatch(agent int, stream string, index uint64) flight.Batch {
	h := flight.Header{Agent: testAgent(agent), Stream: stream, Index: index, FromSeq: index * 10, ToSeq: index*10 + 9,
		Head: testHash(agent, stream, index), Root: testHash("root", agent, stream, index), CreatedAt: 1_700_000_000}
	if index > 0 {
		h.PrevHead = testHash(agent, stream, index-1)
	}
	b := flight.Batch{Header: h, Scheme: flight.EIP712}
	if index%2 == 1 {
		b.Scheme = flight.EIP191
	}
	copy(b.Signature[:], testHash("signature", agent, stream, index).String())
	return b
}

func insert(ctx context.Context, tx *Tx, b flight.Batch) (*flight.Receipt, error) {
	return tx.InsertBatch(ctx, b, b.ID(), tx.Now(), tx.Now()/1000+1200)
}

// put inserts batches, each in an Update of its own.
func put(t testing.TB, s *Store, batches ...flight.Batch) (rs []*flight.Receipt) {
	t.Helper()
	for _, b := range batches {
		update(t, s, func(tx *Tx) error {
			r, err := insert(t.Context(), tx, b)
			rs = append(rs, r)
			return err
		})
	}
	return rs
}

func update(t testing.TB, s *Store, fn func(tx *Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, s *Store, fn func(tx *ReadTx) error) {
	t.Helper()
	if err := s.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// together hands the functions to the writer so that they form one group: a first
// job holds the writer until all others wait.
func together(t testing.TB, s *Store, fns ...func(tx *Tx) error) []error {
	t.Helper()
	errs := make([]error, len(fns))
	hold, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.onWriter(context.Background(), func(*writer) error { close(held); <-hold; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	for i, fn := range fns {
		wg.Go(func() { errs[i] = s.Update(context.Background(), fn) })
		for len(s.jobs) <= i { // in this order
			time.Sleep(10 * time.Microsecond)
		}
	}
	close(hold)
	wg.Wait()
	return errs
}

// nextEpoch puts what waits into an epoch.
func nextEpoch(ctx context.Context, tx *Tx) error {
	waiting, err := tx.Pending(ctx, flight.MaxEpoch)
	if err != nil || len(waiting) == 0 {
		return err
	}
	ids := make([]flight.Hash, len(waiting))
	for i, b := range waiting {
		ids[i] = b.ID
	}
	root, err := flight.EpochRoot(ids)
	if err != nil {
		return err
	}
	_, err = tx.InsertEpoch(ctx, root, waiting[0].Position, waiting[len(waiting)-1].Position, DevChain)
	return err
}

func TestInsertAndRead(t *testing.T) {
	s := fresh(t)
	rs := put(t, s, testBatch(1, "a", 0), testBatch(1, "a", 1), testBatch(2, "b", 0))
	for i, r := range rs {
		if r.Position != uint64(i+1) {
			t.Errorf("position = %d, want %d", r.Position, i+1)
		}
		if err := r.Verify(); err != nil {
			t.Errorf("receipt %d: %v", i, err)
		}
		read(t, s, func(tx *ReadTx) error {
			got, err := tx.Receipt(t.Context(), r.Position)
			if err != nil || got.Text() != r.Text() || got.Verify() != nil {
				t.Errorf("stored receipt = %v, %v; want %v", got, err, r)
			}
			b, err := tx.Batch(t.Context(), r.BatchID)
			if err != nil || b.ID != b.Batch.ID() || b.Position != r.Position {
				t.Errorf("Batch = %+v, %v", b, err)
			}
			return nil
		})
	}
}
