package verifier

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"karatum/web/sdk"
)

func styles(t *testing.T) []byte {
	t.Helper()
	css, err := os.ReadFile("../static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	return css
}

func asset(t *testing.T, name string) string {
	t.Helper()
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Joined modules share one scope, so each name is declared once; none keeps an
// import.
func TestModulesJoin(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:const|let|class|function) (\w+)`)
	for _, modules := range [][]string{recordModules, evidenceModules, verifyModules, viewModules, toolsModules, askModules, offlineModules} {
		seen := map[string]bool{}
		for _, name := range modules {
			for _, m := range declared.FindAllStringSubmatch(asset(t, name), -1) {
				if seen[m[1]] {
					t.Errorf("%s: %s is declared before", name, m[1])
				}
				seen[m[1]] = true
			}
		}
		text, err := join(modules, nil)
		if err != nil || strings.Contains(text, "\nimport {") {
			t.Errorf("%v: an import is left, %v", modules, err)
		}
	}
	if _, err := join([]string{"nothing.js"}, nil); err == nil {
		t.Error("a module that is not there was joined")
	}
}

// What Strip relies on: no text in backquotes goes over a line, and no line begins
// like a comment and is none. A slower reader, line by line, leaves the same.
func TestStrip(t *testing.T) {
	sources := map[string]string{"karatum-flight.mjs": sdk.Verifier()}
	for _, name := range []string{"app.js", "live.js"} {
		page, err := os.ReadFile("../static/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(page)
	}
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".js") {
			sources[e.Name()] = asset(t, e.Name())
		}
	}
	for name, text := range sources {
		inComment, code := false, strings.Builder{}
		for line := range strings.Lines(text) {
			at := strings.TrimSpace(line)
			switch {
			case inComment, strings.HasPrefix(at, "/*"):
				inComment = !strings.HasSuffix(at, "*/")
				continue
			case strings.HasPrefix(at, "//"), at == "":
				continue
			case strings.Count(line, "`")%2 != 0, strings.HasPrefix(at, "*"):
				t.Errorf("%s: Strip cannot be trusted with %s", name, line)
			}
			code.WriteString(at + "\n")
		}
		if got := Strip(text); got != code.String() {
			t.Errorf("%s: stripped to %d bytes, line by line to %d", name, len(got), code.Len())
		}
	}
}

// The modules also load by themselves, with their imports, and the joined files are
// modules as well.
func TestSyntax(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("install Node.js 18 or later")
		}
		t.Skip("install Node.js 18 or later")
	}
	a, err := New(styles(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, s := range a.Scripts() {
		file := filepath.Join(dir, strings.TrimSuffix(s.Name, ".js")+".mjs")
		if err := os.WriteFile(file, s.Body, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), node, "--check", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", s.Name, out)
		}
	}
	for _, name := range slices.Concat(viewModules, toolsModules, askModules) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(asset(t, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	load := "globalThis.document = { querySelectorAll: () => [] };"
	for _, name := range []string{"view.js", "tools.js", "ask.js", "words-record.js", "words-evidence.js", "words-parts.js"} {
		load += "await import('" + filepath.Join(dir, name) + "');"
	}
	if out, err := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", load).CombinedOutput(); err != nil {
		t.Errorf("the modules by themselves: %s", out)
	}
}

// Every row that the templates name has words for what it computed.
func TestEveryCheckSays(t *testing.T) {
	words, err := join([]string{"words-record.js", "words-evidence.js", "words-parts.js"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, c := range AnyChecks() {
		if ids[c.ID] || c.Title == "" || c.Proves == "" {
			t.Errorf("check %+v", c)
		}
		ids[c.ID] = true
		if !regexp.MustCompile(`(?m)(^|, )` + c.ID + `: (\(r|statement,)`).MatchString(words) {
			t.Errorf("no words of %s", c.ID)
		}
	}
	if len(DisclosureChecks()) != 8 || len(EvidenceChecks()) != 3 {
		t.Errorf("%d and %d checks", len(DisclosureChecks()), len(EvidenceChecks()))
	}
}

// What pages load to check what they embed fits into the plan's budget for scripts,
// that of a conflict of two steps as well, which the demo does not make. What a page
// loads besides, web/e2e counts.
func TestBudget(t *testing.T) {
	a, err := New(styles(t))
	if err != nil {
		t.Fatal(err)
	}
	app, err := os.ReadFile("../static/app.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Page{"record": a.Record, "evidence": a.Evidence, "chain": a.Chain} {
		sum := 0
		for _, text := range [][]byte{[]byte(Strip(string(app))), p.Script.Body, p.Checkers[0].Body} {
			var b bytes.Buffer
			w := brotli.NewWriterLevel(&b, brotli.BestCompression)
			if _, err := w.Write(text); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			sum += b.Len()
		}
		if sum > (3+10)<<10 {
			t.Errorf("%s: %d bytes of scripts in brotli", name, sum)
		}
		t.Logf("%s: %d bytes", name, sum)
	}
}

// The offline page keeps the rules that can apply to it, and no others.
func TestPrune(t *testing.T) {
	const page = `<div class="card"><a href="#x">nav</a></div>`
	for css, want := range map[string]string{
		"/* a { } */ .card { top: 0 }":                             ".card { top: 0 }\n",
		".card > .foot, .card a { top: 0 }":                        ".card > .foot, .card a { top: 0 }\n",
		".foot { top: 0 } .wide { top: 1px }":                      ".wide { top: 1px }\n",
		".card:not(.foot)::before { content: \"x\" }":              ".card:not(.foot)::before { content: \"x\" }\n",
		"[data-theme] .card { top: 0 } * { top: 0 }":               "* { top: 0 }\n",
		"@font-face { src: x } @media print { .foot { top: 0 } }":  "",
		"@media print { .foot { top: 0 } .card { top: 0 } } a { }": "@media print {\n.card { top: 0 }\n}\na { }\n",
		"nav { top: 0 }": "",
	} {
		if got := prune(css, page, `nav.className = 'wide'`); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", css, got, want)
		}
	}
	a, err := New(styles(t))
	if err != nil {
		t.Fatal(err)
	}
	offline := string(a.Offline)
	for _, want := range []string{".checks li {", ".chip[aria-pressed=\"true\"] {", "#document {", "@media (max-width: 640px) {", "--paper:", ".differ {", ".kv {"} {
		if !strings.Contains(offline, want) {
			t.Errorf("the offline page has no rule %s", want)
		}
	}
	for _, other := range []string{".mast ", ".dial ", ".feed ", ".tbl ", "@font-face", "@keyframes"} {
		if strings.Contains(offline, "\n"+other) {
			t.Errorf("the offline page has the rule %s", other)
		}
	}
}
