package flight_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"karatum/flight"
	"karatum/flight/canon"
)

// judge returns the code of the first failing check, "ok" where none fails, or
// "shape" where the document is refused before any check.
func judge(text []byte) string {
	d, err := flight.ParseDisclosure(text)
	if err != nil {
		return "shape"
	}
	var ce *flight.CheckError
	if errors.As(d.Verify().Err(), &ce) {
		return string(ce.Code)
	}
	return "ok"
}

func TestTamperedVectors(t *testing.T) {
	for _, c := range load(t).Tampered {
		if got := judge(c.Disclosure); got != c.Code {
			t.Errorf("%s: %s, want %s", c.Why, got, c.Code)
		}
	}
}

// decode reads a document as a tree in which every place can be replaced.
func decode(tb testing.TB, text []byte) any {
	tb.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		tb.Fatal(err)
	}
	return tree
}

// eachChange makes every change of the tree in turn, calls try with its path and
// undoes it.
func eachChange(path string, v any, set func(any), try func(what string)) {
	for _, other := range others(v) {
		set(other)
		try(path + " changed")
	}
	set(v)
	switch v := v.(type) {
	case map[string]any:
		changeObject(path, v, try)
	case []any:
		changeArray(path, v, set, try)
	}
}

func changeObject(path string, v map[string]any, try func(string)) {
	for _, k := range slices.Sorted(maps.Keys(v)) {
		at, kept := path+"."+k, v[k]
		eachChange(at, kept, func(x any) { v[k] = x }, try)
		delete(v, k)
		if path != ".reveal" { // opening less is no change of what is opened
			try(at + " deleted")
		}
		for _, name := range []string{k + "x", strings.ToUpper(k), k + "\u0000"} {
			v[name] = kept
			try(at + " renamed to " + name)
			delete(v, name)
		}
		v[k] = kept
	}
	v["extra"] = json.Number("1")
	try(path + ".extra added")
	delete(v, "extra")
}

