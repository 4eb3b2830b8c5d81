package web

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"karatum/flight"
)

func described(t *testing.T) (*Server, *apiDoc) {
	t.Helper()
	s, err := New(echoNode(), Config{Log: slog.New(slog.DiscardHandler)})
	check(t, err)
	var doc apiDoc
	check(t, json.Unmarshal(s.openapi.body, &doc))
	return s, &doc
}

// Every route that fiber knows is described, and nothing else is.
func TestEveryRouteIsDescribed(t *testing.T) {
	s, doc := described(t)
	registered := map[string]bool{}
	for _, r := range s.fiber.GetRoutes(true) {
		if r.Method == "HEAD" || r.Method == "OPTIONS" { // they follow from the others
			continue
		}
		if page, ok := strings.CutSuffix(r.Path, twinSuffix); ok && strings.Count(r.Path, "/v1/") == 0 { // of a page that is described
			r.Path = page
		}
		path, _ := apiPath(r.Path)
		registered[strings.ToLower(r.Method)+" "+path] = true
		if doc.Paths[path][strings.ToLower(r.Method)] == nil {
			t.Errorf("%s %s is not described", r.Method, r.Path)
		}
	}
	ids := map[string]string{}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			if !registered[method+" "+path] {
				t.Errorf("%s %s is described and not served", method, path)
			}
			if op.Summary == "" || len(op.Responses) < 2 {
				t.Errorf("%s %s says too little", method, path)
			}
			if ids[op.ID] != "" {
				t.Errorf("%s %s and %s share an operation id", method, path, ids[op.ID])
			}
			ids[op.ID] = method + " " + path
		}
	}
}

func TestBasePaths(t *testing.T) {
	for path, ok := range map[string]bool{"": true, "/karatum": true, "/a/b-c_d.e~1": true, "karatum": false, "/a b": false, "/:a": false, "/a*": false, "/a%20": false, "/\u00e4": false, `/"<b>`: false, "/a?b": false} {
		if _, err := New(echoNode(), Config{BasePath: path, Log: slog.New(slog.DiscardHandler)}); (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// A preflight tells the methods of the route itself, though a parameter of another
// route would take its last part.
func TestPreflightNamesTheRoutesOwnMethods(t *testing.T) {
	addr := start(t, echoNode(), Config{})
	for path, want := range map[string]string{"/v1/flight/batches": "POST, OPTIONS", "/v1/flight/batches/bulk": "POST, OPTIONS", "/v1/flight/batches/x": "GET, HEAD, OPTIONS",
		"/v1/flight/proofs/x/replay": "POST, GET, HEAD, OPTIONS", "/sdk/x": "GET, HEAD, OPTIONS"} {
		r := exchange(t, addr, "OPTIONS "+path+" HTTP/1.1\r\nHost: x\r\nOrigin: http://elsewhere\r\n\r\n")
		if got := r.Header.Get("Allow"); got != want || r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Methods")+", OPTIONS" != want {
			t.Errorf("%s: status %d, Allow %q, want %q", path, r.StatusCode, got, want)
		}
	}
}

// What a client can easily come upon is described.
func TestRefusalsAreDescribed(t *testing.T) {
	_, doc := described(t)
	for _, c := range []struct{ method, path, status, word string }{
		{"get", "/v1/flight/agents/{address}/equivocations", "404", "UNKNOWN_AGENT"},
		{"get", "/sdk/{file}", "404", "NOT_FOUND"},
		{"get", "/static/{file}", "404", "NOT_FOUND"},
		{"get", "/events/stream", "503", "BUSY"},
		{"get", "/v1/flight/agents", "503", "BUSY"},
		{"get", "/healthz", "431", "HEADERS_TOO_LARGE"},
		{"get", "/search", "303", "Location"},
	} {
		if got := doc.Paths[c.path][c.method].Responses[c.status].Description; !strings.Contains(got, c.word) {
			t.Errorf("%s %s: %s is %q, without %s", c.method, c.path, c.status, got, c.word)
		}
	}
}

// Every reference leads to a component, and every schema is one.
func TestSchemasResolve(t *testing.T) {
	s, doc := described(t)
	for _, part := range strings.Split(string(s.openapi.body), `"$ref":"`)[1:] {
		ref, _, _ := strings.Cut(part, `"`)
		name, ok := strings.CutPrefix(ref, "#/components/schemas/")
		if !ok || doc.Components.Schemas[name] == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	}
	for name, sc := range doc.Components.Schemas {
		if _, err := sc.Resolve(&jsonschema.ResolveOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The documented examples fit their schemas and are what they say they are.
func TestExamplesValidate(t *testing.T) {
	_, doc := described(t)
	seen := 0
	for path, ops := range doc.Paths {
		for _, op := range ops {
			if op.Body == nil {
				continue
			}
			for _, m := range op.Body.Content {
				if len(m.Example) > 0 {
					validate(t, doc, m.Schema, path, m.Example)
					seen++
				}
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d examples, want 2", seen)
	}
	batch, err := examples.ReadFile("examples/batch.json")
	check(t, err)
	b, err := flight.ParseBatch(batch)
	check(t, err)
	check(t, b.Verify())
	proof, err := examples.ReadFile("examples/disclosure.json")
	check(t, err)
	d, err := flight.ParseDisclosure(proof)
	check(t, err)
	check(t, d.Verify().Err())
}

// Every error code that the node's sources name is in the table, with its status.
func TestEveryCodeIsDescribed(t *testing.T) {
	files, err := filepath.Glob("../app/*.go")
	check(t, err)
	named := regexp.MustCompile(`Code: "([A-Z_]+)", Status: http\.(Status\w+)`)
	found := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		check(t, err)
		for _, m := range named.FindAllStringSubmatch(string(src), -1) {
			found++
			doc, ok := codes[m[1]]
			if !ok {
				t.Errorf("%s: %s is not described", f, m[1])
			} else if got := "Status" + strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(doc.status)); got != m[2] {
				t.Errorf("%s: %s has %s, the table says %s", f, m[1], m[2], got)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d codes were found", found)
	}
}
