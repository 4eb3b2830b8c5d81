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

// endOfVerifier starts the line of karatum-flight.mjs that ends its first part.
const endOfVerifier = "// ==== End of the verifier"

// Verifier returns the first part of [JavaScript]: an ES module by itself that
// holds no secret and opens no connection unless it is handed an RPC. The pages run it in a worker
// and put it into the offline /verify.html.
func Verifier() string {
	verifier, _, _ := strings.Cut(JavaScript, endOfVerifier)
	return verifier
}
