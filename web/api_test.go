package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// TestReads runs over one real node: real store, real dev chain, real HTTP, under
// a base path.
func TestReads(t *testing.T) {
	w := newWorld(t, "/under/here")
	w.anchor()
	t.Run("api", w.testAPI)
	t.Run("schemas", w.testSchemas)
	t.Run("twins", w.testTwins)
	t.Run("pages", w.testPages)
	t.Run("crawl", w.testCrawl)
}

func (w *world) testAPI(t *testing.T) {
	root := w.epoch().Root.String()
	for _, tt := range []struct {
		request string
		status  int
		want    string // in the body
	}{
		{"GET /v1/flight/batches/{batch}", 200, `"batchId":"` + w.batch[0].ID().String()},
		{"GET /v1/flight/batches/{batch}/proof", 200, root},
		{"GET /v1/flight/batches/{zero}", 404, "UNKNOWN_BATCH"},
		{"GET /v1/flight/batches/{zero}/proof", 404, "UNKNOWN_BATCH"},
		{"GET /v1/flight/batches/0xAB", 400, `"field":"batchId"`},
		{"GET /v1/flight/batches/%ff%fe", 400, `"field":"batchId"`},
		{"GET /v1/flight/batches/a%00b", 400, `"field":"batchId"`},
		{"GET /v1/flight/proofs/{step}", 200, `"verdict"`},
		{"GET /v1/flight/proofs/{sealed}", 404, "UNKNOWN_STEP"},
		{"GET /v1/flight/agents", 200, w.key.Address().String()},
		{"GET /v1/flight/agents?limit=1", 200, `"next":""`},
		{"GET /v1/flight/agents?limit=0", 400, `"field":"limit"`},
		{"GET /v1/flight/agents?limit=201", 400, `"field":"limit"`},
		{"GET /v1/flight/agents?limit=01", 400, `"field":"limit"`},
		{"GET /v1/flight/agents?limit=-1", 400, `"field":"limit"`},
		{"GET /v1/flight/agents?limit=1&limit=2", 400, `"field":"limit"`},
		{"GET /v1/flight/agents?cursor=%3Cscript%3E", 400, `"field":"cursor"`},
		{"GET /v1/flight/agents?cursor=" + strings.Repeat("a", 600), 400, `"field":"cursor"`},
		{"GET /v1/flight/agents?cursor=%ff", 400, `"field":"cursor"`},
		{"GET /v1/flight/agents/{agent}", 200, `"binding":"unbound"`},
		{"GET /v1/flight/agents/{nobody}", 404, "UNKNOWN_AGENT"},
		{"GET /v1/flight/agents/" + strings.ToUpper(w.key.Address().String()), 400, `"field":"address"`},
		{"GET /v1/flight/agents/{agent}/streams", 200, `"items":[{`},
		{"GET /v1/flight/agents/{agent}/streams/{stream}", 200, `"gaps":[{"indexes":[1,1],"seqs":[2,3]}]`},
		{"GET /v1/flight/agents/{agent}/streams/nope", 404, "UNKNOWN_STREAM"},
		{"GET /v1/flight/agents/{agent}/streams/a%2Fb", 400, `"field":"stream"`},
		{"GET /v1/flight/agents/{agent}/streams/..%2f..%2fmetrics", 400, `"field":"stream"`},
		{"GET /v1/flight/agents/{agent}/streams/%2e%2e", 400, `"field":"stream"`},
		{"GET /v1/flight/agents/{agent}/streams/a%00b", 400, `"field":"stream"`},
		{"GET /v1/flight/agents/{agent}/streams/a%0Ab", 400, `"field":"stream"`},
		{"GET /v1/flight/agents/{agent}/streams/" + strings.Repeat("a", 65), 400, `"field":"stream"`},
		{"GET /v1/flight/agents/{agent}/streams/" + strings.Repeat("%F0%9F%9B%A9", 64), 404, "UNKNOWN_STREAM"},
		{"GET /v1/flight/agents/{agent}/streams/{stream}/batches", 200, `"index":2`},
		{"GET /v1/flight/agents/{agent}/streams/{stream}/steps/0", 200, w.steps[0].Hash().String()},
		{"GET /v1/flight/agents/{agent}/streams/{stream}/steps/5", 404, "UNKNOWN_STEP"},
		{"GET /v1/flight/agents/{agent}/streams/{stream}/steps/00", 400, `"field":"seq"`},
		{"GET /v1/flight/agents/{agent}/streams/{stream}/steps/9007199254740992", 400, `"field":"seq"`},
		{"GET /v1/flight/agents/{agent}/steps", 200, w.steps[1].Hash().String()},
		{"GET /v1/flight/agents/{agent}/equivocations", 200, "SAME_INDEX"},
		{"GET /v1/flight/epochs", 200, root},
		{"GET /v1/flight/epochs/" + root, 200, w.batch[0].ID().String()},
		{"GET /v1/flight/epochs/" + sprint(w.epoch().ID), 200, root},
		{"GET /v1/flight/epochs/latest", 400, `"field":"root"`},
		{"GET /v1/flight/epochs/{zero}", 404, "UNKNOWN_EPOCH"},
		{"GET /v1/flight/replays", 200, `"items":[]`},
		{"GET /v1/flight/replays?state=done", 200, `"items":[]`},
		{"GET /v1/flight/replays?state=lost", 400, `"field":"state"`},
		{"GET /v1/flight/replays?cursor=1", 400, `"field":"cursor"`},
		{"GET /v1/flight/replays/1", 404, "UNKNOWN_REPLAY"},
		{"GET /v1/flight/replays/01", 400, `"field":"replay"`},
		{"GET /v1/flight/equivocations", 200, "karatum.equivocation.v1"},
		{"GET /v1/flight/equivocations/999", 404, "UNKNOWN_EVIDENCE"},
		{"GET /v1/status", 200, `"version":"test"`},
		{"GET /v1/openapi.json", 200, `"openapi":"3.1.0"`},
		{"GET /healthz", 200, "ok"},
		{"GET /metrics", 200, "karatum_http_answers_total"},
		{"GET /sdk/", 200, "karatum-flight.mjs"},
		{"GET /sdk/karatum-flight.mjs", 200, "export"},
		{"GET /sdk/sdk.go", 404, "NOT_FOUND"},
		{"GET /sdk/testdata/secret.json", 404, "NOT_FOUND"},
		{"GET /sdk/..%2fserver.go", 404, "NOT_FOUND"},
		{"GET /testvectors/v1.json", 200, "karatum.flightrec.v1"},
		{"GET /static/app.css", 200, "color-scheme"},
		{"GET /v1/flight/batches", 405, "METHOD_NOT_ALLOWED"},
		{"DELETE /v1/flight/batches/{batch}", 405, "METHOD_NOT_ALLOWED"},
		{"GET /v1/flight/agents/", 404, "NOT_FOUND"},
		{"GET /V1/flight/agents", 404, "NOT_FOUND"},
		{"OPTIONS /v1/flight/batches", 204, ""},
		{"OPTIONS /v1/admin/anchor", 405, "METHOD_NOT_ALLOWED"},
		{"HEAD /v1/flight/agents", 200, ""},
	} {
		t.Run(tt.request, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.request, " ")
			r, body := w.do(method, w.expand(path), nil)
			if r.StatusCode != tt.status || !bytes.Contains(body, []byte(tt.want)) {
				t.Errorf("status %d, want %d with %s: %.400s", r.StatusCode, tt.status, tt.want, body)
			}
			if r.StatusCode == 405 && r.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
}

func TestWritesOnARealNode(t *testing.T) {
	w := newWorld(t, "")
	batch := w.sign(0, 0, 1, 0)
	if got := w.post("/v1/flight/batches", batch, 200); !bytes.Contains(got, []byte(`"duplicate":true`)) {
		t.Errorf("a duplicate = %s", got)
	}
	if got := w.post("/v1/flight/batches", []byte(`{"header":1,"header":2}`), 400); !bytes.Contains(got, []byte("DUPLICATE_KEY")) {
		t.Errorf("a duplicate key = %s", got)
	}
	fork := w.post("/v1/flight/batches", w.sign(0, 0, 1, 2), 409)
	if !bytes.Contains(fork, []byte(`"evidence":{"type":"karatum.equivocation.v1"`)) {
		t.Errorf("a fork = %s", fork)
	}
	var compact bytes.Buffer
	check(t, json.Compact(&compact, batch))
	r, got := w.do("POST", "/v1/flight/batches/bulk", []byte(compact.String()+"\nnot json\r\n\n"+compact.String()), "Content-Type", "application/x-ndjson")
	lines := strings.Split(strings.TrimSpace(string(got)), "\n")
	if r.StatusCode != 200 || len(lines) != 3 || !strings.Contains(lines[0], `"duplicate":true`) || !strings.Contains(lines[1], "BAD_REQUEST") || lines[2] != lines[0] {
		t.Errorf("bulk: status %d: %s", r.StatusCode, got)
	}
	if got := w.post("/v1/flight/proofs", []byte(`{"step":{},"reveal":{},"proof":{},"batch":{}}`), 400); !bytes.Contains(got, []byte("BAD_REQUEST")) {
		t.Errorf("a proof of wrong shape = %s", got)
	}
	w.post("/v1/flight/proofs?publishReveals=yes", w.disclose(0), 400)
	w.admin("/v1/admin/proofs/"+w.steps[0].Hash().String()+"/delete-reveals", 200)
	if _, got := w.do("GET", "/v1/flight/proofs/"+w.steps[0].Hash().String(), nil); bytes.Contains(got, []byte("long long")) {
		t.Error("deleted reveals are still served")
	}
}

// Every answer of a real node fits the schema that the description gives it.
func (w *world) testSchemas(t *testing.T) {
	doc := describedBy(t, w)
	samples := map[string]string{
		"batchId": w.batch[0].ID().String(), "stepHash": w.steps[0].Hash().String(), "address": w.key.Address().String(),
		"stream": w.expand("{stream}"), "seq": "0", "root": w.epoch().Root.String(), "id": "1", "replay": "1",
	}
	named := regexp.MustCompile(`\{(\w+)\}`)
	seen := 0
	for path, ops := range doc.Paths {
		op, ok := ops["get"]
		if !ok || op.Responses["200"].Content["application/json"].Schema == nil {
			continue
		}
		at := named.ReplaceAllStringFunc(path, func(m string) string { return samples[m[1:len(m)-1]] })
		if path == "/agents/{address}/streams" {
			at += "?called=" + url.QueryEscape(w.stream)
		}
		r, body := w.do("GET", at, nil, "Accept", "application/json")
		if r.StatusCode == 404 && bytes.Contains(body, []byte("UNKNOWN_REPLAY")) { // this world asked for none
			continue
		}
		if r.StatusCode != 200 {
			t.Errorf("GET %s: status %d: %.300s", at, r.StatusCode, body)
			continue
		}
		seen++
		validate(t, doc, op.Responses["200"].Content["application/json"].Schema, path, body)
	}
	if seen < 20 {
		t.Errorf("%d answers were looked at", seen)
	}
	ingest := doc.Paths["/v1/flight/batches"]["post"]
	again, err := json.Marshal(w.batch[0])
	check(t, err)
	validate(t, doc, ingest.Responses["200"].Content["application/json"].Schema, "a duplicate", w.post("/v1/flight/batches", again, 200))
	validate(t, doc, ingest.Responses["409"].Content["application/json"].Schema, "a fork", w.post("/v1/flight/batches", w.sign(0, 0, 1, 3), 409))
}

// validate checks a body against a schema that may refer to a component.
func validate(t *testing.T, doc *apiDoc, s *schema, what string, body []byte) {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		if s = doc.Components.Schemas[name]; s == nil {
			t.Errorf("%s: there is no component %s", what, name)
			return
		}
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{})
	check(t, err)
	if err := resolved.Validate(jsonOf(t, body)); err != nil {
		t.Errorf("%s does not fit its schema: %v\n%.500s", what, err, body)
	}
}