func changeArray(path string, v []any, set func(any), try func(string)) {
	for i := range v {
		eachChange(path+"[]", v[i], func(x any) { v[i] = x }, try)
		set(slices.Delete(slices.Clone(v), i, i+1))
		try(path + " cut")
		set(slices.Insert(slices.Clone(v), i, v[i]))
		try(path + " with an element twice")
	}
	if len(v) > 1 && !equalJSON(v[0], v[1]) {
		swapped := slices.Clone(v)
		swapped[0], swapped[1] = v[1], v[0]
		set(swapped)
		try(path + " swapped")
	}
	set(v)
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// others returns values to put in the place of v, all different from it by value:
// for hex every one with a single bit changed.
func others(v any) []any {
	out := []any{map[string]any{"a": nil}, []any{nil}}
	switch v := v.(type) {
	case nil:
		return append(out, false, json.Number("0"), "")
	case bool:
		return append(out, !v, nil)
	case json.Number:
		return append(out, json.Number("1"+v.String()), json.Number("-1"), json.Number("0.5"), v.String(), nil)
	case string:
		out = append(out, v+"x", v+" ", " "+v, v+"\u0000", v[:max(len(v)-1, 0)]+"\u00e9", nil)
		if up := strings.ToUpper(v); up != v {
			out = append(out, up)
		}
		return append(out, flippedHex(v)...)
	}
	return append(out[:0], nil, false, "x")
}

func flippedHex(s string) (out []any) {
	raw, err := flight.ParseHex(s)
	if err != nil {
		return nil
	}
	for bit := range 8 * len(raw) {
		b := bytes.Clone(raw)
		b[bit/8] ^= 1 << (bit % 8)
		out = append(out, hexText(b))
	}
	if len(raw) != 65 { // a signature cut to 64 bytes is its EIP-2098 form where v is 27
		out = append(out, hexText(raw[:len(raw)-1]))
	}
	return append(out, hexText(append(raw, 0)))
}

func hexText(b []byte) string {
	const digits = "0123456789abcdef"
	out := []byte("0x")
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

func TestEveryChangeOfADisclosureIsRefused(t *testing.T) {
	disclosures := load(t).Disclosures
	tried := 0
	for i, text := range disclosures {
		if got := judge(text); got != "ok" {
			t.Fatalf("disclosure %d: %s", i, got)
		}
		if testing.Short() && i > 0 {
			break
		}
		tree := decode(t, text)
		eachChange("", tree, func(any) {}, func(what string) {
			if what == " changed" {
				return // set cannot replace the root
			}
			tried++
			if judge(mustMarshal(t, tree)) == "ok" {
				t.Errorf("disclosure %d: %s, and nothing fails", i, what)
			}
		})
		if got := judge(mustMarshal(t, tree)); got != "ok" {
			t.Fatalf("disclosure %d was not put back: %s", i, got)
		}
	}
	if tried < 4000 {
		t.Errorf("only %d changes were tried", tried)
	}
	t.Logf("%d changes refused", tried)
}

// drawDisclosure makes a valid disclosure of a drawn batch.
func drawDisclosure(t *rapid.T, k *flight.Key) *flight.Disclosure {
	n := rapid.IntRange(1, 9).Draw(t, "steps")
	steps := chain(k.Address(), rapid.SampledFrom([]string{"main", "a b", "😀<&>"}).Draw(t, "stream"), n+4, 0)
	i := rapid.IntRange(0, n-1).Draw(t, "opened")
	value, err := canon.From(rapid.SampledFrom([]any{nil, "é\u2028<", 0.5, map[string]any{"b": []any{1}, "a": "x"}}).Draw(t, "value"))
	if err != nil {
		t.Fatal(err)
	}
	salt := flight.Hash{byte(i), 1}
	var reveal []flight.Opening
	for j := range steps {
		if j > 0 {
			steps[j].Prev = steps[j-1].Hash()
		}
		if j == i {
			c, err := flight.CommitValue(value, salt)
			if err != nil {
				t.Fatal(err)
			}
			steps[j].Result = &c
			reveal = []flight.Opening{{Field: "result", Salt: salt, Value: value}}
		}
	}
	b := headerOf(t, 0, steps[:n]).Sign(k, rapid.SampledFrom([]flight.Scheme{flight.EIP712, flight.EIP191}).Draw(t, "scheme"))
	d, err := flight.NewDisclosure(b, steps[:n], i, reveal...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDrawnDisclosures(t *testing.T) {
	k := testKey(t, 7)
	rapid.Check(t, func(t *rapid.T) {
		d := drawDisclosure(t, k)
		r := d.Verify()
		if err := r.Err(); err != nil || len(r.Checks) != 9 || r.Signer != k.Address() {
			t.Fatalf("%v, %d checks, signer %s", err, len(r.Checks), r.Signer)
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		tree := any(nil)
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		if got := judge(text); got != "ok" {
			t.Fatalf("its JSON: %s", got)
		}
		var changes []string
		eachChange("", tree, func(any) {}, func(what string) { changes = append(changes, what) })
		pick, n := rapid.IntRange(0, len(changes)-1).Draw(t, "change"), 0
		eachChange("", tree, func(any) {}, func(what string) {
			if n == pick && what != " changed" {
				changed, err := json.Marshal(tree)
				if err != nil || judge(changed) == "ok" {
					t.Fatalf("%s, and nothing fails (%v)", what, err)
				}
			}
			n++
		})
	})
}

func TestReportListsEveryCheckInOrder(t *testing.T) {
	want := []flight.CheckCode{
		flight.CheckStepSchema, flight.CheckSignature, flight.CheckStepBatch, flight.CheckProof, flight.CheckPrevHead,
		flight.CheckHead, flight.CheckRevealKey, flight.CheckCommitment, flight.CheckClaim,
	}
	v := load(t)
	texts := slices.Clone(v.Disclosures)
	for _, c := range v.Tampered {
		texts = append(texts, c.Disclosure)
	}
	for i, text := range texts {
		d, err := flight.ParseDisclosure(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []flight.CheckCode
		for _, c := range d.Verify().Checks {
			got = append(got, c.Code)
			if c.Detail == "" || strings.ContainsAny(c.Detail, "\n\r") {
				t.Errorf("document %d, %s: detail %q", i, c.Code, c.Detail)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("document %d: checks %v, want %v", i, got, want)
		}
	}
}

// An opened claim that the step does not hold is nobody's word.
func TestClaimOfAnotherCommitmentIsNotReturned(t *testing.T) {
	v := load(t)
	seen := 0
	for _, text := range v.Disclosures {
		d, err := flight.ParseDisclosure(text)
		if err != nil {
			t.Fatal(err)
		}
		if r := d.Verify(); r.Claim == nil {
			continue
		}
		seen++
		for i := range d.Reveal {
			if d.Reveal[i].Field == "claim" {
				d.Reveal[i].Salt[0] ^= 1
			}
		}
		r := d.Verify()
		if r.Claim != nil || r.Checks[7].State != flight.Fail || r.Checks[8].State != flight.Skip {
			t.Errorf("claim %v, COMMITMENT %s, CLAIM %s", r.Claim, r.Checks[7].State, r.Checks[8].State)
		}
	}
	if seen == 0 {
		t.Error("no vector opens a claim")
	}
}

// Verify writes nothing to the disclosure, and its JSON keeps the signature even
// where it has no accepted form.
func TestDisclosureRoundTrips(t *testing.T) {
	for _, text := range load(t).Disclosures {
		for _, sig := range []string{"", "0x", "0x1234", "0x" + strings.Repeat("ff", 65)} {
			tree := decode(t, text).(map[string]any)
			if sig != "" {
				tree["batch"].(map[string]any)["signature"] = sig
			}
			sent := mustMarshal(t, tree)
			d, err := flight.ParseDisclosure(sent)
			if err != nil {
				t.Fatal(err)
			}
			before := mustMarshal(t, d)
			r := d.Verify()
			if after := mustMarshal(t, d); !bytes.Equal(before, after) {
				t.Errorf("Verify changed\n%s to\n%s", before, after)
			}
			if want := map[bool]flight.CheckState{true: flight.Pass, false: flight.Fail}[sig == ""]; r.Checks[1].State != want {
				t.Errorf("signature %q: %s, want %s", sig, r.Checks[1].State, want)
			}
			var a, b any
			if json.Unmarshal(sent, &a) != nil || json.Unmarshal(before, &b) != nil || !equalJSON(a, b) {
				t.Errorf("sent\n%s, written\n%s", sent, before)
			}
		}
	}
}

func TestParseDisclosureShape(t *testing.T) {
	good := string(load(t).Disclosures[0])
	tree := decode(t, []byte(good)).(map[string]any)
	for _, c := range []struct {
		want   string
		change func(d map[string]any)
	}{
		{"step", func(d map[string]any) { d["step"] = "x" }}, {"reveal", func(d map[string]any) { delete(d, "reveal") }}, {"reveal", func(d map[string]any) { d["reveal"] = []any{} }},
		{"reveal.args.salt", func(d map[string]any) {
			d["reveal"] = map[string]any{"args": map[string]any{"salt": "0x12", "value": 1}}
		}},
		{"reveal.args.value", func(d map[string]any) { d["reveal"] = map[string]any{"args": map[string]any{"salt": someHash}} }},
		{"proof.index", func(d map[string]any) { d["proof"].(map[string]any)["index"] = -1 }}, {"proof.siblings", func(d map[string]any) { d["proof"].(map[string]any)["siblings"] = nil }},
		{"proof.siblings", func(d map[string]any) { d["proof"].(map[string]any)["siblings"] = slices.Repeat([]any{someHash}, 65) }},
		{"batch.scheme", func(d map[string]any) { d["batch"].(map[string]any)["scheme"] = "x" }}, {"batch.header.index", func(d map[string]any) { d["batch"].(map[string]any)["header"].(map[string]any)["index"] = "0" }},
		{"batch.signature", func(d map[string]any) { d["batch"].(map[string]any)["signature"] = "hello" }},
	} {
		d := decode(t, []byte(good)).(map[string]any)
		c.change(d)
		if _, err := flight.ParseDisclosure(mustMarshal(t, d)); field(err) != c.want {
			t.Errorf("refused at %q, want %q", field(err), c.want)
		}
	}
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	long := `"` + strings.Repeat("a", canon.MaxBytes) + `"`
	for text, want := range map[string]canon.Code{deep: canon.TooDeep, long: canon.TooLarge, strings.Repeat("[", 90): canon.TooDeep, "1e400": canon.NonFinite} {
		tree["reveal"] = map[string]any{"args": map[string]any{"salt": someHash, "value": json.RawMessage("0")}}
		doc := strings.Replace(string(mustMarshal(t, tree)), `"value":0`, `"value":`+text, 1)
		_, err := flight.ParseDisclosure([]byte(doc))
		var fe *flight.FieldError
		if !errors.As(err, &fe) || fe.Code != want {
			t.Errorf("a value %.20s...: %v, want code %s", text, err, want)
		}
	}
	if _, err := flight.ParseDisclosure(bytes.Repeat([]byte(" "), flight.MaxDisclosureBytes+1)); err == nil {
		t.Error("a body over 5 MiB was read")
	}
}

func TestNewDisclosureRefuses(t *testing.T) {
	k := testKey(t, 7)
	steps := chain(k.Address(), "main", 2, 0)
	b := header(t, 0, steps).Sign(k, flight.EIP712)
	if _, err := flight.NewDisclosure(b, steps, 2); err == nil {
		t.Error("a step outside the batch was opened")
	}
	steps[1].Kind = "x"
	if _, err := flight.NewDisclosure(b, steps, 1); field(err) != "kind" {
		t.Errorf("a step that breaks the rules: %v", err)
	}
}
