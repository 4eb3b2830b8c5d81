package verifier

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"karatum/app"
	"karatum/flight"
	"karatum/testvectors"
)

// Every valid document of the vectors is changed at random, and karatum verify and
// the workers as they are shipped must give the same verdict on each check.
func TestMutations(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("install Node.js 18 or later")
		}
		t.Skip("install Node.js 18 or later")
	}
	const seed, count = 20261201, 6000
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 0)), key: vectorKey(t)}
	originals := vectorDocuments(t)
	docs := make([]string, 0, count)
	for i := range count {
		doc := clone(originals[i%len(originals)])
		if i >= len(originals) {
			m.mutate(&doc)
		}
		docs = append(docs, m.text(doc))
	}
	told := examine(t, node, docs)
	passed, refused, failed, kinds := 0, 0, map[string]int{}, map[string]int{}
	for i, doc := range docs {
		want, why := commandSays(t, doc)
		by := strings.Split(told[i], "|") // the kind, and what each worker says
		kind, anyWorker, own := by[0], by[3], map[string]string{"record": by[1], "evidence": by[2], "any": by[3]}
		if got := groups(anyWorker); !agreed(got, want) {
			t.Errorf("seed %d, case %d: the browser says %s\nkaratum verify %s: %s\n%s", seed, i, got, want, why, doc)
		}
		// What the worker of a kind refuses, the one for any document reads in its place.
		if says := own[kind]; says != anyWorker && says != "refused" {
			t.Errorf("seed %d, case %d: the worker for %s says %s, the one for any document %s\n%s", seed, i, kind, says, anyWorker, doc)
		} else if says != "refused" {
			kinds[kind]++
		}
		// So does that of a broken chain, which the evidence's page loads for the reason that the node has read.
		if of := ofChain(doc); of && by[4] != anyWorker {
			t.Errorf("seed %d, case %d: the page of a broken chain says %s, /verify %s\n%s", seed, i, by[4], anyWorker, doc)
		} else if of && anyWorker != "refused" {
			kinds["chain"]++
		}
		if ofRecord(doc) && own["record"] != anyWorker {
			t.Errorf("seed %d, case %d: the page of a record says %s, /verify %s\n%s", seed, i, own["record"], anyWorker, doc)
		}
		switch {
		case want == "refused":
			refused++
		case !strings.Contains(want, ":fail"):
			passed++
		}
		for f := range strings.FieldsSeq(want) {
			if id, ok := strings.CutSuffix(f, ":fail"); ok {
				failed[id]++
			}
		}
		if i < len(originals) && (want == "refused" || strings.Contains(want, ":fail")) {
			t.Errorf("the vectors' own document %d: %s", i, want)
		}
	}
	t.Logf("%d passed, %d refused, failed %v; examined by kind %v", passed, refused, failed, kinds)
	for kind, least := range map[string]int{"record": count / 20, "evidence": count / 20, "any": count / 20, "chain": 10} {
		if kinds[kind] < least {
			t.Errorf("only %d documents are for the worker for %s", kinds[kind], kind)
		}
	}
	for _, id := range strings.Fields("step signature place path links reveal epoch batch receipt a b contradiction") {
		if failed[id] == 0 {
			t.Errorf("no case fails %s: the input tests too little", id)
		}
	}
}

// ofRecord says whether a document is such as the page of a record embeds.
func ofRecord(doc string) bool {
	var m map[string]json.RawMessage
	var d map[string]any
	if json.Unmarshal([]byte(doc), &m) != nil || json.Unmarshal(m["disclosure"], &d) != nil {
		return false
	}
	for _, key := range []string{"step", "reveal", "proof", "batch"} {
		if _, ok := d[key]; !ok {
			return false
		}
	}
	delete(m, "disclosure")
	delete(m, "proof")
	return len(m) == 0
}

// ofChain says whether a document is evidence of a broken chain, such as a page embeds.
func ofChain(doc string) bool {
	var m map[string]any
	return json.Unmarshal([]byte(doc), &m) == nil && len(m) == 4 && m["type"] == "karatum.equivocation.v1" && m["reason"] == "BROKEN_CHAIN"
}

