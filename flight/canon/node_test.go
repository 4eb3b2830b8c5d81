package canon_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"karatum/flight/canon"
)

// nodeScript canonicalises each line of its input. JSON.stringify alone would not
// do: it puts keys that look like array indexes first.
const nodeScript = `
const c = v => Array.isArray(v) ? '[' + v.map(c).join(',') + ']'
  : v && typeof v === 'object' ? '{' + Object.keys(v).sort().map(k => JSON.stringify(k) + ':' + c(v[k])).join(',') + '}'
  : JSON.stringify(v)
const lines = require('fs').readFileSync(0, 'utf8').split('\n').slice(0, -1)
process.stdout.write(lines.map(l => c(JSON.parse(l)) + '\n').join(''))
`

func TestAgainstNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is not on PATH; install Node.js 18 or newer")
		}
		t.Skip("node is not on PATH; install Node.js 18 or newer to compare with JSON.stringify")
	}
	lines := nodeLines()
	cmd := exec.CommandContext(t.Context(), node, "-e", nodeScript)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(bytes.Join(append(lines, nil), []byte("\n"))), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := bufio.NewScanner(bytes.NewReader(out))
	want.Buffer(nil, 1<<20)
	for i, line := range lines {
		got, err := canon.Canonical(line)
		if !want.Scan() {
			t.Fatalf("node answered %d lines of %d", i, len(lines))
		}
		if errors.Is(err, &canon.Error{Code: canon.UnsafeInteger}) {
			continue // the one kind of text that JSON.parse takes and Parse refuses
		}
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("Canonical(%.100q) = %.100q, %v, node has %.100q", line, got, err, want.Bytes())
		}
	}
	t.Logf("%d texts compared", len(lines))
}

func nodeLines() (lines [][]byte) {
	doubles(1000, func(f float64) {
		lines = append(lines, strconv.AppendFloat(nil, f, 'g', -1, 64), strconv.AppendFloat(nil, f, 'f', 6, 64), fmt.Appendf(nil, "%.25e", f))
	})
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		lines = append(lines, []byte(drawString(rnd)), []byte(drawObject(rnd, 3)))
	}
	return lines
}

// drawString returns the JSON text of a string of interesting code units, written
// raw or escaped.
func drawString(rnd *rand.Rand) string {
	runes := []rune{0, 8, 9, 10, 12, 13, 0x1f, ' ', '"', '\\', '/', '<', 'a', 'b', 0x7f, 0x80, 0xe9, 0x7ff, 0x800, 0x2028, 0x2029, 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xfb33, 0xfeff, 0xfffd, 0xffff, 0x10000, 0x1f600, 0x10ffff}
	var b strings.Builder
	b.WriteByte('"')
	for range rnd.IntN(6) {
		r := runes[rnd.IntN(len(runes))]
		switch {
		case r >= 0xd800 && r < 0xe000, r < 0x20, r == '"', r == '\\', r < 0x10000 && rnd.IntN(2) == 0:
			fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[rnd.IntN(2)], r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// drawObject returns the JSON text of an object with distinct keys, up to depth
// inside each other.
func drawObject(rnd *rand.Rand, depth int) string {
	keys := map[string]bool{}
	var parts []string
	for range rnd.IntN(6) {
		key := drawString(rnd)
		if rnd.IntN(4) == 0 {
			key = fmt.Sprintf(`"%d"`, rnd.IntN(12))
		}
		canonical, err := canon.Canonical([]byte(key))
		if err != nil || keys[string(canonical)] {
			continue
		}
		keys[string(canonical)] = true
		parts = append(parts, key+" : "+drawValue(rnd, depth-1))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func drawValue(rnd *rand.Rand, depth int) string {
	switch n := rnd.IntN(7); {
	case n == 0:
		return []string{"true", "false", "null", "[]", "{}"}[rnd.IntN(5)]
	case n == 1:
		return strconv.FormatFloat(rnd.NormFloat64()*1e3, 'e', rnd.IntN(18), 64)
	case n <= 3 || depth <= 0:
		return drawString(rnd)
	case n == 4:
		return "[" + drawValue(rnd, depth-1) + "," + drawValue(rnd, depth-1) + "]"
	}
	return drawObject(rnd, depth)
}
