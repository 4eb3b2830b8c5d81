package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"karatum/app/load"
	"karatum/flight"
	"karatum/flight/merkle"
)

const (
	fighters = 64
	walBound = 64 << 20
)

// outcome counts the answers of the fight.
type outcome struct{ stored, repeated, caught, reads atomic.Int64 }

// decided reports that the fight had every outcome.
func (o *outcome) decided() bool {
	return o.stored.Load() > 0 && o.caught.Load() > 0 && o.repeated.Load() > 0
}

// TestManyWritersOnOneStream has 64 writers send the batches of one stream, half
// of them from a forked history, while readers page through what is there and one
// reader takes nothing of its answer. One history may come out, and the log must
// stay bounded.
func TestManyWritersOnOneStream(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	node := start(t, dir, nil, unlimited...)
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	stall(t, node)
	ctx, cancel := context.WithTimeout(t.Context(), fightFor)
	defer cancel()
	var sum outcome
	var wg sync.WaitGroup
	for w := range fighters {
		wg.Go(func() { fight(ctx, t, node, key, w%2 == 1, &sum) })
	}
	for range 4 {
		wg.Go(func() { explore(ctx, t, node, key.Address(), &sum) })
	}
	wg.Go(func() { watchLog(ctx, t, dir) })
	wg.Wait()
	t.Logf("%d stored, %d repeated, %d caught, %d reads", sum.stored.Load(), sum.repeated.Load(), sum.caught.Load(), sum.reads.Load())
	if !sum.decided() {
		t.Error("the fight did not have every outcome; it shows nothing")
	}
	oneHistory(t, node, key.Address(), uint64(sum.stored.Load()))
	audit(t, dir)
	stop(t, node)
}

// history is one of two that a key could tell: they part at batch 3.
func history(key *flight.Key, forked bool, i uint64) flight.Batch {
	head := func(i uint64) flight.Hash {
		if forked && i >= 3 {
			return flight.Keccak256([]byte(fmt.Sprintf("forked %d", i)))
		}
		return flight.Keccak256([]byte(fmt.Sprintf("honest %d", i)))
	}
	h := flight.Header{Agent: key.Address(), Stream: "fight", Index: i, FromSeq: i, ToSeq: i, Head: head(i), Root: merkle.Leaf(head(i)), CreatedAt: 1_760_000_000}
	if i > 0 {
		h.PrevHead = head(i - 1)
	}
	return h.Sign(key, flight.EIP712)
}

// fight sends a history from its beginning until the time is up, and on a slow
// machine until the fight is decided.
func fight(ctx context.Context, t *testing.T, node *load.Child, key *flight.Key, forked bool, sum *outcome) {
	for i := uint64(0); ctx.Err() == nil || !sum.decided() && !t.Failed(); i++ {
		body, err := json.Marshal(history(key, forked, i))
		if err != nil {
			t.Error(err)
			return
		}
		// What was sent gets its answer, also past the end: a batch whose answer
		// nobody heard would not be counted.
		status, answer, err := node.Post(t.Context(), "/v1/flight/batches", body, "")
		if err != nil {
			t.Errorf("batch %d: %v", i, err)
			return
		}
		switch status {
		case http.StatusCreated:
			sum.stored.Add(1)
		case http.StatusOK:
			sum.repeated.Add(1)
		case http.StatusConflict:
			sum.caught.Add(1)
			if err := checkEvidence(answer, key.Address()); err != nil {
				t.Errorf("batch %d: %v: %s", i, err, answer)
				return
			}
			// The other history has won: begin again. Going on would skip the batch
			// that was refused, and behind a gap the two histories do not conflict.
			i = 0
		default:
			t.Errorf("batch %d: %d %s", i, status, answer)
			return
		}
	}
}

func checkEvidence(answer []byte, agent flight.Address) error {
	var body struct {
		Error struct {
			Code    string
			Details struct{ Evidence json.RawMessage }
		}
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return err
	}
	e, err := flight.ParseEvidence(body.Error.Details.Evidence)
	if err != nil {
		return err
	}
	if e.Agent() != agent || body.Error.Code != "EQUIVOCATION" {
		return fmt.Errorf("%s against %s", body.Error.Code, e.Agent())
	}
	return e.Verify()
}

// explore reads what a person with a browser would.
func explore(ctx context.Context, t *testing.T, node *load.Child, agent flight.Address, sum *outcome) {
	for ctx.Err() == nil {
		for _, path := range []string{"/", "/agents/" + agent.String(), "/v1/flight/agents/" + agent.String() + "/streams/fight/batches?limit=200", "/conflicts", "/v1/status"} {
			status, err := node.Get(ctx, path, nil)
			if ctx.Err() != nil {
				return
			}
			if err != nil || status >= 500 && status != http.StatusServiceUnavailable {
				t.Errorf("GET %s: %d %v", path, status, err)
				return
			}
			sum.reads.Add(1)
		}
	}
}

// stall opens a connection that asks for a long list and never reads the answer.
func stall(t *testing.T, node *load.Child) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(node.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	w := bufio.NewWriter(conn)
	for range 200 {
		fmt.Fprintf(w, "GET /v1/flight/equivocations?limit=200 HTTP/1.1\r\nHost: %s\r\n\r\n", strings.TrimPrefix(node.URL, "http://"))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// watchLog looks at the write-ahead log's size all the time.
func watchLog(ctx context.Context, t *testing.T, dir string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	most := int64(0)
	for {
		if info, err := os.Stat(filepath.Join(dir, "karatum.db-wal")); err == nil {
			most = max(most, info.Size())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Logf("the write-ahead log took at most %.1f MB", float64(most)/(1<<20))
			if most > walBound {
				t.Errorf("the write-ahead log grew to %d bytes, want at most %d", most, walBound)
			}
			return
		}
	}
}

// oneHistory pages through the stream, newest first: indexes down to 0 without a
// gap, each batch followed by the one that was listed before it.
func oneHistory(t *testing.T, node *load.Child, agent flight.Address, stored uint64) {
	t.Helper()
	var later *flight.Header
	count, cursor := uint64(0), ""
	for {
		var page struct {
			Items []struct{ Header flight.Header }
			Next  string
		}
		status, err := node.Get(t.Context(), "/v1/flight/agents/"+agent.String()+"/streams/fight/batches?limit=200&cursor="+cursor, &page)
		if err != nil || status != http.StatusOK {
			t.Fatalf("list: %d %v", status, err)
		}
		for i := range page.Items {
			h := &page.Items[i].Header
			if count++; h.Index != stored-count || later != nil && later.PrevHead != h.Head {
				t.Fatalf("number %d of the list, of %d stored, is %+v before %+v", count, stored, h, later)
			}
			later = h
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if count != stored {
		t.Errorf("the stream has %d batches, %d were acknowledged as new", count, stored)
	}
}