// agreed compares two verdicts. What karatum verify does not read as a batch or a
// receipt, the browser may show as that row's failure; evidence that opens
// something is not read by the browser, and nothing proven to the command.
func agreed(browser, command string) bool {
	fails := func(rows string, ids ...string) bool {
		return slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(" "+rows+" ", " "+id+":fail ") })
	}
	return browser == command || command == "refused" && fails(browser, "batch", "receipt") || browser == "refused" && fails(command, "contradiction")
}

// groupOf names the row of the browser that a check of karatum verify belongs to.
// Whether all parts are of one batch is the epoch's row where there is a disclosure.
var groupOf = map[string]string{
	"STEP_SCHEMA": "step", "SIGNATURE": "signature", "STEP_BATCH": "place", "PROOF": "path", "PREV_HEAD": "links", "HEAD": "links",
	"REVEAL_KEY": "reveal", "COMMITMENT": "reveal", "CLAIM": "reveal", "EPOCH_PROOF": "epoch", "SAME_BATCH": "epoch", "same": "epoch",
	"BATCH": "batch", "RECEIPT": "receipt", "STATEMENT_A": "a", "STATEMENT_B": "b", "CONTRADICTION": "contradiction",
}

func commandSays(t *testing.T, doc string) (rows, why string) {
	v := app.Verify(t.Context(), [][]byte{[]byte(doc)}, app.VerifyOptions{})
	var list []string
	for _, c := range v.Checks {
		switch {
		case c.Code == app.CheckForm && c.State == flight.Fail:
			return "refused", c.Detail
		case c.Code != app.CheckForm:
			list = append(list, fmt.Sprintf("%s:%s", c.Code, c.State))
		}
	}
	return groups(strings.Join(list, " ")), v.Verdict
}

// groups joins the states of a row's checks, the worst first, and sorts the rows.
// One that passed in part passed. Offline nobody checks the anchor.
func groups(rows string) string {
	if rows == "refused" {
		return rows
	}
	worst := map[string]string{}
	chains := []string{"anchor", "ANCHOR_TX", "CLAIM_ON_CHAIN"}
	for row := range strings.FieldsSeq(rows) {
		id, state, _ := strings.Cut(strings.Replace(row, ":partial", ":pass", 1), ":")
		if group, ok := groupOf[id]; ok {
			id = group
		}
		if old := worst[id]; !slices.Contains(chains, id) && old != "fail" && (old == "" || old == "skip" || state == "fail") {
			worst[id] = state
		}
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(worst)) {
		if id != "epoch" || worst[id] != "skip" { // the command says of a batch alone that no proof is there
			out = append(out, id+":"+worst[id])
		}
	}
	return strings.Join(out, " ")
}

func examine(t *testing.T, node string, docs []string) []string {
	a, err := New(styles(t))
	if err != nil {
		t.Fatal(err)
	}
	args, dir := []string{"testdata/examine.mjs"}, t.TempDir()
	add := func(name string, text []byte) {
		file := filepath.Join(dir, name+".mjs")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	add("kind", []byte(asset(t, "kind.js")))
	for _, c := range append(a.Any.Checkers[:3], a.Chain.Checkers...) {
		add(c.Kind, c.Body)
	}
	var in bytes.Buffer
	for _, doc := range docs {
		line, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(line, '\n'))
	}
	cmd := exec.CommandContext(t.Context(), node, args...)
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(docs) {
		t.Fatalf("%d answers to %d documents, %v: %.2000s", len(lines), len(docs), err, out)
	}
	return lines
}

type object = map[string]any

