package flight_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
	"karatum/flight/recorder"
)

// exampleKey is key 7, which everybody knows; a real one comes from [flight.NewKey].
func exampleKey() *flight.Key {
	k, err := flight.KeyFromBytes(append(make([]byte, 31), 7))
	if err != nil {
		panic(err)
	}
	return k
}

// exampleBatch records one transfer and signs it as the first batch of a stream.
func exampleBatch() (flight.Batch, []flight.Step, flight.Opening, error) {
	k := exampleKey()
	claim := flight.Opening{Field: "claim", Salt: flight.Hash{1}} // 32 random bytes in earnest
	var err error
	claim.Value, err = canon.Parse([]byte(`{"kind":"tx.success"}`), canon.MaxDepth)
	if err != nil {
		return flight.Batch{}, nil, claim, err
	}
	commitment, err := flight.CommitValue(claim.Value, claim.Salt)
	if err != nil {
		return flight.Batch{}, nil, claim, err
	}
	step := flight.Step{Agent: k.Address(), Stream: "main", At: 1760000000000, Kind: "tool", Status: "ok", Claim: &commitment}
	if err := step.Check(); err != nil {
		return flight.Batch{}, nil, claim, err
	}
	root, err := merkle.Root([]flight.Hash{step.Hash()})
	if err != nil {
		return flight.Batch{}, nil, claim, err
	}
	h := flight.Header{Agent: step.Agent, Stream: step.Stream, Head: step.Hash(), Root: root, CreatedAt: 1760000100}
	return h.Sign(k, flight.EIP712), []flight.Step{step}, claim, nil
}

// Record a step, sign its batch and check it as a node would.
func ExampleHeader_Sign() {
	batch, _, _, err := exampleBatch()
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := json.Marshal(batch)
	if err != nil {
		fmt.Println(err)
		return
	}
	received, err := flight.ParseBatch(body)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("signed by", received.Header.Agent, "valid:", received.Verify() == nil)

	received.Header.CreatedAt++
	fmt.Println("valid after a change:", received.Verify() == nil)
	// Output:
	// signed by 0xd41c057fd1c78805aac12b0a94a405c0461a6fbb valid: true
	// valid after a change: false
}

// Open the claim of a step and let a stranger check it offline.
func ExampleDisclosure_Verify() {
	batch, steps, claim, err := exampleBatch()
	if err != nil {
		fmt.Println(err)
		return
	}
	opened, err := flight.NewDisclosure(batch, steps, 0, claim)
	if err != nil {
		fmt.Println(err)
		return
	}
	document, err := json.Marshal(opened)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The stranger has the document and nothing else.
	d, err := flight.ParseDisclosure(document)
	if err != nil {
		fmt.Println(err)
		return
	}
	report := d.Verify()
	fmt.Println("claim:", report.Claim.Kind, "refused:", report.Err())

	d.Reveal[0].Value = canon.Str("something else")
	fmt.Println("first failing check:", d.Verify().Err().(*flight.CheckError).Code)
	// Output:
	// claim: tx.success refused: <nil>
	// first failing check: COMMITMENT
}

// Recording takes a few lines; the steps wait in the journal until a node is named.
func Example_record() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	rec, err := recorder.Open(ctx, recorder.Options{Journal: dir, Signer: recorder.Local(exampleKey()), RetainPlaintext: true})
	if err != nil {
		log.Fatal(err)
	}
	ref, err := rec.Record(ctx, recorder.Step{Kind: "tool", Name: "read_invoice", Args: map[string]any{"id": "2041"}, Result: "25.00 due"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("step", ref.Seq, "waits:", rec.Status().Waiting == 1)
	// Output: step 0 waits: true
}
