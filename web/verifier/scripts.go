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

// A Page is what a page with a panel loads: its script, and the worker that this
// starts, which holds the checks that such a page needs.
type Page struct{ Script, Worker Script }

func newScript(name, body string) Script {
	sum := sha256.Sum256([]byte(body))
	return Script{Name: fmt.Sprintf("%s.%x.js", name, sum[:8]), Body: []byte(body), SHA256: hex.EncodeToString(sum[:])}
}

// The modules of the pages, each after those that it imports. The tools are loaded
// when a reader wants them, so they bring their own copy of what they import.
var (
	recordModules   = []string{"words.js", "engine.js", "panel.js", "mount.js"}
	evidenceModules = []string{"words.js", "more.js", "engine.js", "panel.js", "mount.js"}
	toolsModules    = []string{"words.js", "engine.js", "forge.js", "tools.js"}
	verifyModules   = []string{"words.js", "more.js", "engine.js", "panel.js", "verify.js"}
	offlineModules  = []string{"words.js", "more.js", "engine.js", "forge.js", "tools.js", "panel.js", "verify.js"}
)

// makeScripts joins the modules and the parts of the SDK.
func (a *Assets) makeScripts() error {
	var err error
	script := func(name, text string, e error) Script {
		if err == nil {
			err = e
		}
		return newScript(name, text)
	}
	worker := func(name string, own string, parts ...string) Script {
		text, e := join([]string{own, "serve.js"}, nil)
		return script(name, Strip(sdk.Verifier(parts...))+text, e)
	}
	a.Record.Worker = worker("record-worker", "record.js", sdk.Disclosures)
	a.Evidence.Worker = worker("evidence-worker", "evidence.js", sdk.Disclosures, sdk.Equivocation)
	a.Any.Worker = worker("worker", "examine.js")
	page := func(name string, modules []string, links map[string]string) Script {
		text, e := join(modules, links)
		return script(name, text, e)
	}
	a.Tools = page("tools", toolsModules, map[string]string{"worker": imported(a.Any.Worker)})
	links := map[string]string{"tools": imported(a.Tools)}
	a.Record.Script = page("record", recordModules, links)
	a.Evidence.Script = page("evidence", evidenceModules, links)
	a.Any.Script = page("verify", verifyModules, links)
	return err
}

// imported is the code that imports another script, by its name beside this one.
func imported(s Script) string { return "import('./" + s.Name + "')" }

var (
	importLine = regexp.MustCompile(`(?m)^import \{[^}]*\} from '\./[a-z]+\.js';\n`)
	exportWord = regexp.MustCompile(`(?m)^export `)
	importCall = regexp.MustCompile(`import\('\./([a-z]+)\.js'\)`)
)

// exporting are the modules from which another script imports: the tools, and what
// a page runs by itself where workers are blocked.
var exporting = []string{"tools.js", "record.js", "evidence.js", "examine.js", "serve.js"}

// join concatenates modules into one: their names are distinct, so imports and
// exports between them fall away. What takes the place of an import in the course of the program
// stands in later, by the name of the module.
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
