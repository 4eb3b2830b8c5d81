package verifier

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"karatum/web/sdk"
)

// A Script is a file that pages load. Its name changes with its content.
type Script struct {
	Name   string
	Body   []byte
	SHA256 string // of Body, as lower-case hex without 0x
}

// A Checker is a script that checks documents: a worker, but for the anchor's.
type Checker struct {
	Script
	Kind string // "record", "evidence" (of two batches), "chain" (of two steps) or "any" of documents, or "anchor"
	Says string // what it checks, in the words of the panel
}

// A Page is what a page with a panel loads: its script, and later what checks.
type Page struct {
	Script   Script
	Checkers []Checker
}

func newScript(name, body string) Script {
	sum := sha256.Sum256([]byte(body))
	return Script{Name: fmt.Sprintf("%s.%x.js", name, sum[:8]), Body: []byte(body), SHA256: hex.EncodeToString(sum[:])}
}

// The modules of each script, each after those that it imports. What a page loads
// later brings its own copy of what it imports.
var (
	recordModules   = []string{"words.js", "words-record.js", "engine.js", "start.js", "panel.js", "mount.js"}
	evidenceModules = []string{"words.js", "words-evidence.js", "engine.js", "start.js", "panel.js", "mount.js"}
	verifyModules   = []string{"verify.js"}
	viewModules     = []string{"words.js", "words-record.js", "words-evidence.js", "words-parts.js", "engine.js", "start.js", "kind.js", "choose.js", "panel.js", "view.js"}
	toolsModules    = []string{"words.js", "forge.js", "tools.js"}
	askModules      = []string{"engine.js", "ask.js"}
	offlineModules  = []string{"words.js", "words-record.js", "words-evidence.js", "words-parts.js", "engine.js", "offline.js", "forge.js", "tools.js", "panel.js", "view.js", "verify.js"}
)

// makeScripts joins the modules and the parts of the SDK.
func (a *Assets) makeScripts() error {
	var err error
	script := func(name, before string, modules []string, later ...Script) Script {
		text, e := join(modules, imported(later))
		err = cmp.Or(err, e)
		return newScript(name, before+text)
	}
	worker := func(name, own string, parts ...string) Script {
		return script(name, Strip(sdk.Verifier(parts...)), []string{own, "serve.js"})
	}
	records := []string{sdk.Text, sdk.Trees, sdk.Steps, sdk.Epochs, sdk.Disclosures}
	a.worker = worker("worker", "examine.js", append(records, sdk.Bytes, sdk.Equivocation, sdk.Batches)...)
	record := Checker{worker("record-worker", "record.js", records...), "record", "The record of a step is checked by"}
	evidence := Checker{worker("evidence-worker", "evidence.js", sdk.Equivocation), "evidence", "Evidence of two batches is checked by"}
	chain := Checker{worker("chain-worker", "evidence.js", append(records, sdk.Equivocation)...), "chain", "Evidence of two steps is checked by"}
	anything := Checker{a.worker, "any", "Any other document is checked by"}
	anchor := Checker{newScript("anchor", Strip(sdk.Verifier(sdk.Trees, sdk.Epochs, sdk.Anchors))), "anchor", "What an RPC tells is checked by"}

	ask := script("ask", "", askModules)
	tools := script("tools", "", toolsModules, ask)
	view := script("view", "", viewModules, tools)
	a.Record = Page{script("record", "", recordModules, tools), []Checker{record, anchor}}
	a.Evidence = Page{script("evidence", "", evidenceModules, tools), []Checker{evidence}}
	a.Chain = Page{a.Evidence.Script, []Checker{chain}}
	a.Any = Page{script("verify", "", verifyModules, view), []Checker{record, evidence, anything, anchor}}
	a.later = []Script{view, tools, ask}
	return err
}

// imported is the code that imports each of the scripts by its name beside this one,
// by the name of the module that it is in the sources.
func imported(scripts []Script) map[string]string {
	m := map[string]string{}
	for _, s := range scripts {
		module, _, _ := strings.Cut(s.Name, ".")
		m[module] = "import('./" + s.Name + "')"
	}
	return m
}

var (
	importLine = regexp.MustCompile(`(?m)^import \{[^}]*\} from '\./[a-z-]+\.js';\n`)
	exportWord = regexp.MustCompile(`(?m)^export `)
	importCall = regexp.MustCompile(`import\('\./([a-z]+)\.js'\)`)
)

// exporting are the modules from which another script imports: what is loaded later,
// and what a page runs by itself where workers are blocked.
var exporting = []string{"view.js", "tools.js", "ask.js", "record.js", "evidence.js", "examine.js", "serve.js"}

// join concatenates modules into one: their names are distinct, so imports and
// exports between them fall away. What takes the place of an import in the course of
// the program stands in later, by the name of the module.
func join(names []string, later map[string]string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		raw, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return "", err
		}
		text := importLine.ReplaceAllString(string(raw), "")
		if !slices.Contains(exporting, name) {
			text = exportWord.ReplaceAllString(text, "")
		}
		b.WriteString(text)
	}
	joined := importCall.ReplaceAllStringFunc(b.String(), func(call string) string {
		return cmp.Or(later[importCall.FindStringSubmatch(call)[1]], call)
	})
	return Strip(joined), nil
}

var comment = regexp.MustCompile(`(?ms)^\s*(//[^\n]*|/\*.*?\*/)\s*?\n`)

// Strip leaves out comments, blank lines and indentation, so that what is loaded
// reads as it was written and is a third smaller. It is exact for our own sources,
// for they keep two rules that a test holds: a comment has lines of its own, and no
// text in backquotes goes over a line.
func Strip(text string) string {
	var b strings.Builder
	for line := range strings.Lines(comment.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
