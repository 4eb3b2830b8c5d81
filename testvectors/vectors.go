// Package testvectors embeds the conformance vectors, so that a binary checks
// itself without a checkout.
package testvectors

import "embed"

// Files holds v1.json and the sample disclosures. README.md documents every
// field.
//
//go:embed *.json README.md
var Files embed.FS

// V1 is v1.json, which pins every value of the format.
//
//go:embed v1.json
var V1 []byte
