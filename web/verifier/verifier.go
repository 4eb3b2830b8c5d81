// Package verifier holds what runs in a reader's browser: the checks of the format
// in a worker, the panel that shows them, and the page that works without a network.
//
// There is one implementation of the checks, the first part of the JavaScript SDK.
// A worker is those of its parts that a kind of document has use for, line by line
// without the comments, with the worker's own part after them. The page of a record
// loads that record's; /verify loads one when it has a document, for its kind.
// Nothing is bundled by a tool and no name is changed: modules are joined here, at
// start, so "view source" shows what checks a record.
//
// What the pages are trusted with: they came from the server that a reader may want
// to check, so each names ways to check elsewhere. The worker is trusted with
// nothing but its answer: it runs under a policy that forbids every connection.
package verifier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed assets
var assets embed.FS

// Assets are the files that a server hands out, made once by [New].
type Assets struct {
	Record   Page   // of one step
	Evidence Page   // of a conflict of two batches
	Chain    Page   // of a conflict of two steps
	Any      Page   // /verify, which takes any document
	CSS      []byte // the panel's part of the style sheet
	Offline  []byte // the page that works from a file
	Policy   string // of the offline page, which states it itself as well

	worker Script   // for any document
	later  []Script // what pages load when a reader has a document, comes near the tools, or asks
}

// Scripts are all scripts that pages load.
func (a *Assets) Scripts() []Script {
	all := append([]Script{a.Record.Script, a.Evidence.Script, a.Any.Script}, a.later...)
	for _, c := range append(a.Any.Checkers, a.Chain.Checkers...) { // those of records and evidence are among them
		all = append(all, c.Script)
	}
	return all
}

// New makes the files. The offline page holds what it needs of css, the style sheet of
// all pages, as well. The error names an asset that is not as it must be.
func New(css []byte) (*Assets, error) {
	a := &Assets{}
	var err error
	if err = a.makeScripts(); err != nil {
		return nil, err
	}
	if a.CSS, err = assets.ReadFile("assets/panel.css"); err != nil {
		return nil, err
	}
	if err := a.makeOffline(css); err != nil {
		return nil, fmt.Errorf("verifier: offline page: %w", err)
	}
	return a, nil
}

// makeOffline puts everything into one page whose own policy runs this script and
// no other, and lets nothing be loaded or sent.
func (a *Assets) makeOffline(css []byte) error {
	page, err := join(offlineModules, map[string]string{"view": "Promise.resolve({ makeView })", "tools": "Promise.resolve({ equip })", "ask": "Promise.reject(new Error('there is no network here'))"})
	if err != nil {
		return err
	}
	page = exportWord.ReplaceAllString(page, "")
	checks := exportWord.ReplaceAll(a.worker.Body, nil)
	script := fmt.Sprintf("const embeddedVerifier = (() => {\n%s\nreturn { serve };\n})();\n\n%s", checks, page)
	render := func(policy, style, script string) error {
		var b bytes.Buffer
		err := offlinePage(policy, style, script, Panel{
			Offline: true, Forge: true, AnyChecks: AnyChecks(), Checkers: []Checker{{Script: a.worker}}, File: "document.json", Record: "#",
		}).Render(context.Background(), &b)
		a.Offline = b.Bytes()
		return err
	}
	if err := render("", "", ""); err != nil { // tells which rules of the style sheet it needs
		return err
	}
	style := prune(string(css)+string(a.CSS), string(a.Offline), script)
	if strings.Contains(strings.ToLower(script), "</script") || strings.Contains(style, "</") {
		return fmt.Errorf("an asset holds a closing tag")
	}
	a.Policy = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		pin(script), pin(style))
	return render(a.Policy, style, script)
}

// pin is a hash as policies name it.
func pin(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A Panel is what [View] shows.
type Panel struct {
	Checks    []Check // rows that stand there before anything ran
	AnyChecks []Check // rows that a document may bring, where it is not known yet
	Asks      bool    // offers to ask an RPC
	Forge     bool    // offers to forge
	Amount    bool    // the record is known to open a claim with an amount
	Next      string  // number of the step after the record's, "" where that is not known yet
	Offline   bool

	Checkers     []Checker       // what checks, the page's own first
	Static       string          // address under which they are, with the slash at its end
	Save         string          // address of the offline page
	Record, File string          // where the record is without JavaScript, and its name as a file
	Local        string          // address of /verify on the reader's own machine, up to and with the #; "" for none
	Document     json.RawMessage // nil where the reader brings it
}

// A Check is a row.
type Check struct{ ID, Title, Proves string }

var disclosureChecks = []Check{
	{"reveal", "Opened values match their seals", "Each value and its salt hash to the commitment in the record."},
	{"step", "Record fingerprint", "The whole step record, hashed in its canonical form."},
	{"place", "Right place in the batch", "Agent, stream, number and proof position agree."},
	{"path", "Reaches the signed root", "The path from this step leads to the root the agent signed."},
	{"links", "Links to its neighbours", "First and last steps tie this batch to the ones around it."},
	{"signature", "Signed by the agent", "The batch signature recovers to the agent’s address."},
	{"epoch", "Part of the epoch", "The batch is a leaf of the tree written on chain."},
	{"anchor", "Written on chain", "The anchor transaction carries this epoch root."},
}

var evidenceChecks = []Check{
	{"a", "First statement", "Its signature recovers to the agent’s address."},
	{"b", "Second statement", "Its signature recovers to the same address."},
	{"contradiction", "They contradict each other", "No honest history of one stream holds both."},
}

var otherChecks = []Check{
	{"batch", "Signed batch", "The header is possible, and its signature recovers to the agent."},
	{"receipt", "The node’s receipt", "The node signed its promise to anchor this batch."},
	{"same", "One batch throughout", "All parts speak of the same batch."},
}

// DisclosureChecks are the eight checks of a disclosure, in the order of a page.
func DisclosureChecks() []Check { return append([]Check{}, disclosureChecks...) }

// EvidenceChecks are the checks of equivocation evidence.
func EvidenceChecks() []Check { return append([]Check{}, evidenceChecks...) }

// AnyChecks are all checks that there are.
func AnyChecks() []Check {
	return append(append(EvidenceChecks(), disclosureChecks...), otherChecks...)
}
