package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"karatum/app"
)

// Every member of every kind of document, changed, taken away or joined by a
// stranger: karatum verify and the browser give the same verdict.
func TestSameVerdict(t *testing.T) {
	d := fetchDocuments(t)
	bundle := marshal(t, map[string]json.RawMessage{"disclosure": d.disclosure, "proof": d.proof})
	docs := []string{}
	for _, doc := range [][]byte{bundle, d.evidence, d.batch} {
		docs = append(docs, string(doc))
		var v any
		unmarshal(t, doc, &v)
		mutate(v, func() { docs = append(docs, string(marshal(t, v))) })
	}
	b := newTab(t)
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	raw := eval[string](b, fmt.Sprintf(`(async (docs) => { const { examine } = await import(document.querySelector('a[data-checks="any"]').href), out = [];
for (const text of docs) { const r = await examine(text); out.push([r.ok, r.why ?? r.code ?? ''].join('|')); }
return JSON.stringify(out); })(%s)`, marshal(t, docs)))
	var got []string
	unmarshal(t, []byte(raw), &got)
	refused := 0
	for i, doc := range docs {
		v := app.Verify(t.Context(), [][]byte{[]byte(doc)}, app.VerifyOptions{})
		if !v.OK {
			refused++
		}
		if !strings.HasPrefix(got[i], fmt.Sprint(v.OK, "|")) {
			t.Errorf("the browser says %s, karatum verify %s\n%s", got[i], v.Verdict, doc)
		}
	}
	t.Logf("%d documents, %d refused by both", len(docs), refused)
	if refused < len(docs)/2 {
		t.Errorf("only %d of %d changed documents are refused", refused, len(docs))
	}
}

// mutate makes each change in turn, calls seen, and takes it back.
func mutate(v any, seen func()) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			old := v[key]
			delete(v, key)
			seen()
			v[key] = changed(old)
			seen()
			v[key] = nil
			seen()
			v[key] = old
			mutate(old, seen)
		}
		v["stranger"] = 1
		seen()
		delete(v, "stranger")
	case []any:
		for i, old := range v {
			v[i] = changed(old)
			seen()
			v[i] = old
		}
	}
}

// changed is another value of the same kind.
func changed(v any) any {
	switch v := v.(type) {
	case string:
		if n := len(v); n > 2 && strings.HasPrefix(v, "0x") {
			return v[:n-1] + map[bool]string{true: "1", false: "0"}[v[n-1] == '0']
		}
		return v + "x"
	case float64:
		return v + 1
	case []any:
		return v[:max(len(v)-1, 0)]
	case bool:
		return !v
	}
	return nil
}
