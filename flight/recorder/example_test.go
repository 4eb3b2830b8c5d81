package recorder_test

import (
	"context"
	"fmt"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"time"

	"karatum/flight"
	"karatum/flight/recorder"
	"karatum/flight/recorder/internal/testnode"
)

// exampleNode starts a node, in place of a real one at http://127.0.0.1:8080.
func exampleNode() (url string, stop func()) {
	node, err := testnode.New()
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewServer(node)
	return srv.URL, srv.Close
}

func exampleJournal() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

func exampleKey() *flight.Key {
	key, err := flight.NewKey()
	if err != nil {
		log.Fatal(err)
	}
	return key
}

// An agent records what it does and delivers it.
func Example() {
	nodeURL, stop := exampleNode()
	defer stop()
	dir, remove := exampleJournal()
	defer remove()
	ctx := context.Background()

	rec, err := recorder.Open(ctx, recorder.Options{
		Journal:         dir,
		Signer:          recorder.Local(exampleKey()),
		NodeURL:         nodeURL,
		RetainPlaintext: true, // so that steps can be opened later
		OnError:         func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	// Errors of Record went to OnError: the agent need not look at them.
	_, _ = rec.Record(ctx, recorder.Step{
		Kind: "tool", Name: "search",
		Args:   map[string]any{"query": "unpaid invoices"},
		Result: []any{"INV-7", "INV-9"},
	})
	// Close delivers what waits; without it a step waits for others up to two minutes.
	if err := rec.Close(ctx); err != nil {
		log.Print(err)
	}
	st := rec.Status()
	fmt.Println(st.Steps, "step,", st.Waiting, "waiting")
	// Output: 1 step, 0 waiting
}

// Opening one field of one step, for anyone to check offline.
func ExampleRecorder_Disclose() {
	nodeURL, stop := exampleNode()
	defer stop()
	dir, remove := exampleJournal()
	defer remove()
	ctx := context.Background()
	rec, err := recorder.Open(ctx, recorder.Options{
		Journal: dir, Signer: recorder.Local(exampleKey()), NodeURL: nodeURL, RetainPlaintext: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close(ctx)

	ref, err := rec.Record(ctx, recorder.Step{
		Kind: "tx", Name: "pay", Args: "the private reason of the payment",
		Claim:   &flight.Claim{Kind: flight.ClaimNative, To: flight.Address{19: 1}, Amount: big.NewInt(25)},
		ChainID: 31337, TxHash: flight.Hash{31: 7},
		At: time.UnixMilli(1_700_000_000_000),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := rec.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	d, err := rec.Disclose(ref.Stream, ref.Seq, "claim") // and not args
	if err != nil {
		log.Fatal(err)
	}
	report := d.Verify() // what any stranger can run
	fmt.Println(report.Err(), report.Claim.Kind, report.Claim.Amount, "wei")
	// Output: <nil> native.transfer 25 wei
}

// Reading a journal while, or after, a recorder wrote it.
func ExampleOpenReader() {
	dir, remove := exampleJournal()
	defer remove()
	ctx := context.Background()
	rec, err := recorder.Open(ctx, recorder.Options{Journal: dir, Signer: recorder.Local(exampleKey()), Stream: "night-shift"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := rec.Record(ctx, recorder.Step{Kind: "note"}); err != nil {
		log.Fatal(err)
	}
	if err := rec.Close(ctx); err != nil {
		log.Fatal(err)
	}
	r, err := recorder.OpenReader(dir)
	if err != nil {
		log.Fatal(err)
	}
	name := r.Streams()[0]
	fmt.Println(name[:len("night-shift-")] + "********")
	rep, err := recorder.Check(dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rep.Steps, "step,", len(rep.Problems), "problems")
	// Output:
	// night-shift-********
	// 1 step, 0 problems
}
