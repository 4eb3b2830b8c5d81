package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var update = flag.Bool("update", false, "write the content hashes into the two files")

// vectors is the one file that every implementation reproduces.
var vectors = filepath.Join("..", "..", "testvectors", "v1.json")

// tool returns the path of the first program found. Without one the test is
// skipped, and fails where CI says that all tools must be there.
func tool(t *testing.T, install string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, install)
	return ""
}

func missing(t *testing.T, install string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(install)
	}
	t.Skip(install)
}

func node(t *testing.T) string { return tool(t, "install Node.js 18 or later", "node") }

func python(t *testing.T) string {
	return tool(t, "install Python 3.9 or later", "python3")
}

// run returns what a program printed, and fails the test unless it exits 0.
func run(t *testing.T, stdin string, name string, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), stdin, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func try(ctx context.Context, stdin string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// TestContentHash recomputes what each header says of its own file, by the
// command that the header gives to the reader: drop the line, hash the rest.
func TestContentHash(t *testing.T) {
	for _, name := range []string{"karatum-flight.mjs", "karatum_flight.py"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`(?m)^(//|#) sha256: ([0-9a-f]{64})\n`)
		found := line.FindSubmatch(text)
		if found == nil || len(line.FindAll(text, -1)) != 1 {
			t.Fatalf("%s: not exactly one sha256 line", name)
		}
		sum := sha256.Sum256(line.ReplaceAll(text, nil))
		want := hex.EncodeToString(sum[:])
		if got := string(found[2]); got == want {
			continue
		} else if !*update {
			t.Errorf("%s says %s, its content hashes to %s; run go test ./web/sdk -run TestContentHash -update", name, got, want)
			continue
		}
		fresh := line.ReplaceAll(text, []byte("$1 sha256: "+want+"\n"))
		if err := os.WriteFile(name, fresh, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSameVersion(t *testing.T) {
	header := regexp.MustCompile(`(?m)^(?://|#) version: (\S+)$`)
	js, py := header.FindStringSubmatch(JavaScript), header.FindStringSubmatch(Python)
	if js == nil || py == nil || js[1] != py[1] {
		t.Fatalf("version lines %v and %v differ", js, py)
	}
	if !strings.Contains(JavaScript, "VERSION = '"+js[1]+"'") || !strings.Contains(Python, `VERSION = "`+py[1]+`"`) {
		t.Error("the VERSION constant is not the header's version")
	}
}

// conformances runs both checkers on a vector file.
func conformances(t *testing.T, check func(t *testing.T, command []string)) {
	t.Run("js", func(t *testing.T) { check(t, []string{node(t), "karatum-flight.mjs"}) })
	t.Run("python", func(t *testing.T) { check(t, []string{python(t), "karatum_flight.py"}) })
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformances(t, func(t *testing.T, command []string) {
		out := run(t, "", command[0], command[1], "conformance", vectors)
		if !regexp.MustCompile(`(?m)^[1-9][0-9]{2,} passed, 0 failed\n\z`).MatchString(out) {
			t.Errorf("last line is not all passed:\n%s", out)
		}
		if strings.Contains(out, "not covered: flight") {
			t.Errorf("a part of the format is not covered:\n%s", out)
		}
	})
}

// TestConformanceNotices changes values of the vectors, so that a checker which
// compares nothing cannot pass.
func TestConformanceNotices(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	edits := map[string]*regexp.Regexp{ // what precedes the one character to replace
		"canonicalJson.cases[2].canonical": regexp.MustCompile(`"raw":\s*"1",\s*"canonical":\s*"`),
		"canonicalJson.errors[0].code":     regexp.MustCompile(`"code":\s*"UNSAFE_INTEGE`),
		"flight.steps[0].stepHash":         regexp.MustCompile(`"stepHash":\s*"0x`),
		"flight.batches[0].batchId":        regexp.MustCompile(`"batchId":\s*"0x`),
		"flight.epoch.attestCalldata":      regexp.MustCompile(`"attestCalldata":\s*"0x`),
		"flight.ratings[1]":                regexp.MustCompile(`"rating":\s*4.9`),
	}
	for path, before := range edits {
		at := before.FindIndex(text)
		if at == nil || text[at[1]] == '8' {
			t.Fatalf("nothing to change for %s", path)
		}
		text[at[1]] = '8'
	}
	file := filepath.Join(t.TempDir(), "v.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	conformances(t, func(t *testing.T, command []string) {
		out, err := try(t.Context(), "", command[0], command[1], "conformance", file)
		if err == nil {
			t.Error("exit 0 with mismatches")
		}
		for path := range edits {
			if !strings.Contains(out, path+"\n  got  ") {
				t.Errorf("%s was changed and not reported in\n%s", path, out)
			}
		}
	})
}

// TestVerifierStandsAlone loads the first part of the module by itself and runs a
// good and a tampered disclosure through it.
func TestVerifierStandsAlone(t *testing.T) {
	t.Parallel()
	if strings.Contains(Verifier(), "import ") || strings.Contains(Verifier(), "import(") {
		t.Error("the verifier imports something")
	}
	file := filepath.Join(t.TempDir(), "verifier.mjs")
	script := Verifier() + `
const { readFileSync } = await import('node:fs');
const { flight } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const seen = [];
const good = await verifyDisclosure(flight.disclosures[2], { onCheck: (row, i) => seen.push([i, row.id, row.state].join(' ')) });
const bad = await verifyDisclosure(JSON.stringify(flight.tampered[0].disclosure));
console.log(seen.join('; '));
console.log(good.ok, good.complete, good.code, bad.ok, bad.code);
`
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "0 step pass; 1 signature pass; 2 place pass; 3 path pass; 4 links pass; 5 reveal pass; 6 epoch skip; 7 anchor skip\n" +
		"true false null false COMMITMENT\n"
	if got := run(t, "", node(t), file, vectors); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestParts leaves out each part in turn: the headings are where the names say, and
// all parts are the whole.
func TestParts(t *testing.T) {
	all := []string{Text, Trees, Steps, Epochs, Disclosures, Bytes, Equivocation, Anchors, Batches}
	if Verifier(all...) != Verifier() {
		t.Error("all parts are not the verifier")
	}
	for i, part := range all {
		text := "// ==== " + part
		rest := Verifier(slices.Concat(all[:i], all[i+1:])...)
		if strings.Count(Verifier(), text) != 1 || strings.Contains(rest, text) || strings.Count(rest, "\n// ==== ") != len(all)-1 {
			t.Errorf("%s is not a part of its own", part)
		}
	}
}

// TestStreamNames compares the embedded category ranges with Go's tables, which
// are those of Unicode 15.0, over every code point.
func TestStreamNames(t *testing.T) {
	t.Parallel()
	if unicode.Version != "15.0.0" {
		t.Skip("this Go has the tables of Unicode " + unicode.Version + ", the format those of 15.0.0")
	}
	var want strings.Builder
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r == '/' || r == ' ' || r == '.' || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Zl, unicode.Zp) {
			fmt.Fprintf(&want, "%x ", r)
		}
	}
	js := `import { checkStream } from './karatum-flight.mjs';
let out = '';
for (let c = 0; c <= 0x10ffff; c++) if (checkStream(String.fromCodePoint(c)) !== true) out += c.toString(16) + ' ';
console.log(out);`
	py := `import karatum_flight as k
print("".join("%x " % c for c in range(0x110000) if k.check_stream(chr(c)) is not True))`
	t.Run("js", func(t *testing.T) { same(t, run(t, js, node(t), "--input-type=module", "-"), want.String()) })
	t.Run("python", func(t *testing.T) { same(t, run(t, py, python(t), "-"), want.String()) })
}

func same(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Fields(got), strings.Fields(want)
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("value %d is %s, want %s", i, g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%d values, want %d", len(g), len(w))
	}
}
