package e2e

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// A pen writes a stream of its own agent to a node, one step a batch.
type pen struct {
	t      *testing.T
	to     *node
	key    *flight.Key
	stream string
	args   canon.Value // of every step

	next   uint64 // batch and step
	head   flight.Hash
	sealed flight.Hash // the commitment of the last step's args
}

func newPen(t *testing.T, to *node, stream string) *pen {
	t.Helper()
	key, err := flight.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &pen{t: t, to: to, key: key, stream: stream, args: canon.Str("ink")}
}

// page is the address of the stream's page.
func (p *pen) page() string {
	return p.to.url + "/agents/" + p.key.Address().String() + "/" + url.PathEscape(p.stream)
}

// write delivers the next batch. What it gives back opens the batch's step; all args
// have one commitment.
func (p *pen) write() *flight.Disclosure {
	p.t.Helper()
	opened := flight.Opening{Field: "args", Salt: flight.Keccak256([]byte(p.stream)), Value: p.args}
	args, err := flight.CommitValue(opened.Value, opened.Salt)
	if err != nil {
		p.t.Fatal(err)
	}
	step := flight.Step{Agent: p.key.Address(), Stream: p.stream, Seq: p.next, At: uint64(time.Now().UnixMilli()), Kind: "note", Status: "ok", Name: "dip", Args: &args, Prev: p.head}
	root, err := merkle.Root([]flight.Hash{step.Hash()})
	if err != nil {
		p.t.Fatal(err)
	}
	b := flight.Header{
		Agent: step.Agent, Stream: p.stream, Index: p.next, FromSeq: p.next, ToSeq: p.next,
		PrevHead: p.head, Head: step.Hash(), Root: root, CreatedAt: uint64(time.Now().Unix()),
	}.Sign(p.key, flight.EIP712)
	p.post("/v1/flight/batches", b)
	p.next, p.head, p.sealed = p.next+1, step.Hash(), args
	d, err := flight.NewDisclosure(b, []flight.Step{step}, 0, opened)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// open discloses a step, and shows what is in it.
func (p *pen) open(d *flight.Disclosure) {
	p.t.Helper()
	p.post("/v1/flight/proofs?publishReveals=1", d)
}

func (p *pen) post(path string, body any) {
	p.t.Helper()
	raw, err := json.Marshal(body)
	if err == nil {
		_, err = p.to.call(http.MethodPost, path, raw)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
