package pages

// A DocsView is the handbook of one node: how to check it, and its API as the table
// of routes has it.
type DocsView struct {
	URL    string       `json:"url"` // of this node, for commands
	Groups []RouteGroup `json:"groups"`
	Codes  []CodeLine   `json:"codes"` // by status, then name
	Checks []CheckLine  `json:"checks"`
}

// A RouteGroup is a part of the API.
type RouteGroup struct {
	ID     string      `json:"id"`
	Title  string      `json:"title"`
	Routes []RouteLine `json:"routes"`
}

// A RouteLine is one route. Href is empty where it has parameters or is no read.
type RouteLine struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Summary string `json:"summary"`
	Href    string `json:"href,omitempty"`
}

// A CodeLine is one error code.
type CodeLine struct {
	Code    string `json:"code"`
	Status  int    `json:"status"`
	Meaning string `json:"meaning"`
}

// A CheckLine is one check of the verifier.
type CheckLine struct {
	Title  string `json:"title"`
	Proves string `json:"proves"`
}

// operatorCommand shows an operator's request.
func operatorCommand(url string) string {
	return `curl -X POST -H "Authorization: Bearer $(cat karatum-data/operator.token)" -H 'Content-Type: application/json' ` + url + "/v1/admin/anchor"
}

// verifyCommands fetch a document and check it on the reader's machine.
func verifyCommands(url string) string {
	return "curl -fsSo step.json " + url + `/v1/flight/proofs/0xSTEP/bundle
karatum verify step.json

curl -fsSO ` + url + `/sdk/karatum_flight.py
python3 karatum_flight.py verify step.json`
}

// postCommand delivers a signed batch.
func postCommand(url string) string {
	return "curl -H 'Content-Type: application/json' --data-binary @batch.json " + url + "/v1/flight/batches"
}
