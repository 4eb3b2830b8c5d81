// Package web serves a node over HTTP: the API of spec section 6, the readable
// pages, and the files that clients fetch. It parses, calls the node, and writes;
// every rule of the protocol lives behind [Node].
//
// What it guarantees to the node behind it:
//
//   - a body is complete, of the declared media type, and within the route's
//     limit, whether it came with a length or in chunks;
//   - the per-address limit was taken before the body was read;
//   - every call carries a context that ends with the request's deadline;
//   - a panic costs one request, never the process.
//
// What it is trusted with: whoever can change this process's answers can show a
// reader false pages. Evidence, proofs and receipts carry their own signatures, so
// a reader who runs "karatum verify" need not trust it. A client is trusted with
// nothing; a proxy only when [Config].TrustedProxies names it, and then only for
// the client's address.
package web

//go:generate go tool -modfile=tools.mod templ generate -path pages
//go:generate go tool -modfile=tools.mod templ generate -path verifier
