package web

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"karatum/flight"
)

type schema = jsonschema.Schema

func ptr[T any](v T) *T { return &v }

func hexSchema(bytes int, what string) *schema {
	return &schema{Type: "string", Pattern: fmt.Sprintf("^0x[0-9a-f]{%d}$", 2*bytes), Description: what}
}

func whole(what string) *schema {
	return &schema{Type: "integer", Minimum: ptr(0.0), Maximum: ptr(float64(maxSeq)), Description: what}
}

// typeSchemas are the types whose JSON is not that of their Go structure.
func typeSchemas() map[reflect.Type]*schema {
	return map[reflect.Type]*schema{
		reflect.TypeFor[flight.Hash]():      hexSchema(32, "32 bytes"),
		reflect.TypeFor[flight.Address]():   hexSchema(20, "account, lower case"),
		reflect.TypeFor[flight.Signature](): hexSchema(65, "r||s||v with v 27 or 28"),
		reflect.TypeFor[flight.Scheme]():    {Type: "string", Enum: []any{string(flight.EIP712), string(flight.EIP191)}},
		reflect.TypeFor[json.RawMessage]():  {},
		reflect.TypeFor[uint64]():           {Type: "integer", Minimum: ptr(0.0)},
	}
}

// schemaOf derives the schema of an answer from its Go type. Clients must accept
// fields that they do not know, so none is forbidden.
func schemaOf(t reflect.Type) (*schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: typeSchemas()})
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, err)
	}
	open(s)
	return s, nil
}

// open removes the closing of objects that inference adds, and keeps the schema of
// map values.
func open(s *schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = nil
	}
	for _, p := range s.Properties {
		open(p)
	}
	open(s.Items)
	open(s.AdditionalProperties)
}

var typeName = regexp.MustCompile(`[A-Za-z]+`)

// nameOf is the component name of an answer's type: List[app.AgentView] is
// AgentViewList.
func nameOf(t reflect.Type) string {
	name := t.Name()
	inner, generic := "", false
	if name, inner, generic = strings.Cut(name, "["); generic {
		parts := typeName.FindAllString(inner, -1)
		return parts[len(parts)-1] + name
	}
	return name
}

// bodySchemas are what requests carry. They are strict: an unknown key is refused
// (spec section 2).
func bodySchemas() map[string]*schema {
	closed := func(required []string, p map[string]*schema) *schema {
		return &schema{Type: "object", Properties: p, Required: required, PropertyOrder: required, AdditionalProperties: &schema{Not: &schema{}}}
	}
	header := closed([]string{"agent", "stream", "index", "fromSeq", "toSeq", "prevHead", "head", "root", "createdAt"}, map[string]*schema{
		"agent": hexSchema(20, "who signs"), "stream": {Type: "string", MinLength: ptr(1), MaxLength: ptr(64)},
		"index": whole("batch counter of the stream, from 0"), "fromSeq": whole("first step"), "toSeq": whole("last step, inclusive; at most 65,536 steps"),
		"prevHead": hexSchema(32, "prev of the first step"), "head": hexSchema(32, "hash of the last step"),
		"root": hexSchema(32, "Merkle root over the step hashes"), "createdAt": whole("unix seconds"),
	})
	signature := &schema{Type: "string", Pattern: "^0x([0-9a-f]{128}|[0-9a-f]{130})$", Description: "65 bytes r||s||v, or 64 bytes EIP-2098; low s"}
	batch := closed([]string{"header", "scheme", "signature"}, map[string]*schema{
		"header": header, "scheme": {Type: "string", Enum: []any{"eip712", "eip191"}}, "signature": signature,
	})
	opening := closed([]string{"salt", "value"}, map[string]*schema{"salt": hexSchema(32, "drawn for this field alone"), "value": {}})
	proof := closed([]string{"index", "size", "siblings"}, map[string]*schema{
		"index": whole("place of the step in its batch"), "size": whole("steps of the batch"),
		"siblings": {Type: "array", Items: hexSchema(32, "sibling, from the leaf up"), MaxItems: ptr(64)},
	})
	disclosure := closed([]string{"step", "reveal", "proof", "batch"}, map[string]*schema{
		"step": stepSchema(), "reveal": {Type: "object", AdditionalProperties: opening, Description: "opened fields by name"}, "proof": proof, "batch": batch,
	})
	return map[string]*schema{
		"Batch": batch, "Disclosure": disclosure,
		"BatchLines": {Type: "string", Description: "NDJSON: one Batch a line, at most 16,384 lines and 16 KiB each"},
		"Empty":      {Type: "object", MaxProperties: ptr(0)},
	}
}

func stepSchema() *schema {
	p := map[string]*schema{
		"v": {Type: "string", Const: ptr[any]("karatum.fr.v1")}, "agent": hexSchema(20, "who acts"), "stream": {Type: "string", MinLength: ptr(1), MaxLength: ptr(64)},
		"seq": whole("from 0"), "prev": hexSchema(32, "hash of the step before, zero at 0"), "at": whole("unix milliseconds"),
		"kind":   {Type: "string", Enum: []any{"tool", "llm", "tx", "message", "note"}},
		"status": {Type: "string", Enum: []any{"ok", "error"}},
		"name":   {Type: "string", MinLength: ptr(1), MaxLength: ptr(128)}, "chainId": whole("with txHash"), "txHash": hexSchema(32, "with chainId"),
	}
	for _, f := range []string{"prompt", "args", "result", "claim"} {
		p[f] = hexSchema(32, "commitment")
	}
	return &schema{Type: "object", Properties: p, Required: []string{"v", "agent", "stream", "seq", "prev", "at", "kind", "status"},
		AdditionalProperties: &schema{Not: &schema{}}}
}
