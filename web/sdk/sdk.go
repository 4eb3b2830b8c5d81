// Package sdk holds the single-file SDKs that the node serves under /sdk/. Each is
// the format's verifier, a recorder and a checker of itself, written apart from
// the node's own code so that it can serve as a second opinion.
package sdk

import (
	"embed"
	"regexp"
	"slices"
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

// The parts of the verifier in karatum-flight.mjs that not every check needs, by
// their headings and in their order. All of them stand on what is in no such part.
const (
	Text         = "Canonical text"       // of values and steps
	Trees        = "Trees"                // proofs
	Steps        = "Steps"                // by themselves; needs Text
	Epochs       = "Epochs"               // a batch in one; needs Trees
	Disclosures  = "Disclosures"          // needs all before it
	Bytes        = "Documents as bytes"   // wanted where a document is not yet text
	Equivocation = "Equivocation"         // evidence; a broken chain needs Disclosures
	Anchors      = "Anchors on a chain"   // as an RPC tells of them; needs Epochs
	Batches      = "Batches and receipts" // needs Trees and Steps
)

var heading = regexp.MustCompile(`(?m)^// (?:----|====) `)

// Verifier returns the verifier in [JavaScript] with the parts asked for, byte for
// byte and in the file's order, all of them where none is named: an ES module by
// itself that holds no secret and opens no connection unless it is handed an RPC. The
// pages run it in workers and put it into the offline /verify.html.
func Verifier(parts ...string) string {
	verifier, _, _ := strings.Cut(JavaScript, "// ==== End of the verifier")
	if len(parts) == 0 {
		return verifier
	}
	var out strings.Builder
	start := 0
	add := func(end int) {
		name, optional := strings.CutPrefix(verifier[start:end], "// ==== ")
		if !optional || slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(name, part) }) {
			out.WriteString(verifier[start:end])
		}
		start = end
	}
	for _, at := range heading.FindAllStringIndex(verifier, -1) {
		add(at[0])
	}
	add(len(verifier))
	return out.String()
}
