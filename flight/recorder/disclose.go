package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"karatum/flight"
	"karatum/flight/canon"
)

// Explain says in plain sentences what posting the disclosure makes public, for a
// person to read before [PostDisclosure]. publish is whether the node is asked to
// publish the opened values.
func Explain(d *flight.Disclosure, publish bool) string {
	var b strings.Builder
	r := d.Verify()
	s := &r.Step
	fmt.Fprintf(&b, "Step %s/%d of agent %s becomes public: its time, kind %q, name %q, status %q", s.Stream, s.Seq, s.Agent, s.Kind, s.Name, s.Status)
	if s.TxHash != nil && s.ChainID != nil {
		fmt.Fprintf(&b, ", transaction %s on chain %d", s.TxHash, *s.ChainID)
	}
	b.WriteString(".\n")
	for _, o := range d.Reveal {
		value := canon.Append(nil, o.Value)
		switch {
		case o.Field == "claim":
			fmt.Fprintf(&b, "Its claim becomes public and is compared with the chain: %s\n", value)
		case publish:
			fmt.Fprintf(&b, "Its field %s (%d bytes) becomes public for anyone to read.\n", o.Field, len(value))
		default:
			fmt.Fprintf(&b, "Its field %s (%d bytes) is shown to the node, which checks it and does not keep it.\n", o.Field, len(value))
		}
	}
	if closed := hidden(s, d.Reveal); len(closed) > 0 {
		fmt.Fprintf(&b, "Not opened: %s.\n", strings.Join(closed, ", "))
	}
	b.WriteString("This cannot be taken back: whoever receives an opening can publish it again.\n")
	return b.String()
}

// hidden returns the fields that the step commits to and the disclosure keeps.
func hidden(s *flight.Step, open []flight.Opening) []string {
	var out []string
	for _, f := range flight.Fields {
		opened := false
		for _, o := range open {
			opened = opened || o.Field == f
		}
		if s.Commitment(f) != nil && !opened {
			out = append(out, f)
		}
	}
	return out
}

// PostDisclosure posts a disclosure to a node and returns the node's answer, the
// verdict, as JSON. publish asks it to publish the opened values too (spec section
// 6). client may be nil. The error may be a [*NodeError].
func PostDisclosure(ctx context.Context, nodeURL string, client *http.Client, d *flight.Disclosure, publish bool) (json.RawMessage, error) {
	n, err := newNode(nodeURL, client)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	path := "/v1/flight/proofs"
	if publish {
		path += "?publishReveals=1"
	}
	return n.do(ctx, http.MethodPost, path, body)
}
