package verifier

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func styles(t *testing.T) []byte {
	t.Helper()
	css, err := os.ReadFile("../static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	return css
}

// Joined modules share one scope, so each name is declared once; none keeps an
// import or an export.
func TestModulesJoin(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^(?:async )?(?:const|let|class|function) (\w+)`)
	for _, modules := range [][]string{panelModules, verifyModules} {
		text, err := join(modules)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			if name := string(m[1]); seen[name] {
				t.Errorf("%s: %s is declared twice", modules[len(modules)-1], name)
			} else {
				seen[name] = true
			}
		}
		if regexp.MustCompile(`(?m)^(import \{|export )`).Match(text) {
			t.Errorf("%s keeps an import or export", modules[len(modules)-1])
		}
	}
	if _, err := join([]string{"nothing.js"}); err == nil {
		t.Error("a module that is not there was joined")
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
	for _, s := range []Script{a.Worker, a.Panel, a.Verify} {
		file := filepath.Join(dir, strings.TrimSuffix(s.Name, ".js")+".mjs")
		if err := os.WriteFile(file, s.Body, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), node, "--check", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", s.Name, out)
		}
	}
	for _, name := range verifyModules[:4] {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", "await import('"+filepath.Join(dir, "panel.js")+"')").CombinedOutput(); err != nil {
		t.Errorf("panel.js by itself: %s", out)
	}
}

// Every row that the templates name has words for what it computed.
func TestEveryCheckSays(t *testing.T) {
	words, err := assets.ReadFile("assets/words.js")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, c := range AnyChecks() {
		if ids[c.ID] || c.Title == "" || c.Proves == "" {
			t.Errorf("check %+v", c)
		}
		ids[c.ID] = true
		if !regexp.MustCompile(`(?m)^(  ` + c.ID + `: \(r\) =>|SAYS\.` + c.ID + ` =)`).Match(words) {
			t.Errorf("words.js says nothing of %s", c.ID)
		}
	}
	if len(DisclosureChecks()) != 8 || len(EvidenceChecks()) != 3 {
		t.Errorf("%d and %d checks", len(DisclosureChecks()), len(EvidenceChecks()))
	}
}

func TestStyleSections(t *testing.T) {
	css := string(styles(t))
	if _, err := New([]byte(strings.Replace(css, "/* Base -", "/* Basis -", 1))); err == nil || !strings.Contains(err.Error(), "sections") {
		t.Errorf("a style sheet without a section: %v", err)
	}
	kept, err := sections(css)
	if err != nil || len(kept) >= len(css) || strings.Contains(kept, "@font-face") || strings.Contains(kept, "/* Masthead") {
		t.Errorf("%d of %d bytes kept, %v", len(kept), len(css), err)
	}
}
