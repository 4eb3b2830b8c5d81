// Package sdk holds the single-file SDKs that the node serves under /sdk/. Each is
// the format's verifier, a recorder and a checker of itself, written apart from
// the node's own code so that it can serve as a second opinion.
package sdk

import (
	"embed"
	"strings"
)

// Files holds both SDKs under their names.
//
//go:embed karatum-flight.mjs karatum_flight.py
var Files embed.FS

// JavaScript is karatum-flight.mjs, for Node 18+, Deno and browsers.
//
//go:embed karatum-flight.mjs
var JavaScript string

// Python is karatum_flight.py, for Python 3.9+ with nothing but its standard
// library.
//
//go:embed karatum_flight.py
var Python string

// The parts of the verifier in karatum-flight.mjs, in their order. Each needs the
// first and no other: a page loads the checks that it has use for.
const (
	Disclosures  = "Disclosures"        // and all that the others stand on
	Bytes        = "Documents as bytes" // wanted where a document is not yet text
	Equivocation = "Equivocation"       // evidence
	Anchors      = "Anchors on a chain" // as an RPC tells of them
	Batches      = "Batches and receipts"
)

// Verifier returns parts of the verifier in [JavaScript], byte for byte and in the
// order asked for, all of them where none is named: an ES module by itself that
// holds no secret and opens no connection unless it is handed an RPC. The pages run
// it in a worker and put it into the offline /verify.html. A part that is not there
// is left out.
func Verifier(parts ...string) string {
	verifier, _, _ := strings.Cut(JavaScript, "// ==== End of the verifier")
	if len(parts) == 0 {
		return verifier
	}
	var out strings.Builder
	for _, part := range parts {
		start := 0
		if part != Disclosures {
			if start = strings.Index(verifier, "// ==== "+part); start < 0 {
				continue
			}
		}
		text := verifier[start:]
		if end := strings.Index(text[1:], "\n// ==== "); end >= 0 {
			text = text[:end+2]
		}
		out.WriteString(text)
	}
	return out.String()
}
