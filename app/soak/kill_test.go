package soak

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"karatum/app/load"
	"karatum/flight"
)

// An acked batch is one whose receipt somebody holds.
type acked struct {
	mu       sync.Mutex // guards receipts
	receipts []flight.Receipt
	more     chan struct{} // of one place, filled with each receipt
}

func (a *acked) add(r flight.Receipt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.receipts = append(a.receipts, r)
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// next waits for a receipt from now on, or for the writers' end.
func (a *acked) next(ended <-chan struct{}) {
	select {
	case <-a.more: // of before
	default:
	}
	select {
	case <-a.more:
	case <-ended:
	}
}

// TestKilledUnderLoad kills the node at random moments while it takes batches in,
// and anchors some of them. Whatever it had acknowledged must be there afterwards,
// as acknowledged, and the file must be whole.
func TestKilledUnderLoad(t *testing.T) {
	const writers = 8
	dir := filepath.Join(t.TempDir(), "data")
	all := acked{more: make(chan struct{}, 1)}
	streams := make([]*load.Stream, writers)
	pending := make([][]byte, writers) // sent, and not answered before the kill
	for i := range streams {
		key, err := flight.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		streams[i] = load.NewStream(key, "killed", uint64(time.Now().Unix()))
	}
	for round := range killRounds {
		node := start(t, dir, nil, unlimited...)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() { pending[i] = writeUntil(ctx, t, node, streams[i], pending[i], &all) })
		}
		if round%3 == 1 {
			wg.Go(func() {
				// It may be cut off by the kill: that is the point.
				_, _, _ = node.Post(ctx, "/v1/admin/anchor", []byte("{}"), token(t, dir))
			})
		}
		ended := make(chan struct{})
		go func() { wg.Wait(); close(ended) }()
		all.next(ended)
		time.Sleep(rand.N(400 * time.Millisecond)) // the moment of the kill
		node.Kill()
		cancel()
		<-ended
	}
	node := start(t, dir, nil, unlimited...)
	t.Logf("%d kills, %d batches acknowledged, ready again in %d ms", killRounds, len(all.receipts), node.Ready.Milliseconds())
	if len(all.receipts) == 0 {
		t.Fatal("no batch was acknowledged before a kill; the test shows nothing")
	}
	for i := range all.receipts {
		checkKept(t, node, &all.receipts[i])
	}
	status, body, err := node.Post(t.Context(), "/v1/admin/anchor", []byte("{}"), token(t, dir))
	if err != nil || status != http.StatusOK {
		t.Errorf("anchoring after all the kills: %d %s, %v", status, body, err)
	}
	audit(t, dir)
	stop(t, node)
}

// writeUntil posts batches of one stream until the node is gone. It begins with
// the one that the last kill left unanswered, as a recorder does, and returns the
// next such.
func writeUntil(ctx context.Context, t *testing.T, node *load.Child, s *load.Stream, body []byte, all *acked) []byte {
	for {
		if body == nil {
			var err error
			if body, err = json.Marshal(s.Sign()); err != nil {
				t.Error(err)
				return nil
			}
		}
		status, answer, err := node.Post(ctx, "/v1/flight/batches", body, "")
		if err != nil || ctx.Err() != nil {
			return body
		}
		if status == http.StatusServiceUnavailable {
			return body // it was stopping
		}
		var r flight.Receipt
		if status != http.StatusCreated && status != http.StatusOK || json.Unmarshal(answer, &r) != nil {
			t.Errorf("post: %d %s", status, answer)
			return nil
		}
		if err := r.Verify(); err != nil {
			t.Errorf("receipt: %v", err)
		}
		all.add(r)
		body = nil
	}
}

func checkKept(t *testing.T, node *load.Child, want *flight.Receipt) {
	t.Helper()
	var got struct {
		BatchID flight.Hash    `json:"batchId"`
		Receipt flight.Receipt `json:"receipt"`
	}
	status, err := node.Get(t.Context(), "/v1/flight/batches/"+want.BatchID.String(), &got)
	if err != nil || status != http.StatusOK || got.BatchID != want.BatchID {
		t.Errorf("acknowledged batch %s: %d %v", want.BatchID, status, err)
		return
	}
	if got.Receipt.Text() != want.Text() {
		t.Errorf("receipt of %s changed:\n%s\nwas\n%s", want.BatchID, got.Receipt.Text(), want.Text())
	}
}
