package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

//go:embed examples
var examples embed.FS

// The parts of an OpenAPI 3.1 document that we write. Its schemas are JSON Schema
// 2020-12.
type (
	apiDoc struct {
		OpenAPI    string                            `json:"openapi"`
		Info       apiInfo                           `json:"info"`
		Servers    []apiServer                       `json:"servers"`
		Paths      map[string]map[string]*apiRequest `json:"paths"`
		Components apiComponents                     `json:"components"`
	}
	apiInfo struct {
		Title       string `json:"title"`
		Version     string `json:"version"`
		Description string `json:"description"`
	}
	apiServer struct {
		URL string `json:"url"`
	}
	apiComponents struct {
		Schemas  map[string]*schema           `json:"schemas"`
		Security map[string]map[string]string `json:"securitySchemes"`
	}
	apiRequest struct {
		Summary    string                `json:"summary"`
		ID         string                `json:"operationId"`
		Tags       []string              `json:"tags"`
		Parameters []apiParam            `json:"parameters,omitempty"`
		Body       *apiBody              `json:"requestBody,omitempty"`
		Responses  map[string]apiAnswer  `json:"responses"`
		Security   []map[string][]string `json:"security,omitempty"`
	}
	apiParam struct {
		Name        string  `json:"name"`
		In          string  `json:"in"`
		Required    bool    `json:"required"`
		Description string  `json:"description"`
		Schema      *schema `json:"schema"`
	}
	apiBody struct {
		Required bool                `json:"required"`
		Content  map[string]apiMedia `json:"content"`
	}
	apiMedia struct {
		Schema  *schema         `json:"schema"`
		Example json.RawMessage `json:"example,omitempty"`
	}
	apiAnswer struct {
		Description string              `json:"description"`
		Content     map[string]apiMedia `json:"content,omitempty"`
	}
)

var tags = map[kind]string{free: "health and files", read: "reads", write: "signed writes", bulk: "signed writes", admin: "operator", page: "pages"}

// params describes path and query parameters by name.
var params = map[string]apiParam{
	"batchId":  {In: "path", Description: "EIP-712 digest of the header", Schema: hexSchema(32, "")},
	"stepHash": {In: "path", Description: "hash of the step's canonical JSON", Schema: hexSchema(32, "")},
	"address":  {In: "path", Description: "the agent's key", Schema: hexSchema(20, "")},
	"stream":   {In: "path", Description: "percent-encoded UTF-8; no name has a slash", Schema: &schema{Type: "string", MinLength: ptr(1), MaxLength: ptr(64)}},
	"seq":      {In: "path", Description: "place in the stream", Schema: whole("")},
	"root":     {In: "path", Description: "an epoch's root, or its number", Schema: &schema{Type: "string", Pattern: "^(0x[0-9a-f]{64}|0|[1-9][0-9]*)$"}},
	"id":       {In: "path", Description: "number of the evidence", Schema: whole("")},
	"replay":   {In: "path", Description: "number of the replay", Schema: whole("")},
	"name":     {In: "path", Description: "file name", Schema: &schema{Type: "string"}},
	"file":     {In: "path", Description: "file name, or empty for the list of names", Schema: &schema{Type: "string"}},

	"verdict":        {In: "query", Description: "only steps with this verdict", Schema: &schema{Type: "string", Enum: []any{"confirmed", "contradicted", "unverifiable"}}},
	"called":         {In: "query", Description: "name of the stream", Schema: &schema{Type: "string"}},
	"limit":          {In: "query", Description: "items of one answer", Schema: &schema{Type: "integer", Minimum: ptr(1.0), Maximum: ptr(float64(maxLimit)), Default: json.RawMessage("50")}},
	"cursor":         {In: "query", Description: "next of the answer before; opaque", Schema: &schema{Type: "string", MaxLength: ptr(maxCursor)}},
	"topics":         {In: "query", Description: "records, chain, or both separated by a comma", Schema: &schema{Type: "string"}},
	"since":          {In: "query", Description: "id of the last event that the reader has; Last-Event-ID goes before it", Schema: &schema{Type: "integer"}},
	"q":              {In: "query", Description: "address, hash, root or number, whole or from six hex digits on; ADDRESS/STREAM/SEQ", Schema: &schema{Type: "string"}},
	"block":          {In: "query", Description: "a run of 32 batches of a large epoch, which the page lists; counted from 0", Schema: whole("")},
	"batch":          {In: "query", Description: "a batch of the epoch, by its id or its place, of which the page shows the path", Schema: &schema{Type: "string"}},
	"publishReveals": {In: "query", Description: "1 keeps and serves all opened fields, not the claim alone", Schema: &schema{Type: "string", Enum: []any{"0", "1"}}},
	"state":          {In: "query", Description: "only the replays in this state", Schema: &schema{Type: "string", Enum: []any{"queued", "running", "done", "failed", "cancelled"}}},
	"prefix":         {In: "query", Description: "full executes the earlier transactions of the block first, none does not", Schema: &schema{Type: "string", Enum: []any{"full", "none"}, Default: json.RawMessage(`"full"`)}},
}

const apiText = "Takes signed batches of agent step records, anchors them, and compares opened steps with the chain. " +
	"Writes carry their own signature; there is no API key. Lists are cut by limit and cursor. Every error has the shape of Error, " +
	"and Retry-After where the same bytes are good later. Unknown fields of answers must be ignored."

