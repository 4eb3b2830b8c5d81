package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"karatum/chain/eas"
	"karatum/flight"
	"karatum/flight/canon"
)

// Conformance recomputes every value of a vector file laid out as
// testvectors/v1.json and compares it with what the file says. Each comparison
// is one passed or one failed value; a mismatch is printed to w with its path in
// the file, what was computed and what the file wants. A section or key that
// nothing here recomputes is printed as "not covered" and counted as neither; a
// section that is missing or a list without vectors is a failure, for it would
// otherwise look like success. The last line is "N passed, N failed". The error
// reports a file that is no JSON object, or a writer that refuses.
func Conformance(vectors []byte, w io.Writer) (passed, failed int, err error) {
	run := &vectorRun{w: w}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(vectors, &top); err != nil {
		return 0, 0, fmt.Errorf("conformance: the vector file: %w", err)
	}
	file := vectorNode{run: run, obj: top, used: map[string]bool{}}
	file.ignore("note")
	run.same("spec", file.text("spec"), eas.SpecV1)
	checkCanonicalVectors(file.object("canonicalJson"))
	checkFlightVectors(file.object("flight"))
	file.done()
	run.printf("%d passed, %d failed\n", run.passed, run.failed)
	return run.passed, run.failed, run.err
}

// A vectorRun counts comparisons and prints the ones that fail.
type vectorRun struct {
	w              io.Writer
	passed, failed int
	err            error // first of the writer
}

func (r *vectorRun) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(r.w, format, args...); err != nil && r.err == nil {
		r.err = fmt.Errorf("conformance: write the report: %w", err)
	}
}

// same compares the file's value with the computed one.
func (r *vectorRun) same(path, want, got string) {
	if want == got {
		r.passed++
		return
	}
	r.failed++
	r.printf("FAIL %s: got %s, want %s\n", path, vectorQuote(got), vectorQuote(want))
}

// vectorQuote shows a value on one line, cut where it is long.
func vectorQuote(s string) string {
	const most = 160
	if len(s) > most {
		return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// ok expects that err is nil.
func (r *vectorRun) ok(path string, err error) { r.same(path, "ok", vectorOutcome(err)) }

func (r *vectorRun) fail(path, format string, args ...any) {
	r.failed++
	r.printf("FAIL %s: %s\n", path, fmt.Sprintf(format, args...))
}

func vectorOutcome(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// A vectorNode is one object of the file. It notes which keys are used, so that
// done can name the others.
type vectorNode struct {
	run  *vectorRun
	path string
	obj  map[string]json.RawMessage // nil where the file has no such object
	used map[string]bool
}

// node reads raw as an object; what is none is a failure.
func (r *vectorRun) node(path string, raw json.RawMessage) vectorNode {
	n := vectorNode{run: r, path: path, used: map[string]bool{}}
	if err := json.Unmarshal(raw, &n.obj); err != nil || n.obj == nil {
		r.fail(path, "is no object")
	}
	return n
}

func (n vectorNode) at(key string) string {
	if n.path == "" {
		return key
	}
	return n.path + "." + key
}

func (n vectorNode) ignore(keys ...string) {
	for _, k := range keys {
		n.used[k] = true
	}
}

func (n vectorNode) has(key string) bool { _, ok := n.obj[key]; return ok }

// raw returns the text under key; a missing key is a failure.
func (n vectorNode) raw(key string) json.RawMessage {
	n.used[key] = true
	v, ok := n.obj[key]
	if !ok && n.obj != nil {
		n.run.fail(n.at(key), "is missing")
	}
	return v
}

func (n vectorNode) text(key string) (s string) {
	raw := n.raw(key)
	if raw != nil && json.Unmarshal(raw, &s) != nil {
		n.run.fail(n.at(key), "is no string")
	}
	return s
}

func (n vectorNode) object(key string) vectorNode {
	raw := n.raw(key)
	if raw == nil {
		return vectorNode{run: n.run, path: n.at(key), used: map[string]bool{}}
	}
	return n.run.node(n.at(key), raw)
}

// list returns the elements under key with their paths; an empty list is a
// failure.
func (n vectorNode) list(key string) (elems []vectorElem) {
	raw := n.raw(key)
	if raw == nil {
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		n.run.fail(n.at(key), "holds no vectors")
	}
	for i, p := range parts {
		elems = append(elems, vectorElem{fmt.Sprintf("%s[%d]", n.at(key), i), p})
	}
	return elems
}

type vectorElem struct {
	path string
	raw  json.RawMessage
}

// nodes is list for a list of objects.
func (n vectorNode) nodes(key string) (out []vectorNode) {
	for _, e := range n.list(key) {
		out = append(out, n.run.node(e.path, e.raw))
	}
	return out
}

// done names the keys that nothing recomputes.
func (n vectorNode) done() {
	for _, k := range slices.Sorted(maps.Keys(n.obj)) {
		if !n.used[k] {
			n.run.printf("%s: not covered\n", n.at(k))
		}
	}
}

func checkCanonicalVectors(n vectorNode) {
	for _, c := range n.nodes("cases") {
		c.ignore("why")
		got, err := canon.Canonical([]byte(c.text("raw")))
		if err != nil {
			c.run.fail(c.at("raw"), "refused: %v", err)
		}
		c.run.same(c.at("canonical"), c.text("canonical"), string(got))
		c.run.same(c.at("keccak"), c.text("keccak"), flight.Keccak256(got).String())
		c.done()
	}
	for _, c := range n.nodes("errors") {
		c.ignore("why")
		_, err := canon.Canonical(refusedText(c))
		c.run.same(c.at("code"), c.text("code"), canonCode(err))
		c.done()
	}
	n.done()
}

// refusedText returns the text of a refusal: raw, or the bytes of rawHex where
// they are no UTF-8.
func refusedText(n vectorNode) []byte {
	if !n.has("rawHex") {
		return []byte(n.text("raw"))
	}
	b, err := flight.ParseHex(n.text("rawHex"))
	if err != nil {
		n.run.fail(n.at("rawHex"), "%v", err)
	}
	return b
}

func canonCode(err error) string {
	var e *canon.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return vectorOutcome(err)
}

// value parses a value of the file with the parser under test.
func (r *vectorRun) value(path string, raw json.RawMessage) canon.Value {
	v, err := canon.Parse(raw, canon.MaxDepth)
	if err != nil {
		r.fail(path, "refused: %v", err)
	}
	return v
}