func decode(t *testing.T, text []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// vectorKey is the key that signed the vectors.
func vectorKey(t *testing.T) *flight.Key {
	var v struct{ Flight struct{ PrivateKey string } }
	decode(t, testvectors.V1, &v)
	raw, err := hex.DecodeString(v.Flight.PrivateKey[2:])
	if err != nil {
		t.Fatal(err)
	}
	key, err := flight.KeyFromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// vectorDocuments are valid documents of every kind, made of the vectors.
func vectorDocuments(t *testing.T) (docs []any) {
	type batch struct {
		Header     any
		Signatures map[string]string
	}
	var v struct {
		Flight struct {
			Disclosures   []any
			BrokenChain   any
			Batches       []batch
			Equivocations []struct {
				Reason string
				A, B   batch
			}
			Receipt      struct{ Text, Node, Signature string }
			ReceiptGroup struct {
				Texts           []string
				Root, Signature string
				Proofs          []any
			}
			Epoch struct {
				Root     string
				BatchIDs []string
				Proofs   []any
			}
		}
	}
	decode(t, testvectors.V1, &v)
	f := &v.Flight
	signed := func(b batch, scheme string) object {
		return object{"header": b.Header, "scheme": scheme, "signature": b.Signatures[scheme]}
	}
	proof := func(i int) object {
		anchor := object{"chainId": json.Number("31337"), "txHash": "0x" + strings.Repeat("ab", 32), "blockNumber": json.Number("5"), "blockHash": "0x" + strings.Repeat("cd", 32),
			"eas": "0x4200000000000000000000000000000000000021", "schemaUid": "0x" + strings.Repeat("12", 32), "attester": "0x" + strings.Repeat("34", 20), "state": "final"}
		return object{"batchId": f.Epoch.BatchIDs[i], "epoch": object{"root": f.Epoch.Root, "batchCount": json.Number(fmt.Sprint(len(f.Epoch.BatchIDs)))}, "proof": f.Epoch.Proofs[i], "anchor": anchor}
	}
	receipt := func(text, signature string) object {
		r := object{"node": f.Receipt.Node, "signature": signature}
		for line := range strings.Lines(text) {
			if k, x, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && k == "batchId" {
				r[k] = x
			} else if ok {
				r[k] = json.Number(x)
			}
		}
		return r
	}
	docs = append(docs, f.Disclosures...)
	first := f.Disclosures[:3] // of the first batch
	for _, d := range first {
		docs = append(docs, object{"disclosure": d, "proof": proof(0)})
	}
	ours := receipt(f.Receipt.Text, f.Receipt.Signature)
	withReceipt := signed(f.Batches[0], "eip191")
	withReceipt["receipt"], withReceipt["epoch"] = ours, nil
	docs = append(docs, f.BrokenChain, proof(2), ours, signed(f.Batches[1], "eip712"), withReceipt, object{"batch": signed(f.Batches[0], "eip712"), "disclosure": first[1], "proof": proof(0), "receipt": ours})
	for i, text := range f.ReceiptGroup.Texts {
		r := receipt(text, f.ReceiptGroup.Signature)
		r["group"] = object{"root": f.ReceiptGroup.Root, "size": json.Number(fmt.Sprint(len(f.ReceiptGroup.Texts))), "proof": f.ReceiptGroup.Proofs[i]}
		docs = append(docs, r)
	}
	for _, e := range f.Equivocations {
		docs = append(docs, object{"type": "karatum.equivocation.v1", "reason": e.Reason, "a": signed(e.A, "eip712"), "b": signed(e.B, "eip191")})
	}
	return docs
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := object{}
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// A mutator changes one or two places of a document, and may sign what it changed.
type mutator struct {
	*rand.Rand
	key *flight.Key
}

func pick[T any](m *mutator, set ...T) T { return set[m.IntN(len(set))] }

// raw is JSON text that stands for itself.
type raw string

// twice is an object with one of its keys there twice.
type twice struct {
	object
	key string
}

func (m *mutator) mutate(doc *any) {
	for range 1 + m.IntN(8)/7 {
		var set []func()
		m.places(*doc, func(v any) { *doc = v }, &set)
		set[m.IntN(len(set))]()
	}
	if m.IntN(3) == 0 {
		m.sign(*doc)
	}
}

// places lists the changes of each member, one for each.
func (m *mutator) places(v any, put func(any), out *[]func()) {
	*out = append(*out, func() { put(m.change(v)) })
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			*out = append(*out, func() {
				if m.IntN(4) == 0 {
					delete(v, k)
				} else {
					v[k] = m.change(v[k])
				}
			})
			m.places(v[k], func(x any) { v[k] = x }, out)
		}
	case []any:
		for i := range v {
			m.places(v[i], func(x any) { v[i] = x }, out)
		}
	}
}

func (m *mutator) change(v any) any {
	if m.IntN(8) == 0 { // another type
		return pick[any](m, nil, true, []any{}, object{}, []any{v}, "", json.Number("0"), object{"value": v})
	}
	switch v := v.(type) {
	case string:
		return m.changeText(v)
	case json.Number:
		n, _ := v.Int64()
		return pick[any](m, json.Number(fmt.Sprint(n+1)), json.Number(fmt.Sprint(n-1)), raw(v+".0"), raw(v+"e0"), raw(v+".5"), raw("0"+v), raw("-0"), json.Number("0"), json.Number("9007199254740991"),
			json.Number("9007199254740992"), json.Number("18446744073709551616"), raw("1e3"), json.Number("65536"), json.Number("4294967296"), v.String())
	case []any:
		sibling := any("0x" + strings.Repeat("00", 32))
		if len(v) == 0 {
			return []any{sibling}
		}
		at := m.IntN(len(v))
		return pick[any](m, append(slices.Clone(v), sibling), append([]any{sibling}, v...), v[:len(v)-1], v[1:], append(slices.Clone(v), v[at]), slices.Delete(slices.Clone(v), at, at+1))
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			return object{"claim": object{"salt": "0x" + strings.Repeat("00", 32), "value": nil}}
		}
		key := keys[m.IntN(len(keys))]
		if m.IntN(4) == 0 {
			return twice{v, key}
		}
		out := clone(v).(object)
		to := pick(m, "extra", "__proto__", "constructor", "toString", "anchoring", "type", "group", "receipt", "proof", "details", "", "\u202e", strings.ToUpper(key), strings.ToUpper(key[:1])+key[1:], keys[m.IntN(len(keys))])
		out[to] = pick(m, v[key], any(json.Number("1")))
		if m.IntN(2) == 0 && to != key {
			delete(out, key)
		}
		return out
	}
	return pick[any](m, false, "x", json.Number("2"), object{"kind": "tx.success"})
}