func describedBy(t *testing.T, w *world) *apiDoc {
	t.Helper()
	r, body := w.do("GET", "/v1/openapi.json", nil)
	if r.StatusCode != http.StatusOK {
		t.Fatal(r.Status)
	}
	var doc apiDoc
	check(t, json.Unmarshal(body, &doc))
	return &doc
}

// The pages' JSON twins are what the API says of the same thing.
func (w *world) testTwins(t *testing.T) {
	for page, api := range map[string]string{
		"/agents": "/v1/flight/agents", "/agents/{agent}": "/v1/flight/agents/{agent}", "/batches/{batch}": "/v1/flight/batches/{batch}",
		"/agents/{agent}/{stream}":   "/v1/flight/agents/{agent}/streams/{stream}",
		"/agents/{agent}/{stream}/0": "/v1/flight/proofs/{step}", "/epochs": "/v1/flight/epochs", "/conflicts": "/v1/flight/equivocations", "/replays": "/v1/flight/replays",
		"/conflicts/1": "/v1/flight/equivocations/1",
	} {
		_, twin := w.do("GET", w.expand(page), nil, "Accept", "application/json")
		_, want := w.do("GET", w.expand(api), nil)
		if !reflect.DeepEqual(jsonOf(t, twin), jsonOf(t, want)) {
			t.Errorf("%s as JSON is not %s", page, api)
		}
	}
}