// describe makes the OpenAPI document from the route table.
func (s *Server) describe() (file, error) {
	doc := apiDoc{
		OpenAPI: "3.1.0", Info: apiInfo{"Karatum Node", "1", apiText}, Servers: []apiServer{{s.cfg.BasePath + "/"}},
		Paths: map[string]map[string]*apiRequest{},
		Components: apiComponents{bodySchemas(), map[string]map[string]string{
			"operator": {"type": "http", "scheme": "bearer", "description": "the token in DATA/operator.token"}}},
	}
	var err error
	if doc.Components.Schemas["Error"], err = schemaOf(reflect.TypeFor[errorBody]()); err != nil {
		return file{}, err
	}
	for i := range s.table {
		r := &s.table[i]
		req, err := doc.request(r)
		if err != nil {
			return file{}, fmt.Errorf("describe %s %s: %w", r.method, r.path, err)
		}
		path, _ := apiPath(r.path)
		if doc.Paths[path] == nil {
			doc.Paths[path] = map[string]*apiRequest{}
		}
		doc.Paths[path][strings.ToLower(r.method)] = req
	}
	body, err := json.Marshal(doc)
	return newFile("openapi.json", body), err
}

func (d *apiDoc) request(r *route) (*apiRequest, error) {
	req := &apiRequest{Summary: r.summary, ID: operationID(r), Tags: []string{tags[r.kind]}, Responses: map[string]apiAnswer{}}
	_, names := apiPath(r.path)
	for _, name := range append(names, r.query...) {
		p, ok := params[name]
		if !ok {
			return nil, fmt.Errorf("parameter %q is not described", name)
		}
		p.Name, p.Required = name, p.In == "path"
		req.Parameters = append(req.Parameters, p)
	}
	if r.kind == admin {
		req.Security = []map[string][]string{{"operator": {}}}
	}
	if b := r.body; b != nil {
		m := apiMedia{Schema: refTo(b.schema)}
		if b.example != "" {
			var err error
			if m.Example, err = examples.ReadFile("examples/" + b.example); err != nil {
				return nil, err
			}
		}
		req.Body = &apiBody{Required: r.kind != admin, Content: map[string]apiMedia{}}
		for _, t := range b.accepts {
			req.Body.Content[t] = m
		}
	}
	if err := d.success(r, req); err != nil {
		return nil, err
	}
	return req, d.refusals(r, req)
}

func (d *apiDoc) success(r *route, req *apiRequest) error {
	ok := apiAnswer{Description: "done", Content: map[string]apiMedia{}}
	if r.answer != nil {
		t := reflect.TypeOf(r.answer)
		ref := &schema{Type: "object"}
		if name := nameOf(t); name != "" {
			if d.Components.Schemas[name] == nil {
				s, err := schemaOf(t)
				if err != nil {
					return err
				}
				d.Components.Schemas[name] = s
			}
			ref = refTo(name)
		}
		ok.Content[jsonType[0]] = apiMedia{Schema: ref}
	}
	if r.media != "" {
		ok.Content[r.media] = apiMedia{Schema: &schema{Type: "string"}}
	}
	status := max(r.status, http.StatusOK)
	req.Responses[strconv.Itoa(status)] = ok
	if r.moves {
		req.Responses[strconv.Itoa(http.StatusSeeOther)] = apiAnswer{Description: "Location has the page of the one thing that was asked for"}
	}
	if status == http.StatusCreated {
		dup := ok
		dup.Description = "stored before; the same receipt"
		req.Responses[strconv.Itoa(http.StatusOK)] = dup
	}
	return nil
}

// refusals groups the route's codes by status.
func (d *apiDoc) refusals(r *route, req *apiRequest) error {
	lines := map[int][]string{}
	list := r.codesOf()
	slices.Sort(list)
	for _, code := range slices.Compact(list) {
		doc, ok := codes[code]
		if !ok {
			return fmt.Errorf("error code %q is not described", code)
		}
		lines[doc.status] = append(lines[doc.status], code+": "+doc.meaning)
	}
	for status, text := range lines {
		req.Responses[strconv.Itoa(status)] = apiAnswer{Description: strings.Join(text, "; "), Content: map[string]apiMedia{jsonType[0]: {Schema: refTo("Error")}}}
	}
	return nil
}

func refTo(name string) *schema { return &schema{Ref: "#/components/schemas/" + name} }

// apiPath turns fiber's path into OpenAPI's and returns the parameters' names.
func apiPath(path string) (string, []string) {
	var names []string
	parts := strings.Split(path, "/")
	for i, p := range parts {
		name, isParam := strings.CutPrefix(p, ":")
		if p == "*" {
			name, isParam = "file", true
		}
		if isParam {
			parts[i] = "{" + name + "}"
			names = append(names, name)
		}
	}
	return strings.Join(parts, "/"), names
}

// operationID is the method and the words of the path.
func operationID(r *route) string {
	id := strings.ToLower(r.method)
	for _, w := range strings.FieldsFunc(r.path, func(c rune) bool { return strings.ContainsRune("/:.-*", c) }) {
		id += strings.ToUpper(w[:1]) + w[1:]
	}
	return id
}