func (m *mutator) changeText(s string) any {
	if strings.HasPrefix(s, "0x") && len(s) > 4 {
		at := 2 + m.IntN(len(s)-2)
		return pick[any](m, s[:at]+pick(m, "0", "1", "7", "f")+s[at+1:], strings.ToUpper(s[:at+1])+s[at+1:], "0x"+strings.ToUpper(s[2:]), s[:at]+s[at+1:], s[:len(s)-2], s+"00", s[2:], " "+s, s[:at]+"g"+s[at+1:],
			"0x"+strings.Repeat("0", len(s)-2), "0x"+strings.Repeat("f", len(s)-2), "0x")
	}
	return pick[any](m, s+"x", strings.ToUpper(s), "", " "+s, s+"\u200b", raw(`"\ud800"`), "eip191", "eip712", "..", "a/b", "tx.success", "erc20.transfer", "00", "1", "-1", strings.Repeat("\u20ac", 65), "SAME_INDEX", "BROKEN_CHAIN", json.Number("1"))
}

// sign signs each header in a document as the vectors' agent, where it can.
func (m *mutator) sign(v any) {
	o, _ := v.(map[string]any)
	for _, e := range o {
		m.sign(e)
	}
	text, err := json.Marshal(o["header"])
	scheme, _ := o["scheme"].(string)
	var h flight.Header
	if o["header"] == nil || err != nil || json.Unmarshal(text, &h) != nil || scheme != "eip712" && scheme != "eip191" {
		return
	}
	o["signature"] = h.Sign(m.key, flight.Scheme(scheme)).Signature.String()
}

// MarshalJSON makes raw text pass json.Marshal.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// text writes a document with its keys in any order.
func (m *mutator) text(v any) string {
	switch v := v.(type) {
	case raw:
		return string(v)
	case twice:
		text := m.text(v.object)
		return text[:len(text)-1] + "," + m.text(v.key) + ":" + m.text(v.object[v.key]) + "}"
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		m.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, k := range keys {
			keys[i] = m.text(k) + ":" + m.text(v[k])
		}
		return "{" + strings.Join(keys, ",") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = m.text(e)
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	text, _ := json.Marshal(v) // of a scalar, never fails
	return string(text)
}
