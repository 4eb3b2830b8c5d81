package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"karatum/app"
	"karatum/flight"
)

// previewRunes bounds a text on a page; the JSON twin has all of it.
const previewRunes = 4096

// A hashView is a hash, shown short with the whole in its title.
type hashView struct {
	Full, Short string
	Href        string // "" for no link
}

// A timeView is a time, relative with the exact one in its title.
type timeView struct{ ISO, UTC, Text string }

// funcs are what the templates may call.
func (p *pages) funcs() template.FuncMap {
	return template.FuncMap{
		"link": p.s.link,
		"hash": func(v any, parts ...any) hashView {
			h := hashView{Full: fmt.Sprint(v), Short: shorten(fmt.Sprint(v))}
			if len(parts) > 0 {
				h.Href = p.s.link(parts...)
			}
			return h
		},
		"full":    func(v any) hashView { return hashView{Full: fmt.Sprint(v), Short: fmt.Sprint(v)} },
		"when":    func(ms uint64) timeView { return whenView(ms, p.s.cfg.Now()) },
		"whenSec": func(sec uint64) timeView { return whenView(sec*1000, p.s.cfg.Now()) },
		"num":     number,
		"size":    byteSize,
		"percent": percent,
		"rating":  func(f *float64) string { return ratingText(*f) },
		"ratio":   ratingText,
		"primary": p.s.primary,
		"beside":  p.s.beside,
		"glyph":   glyph,
		"reason":  reasonWords,
		"stages":  stages,
		"json": func(v any) (string, error) {
			out, err := json.MarshalIndent(v, "", "  ")
			return string(out), err
		},
		"oldest": func(runs []app.CronRunView) []app.CronRunView {
			out := slices.Clone(runs)
			slices.Reverse(out)
			return out
		},
		"failures": func(runs []app.CronRunView) (n int) {
			for _, r := range runs {
				if r.Error != "" {
					n++
				}
			}
			return n
		},
		"runTitle": runTitle,
		"network":  func() app.NetworkView { return p.s.network },
		"lower":    strings.ToLower,
		"visible":  visible,
		"pretty":   pretty,
		"state":    stateClass,
		"plural": func(n uint64, one, many string) string {
			if n == 1 {
				return number(n) + " " + one
			}
			return number(n) + " " + many
		},
		"statement": statementOf,
	}
}

// shorten keeps the first 6 and last 4 characters of long hex.
func shorten(hex string) string {
	if len(hex) <= 14 {
		return hex
	}
	return hex[:6] + "…" + hex[len(hex)-4:]
}

func whenView(ms uint64, now time.Time) timeView {
	if ms == 0 || ms > 253402300799999 { // past year 9999 there is no ISO form
		return timeView{Text: "never"}
	}
	t := time.UnixMilli(int64(ms)).UTC()
	v := timeView{ISO: t.Format(time.RFC3339), UTC: t.Format("2006-01-02 15:04:05") + " UTC"}
	if d := now.Sub(t); d >= 0 {
		v.Text = age(d) + " ago"
	} else {
		v.Text = "in " + age(-d)
	}
	return v
}

// A stage is a state of an anchor and when it was reached.
type stage struct {
	State string
	At    uint64
}

// stages puts the times of an epoch in their order; of equal ones pending is first.
func stages(times map[string]uint64) []stage {
	var out []stage
	for state, at := range times {
		out = append(out, stage{state, at})
	}
	slices.SortFunc(out, func(a, b stage) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.State, a.State))
	})
	return out
}

// runTitle says one run of a job: when, how long, and what came of it.
func runTitle(r app.CronRunView) string {
	t := time.UnixMilli(int64(r.Start)).UTC().Format("2006-01-02 15:04:05") + " UTC, " + fmt.Sprint(time.Duration(r.End-min(r.Start, r.End))*time.Millisecond)
	if r.Error != "" {
		return t + ": failed: " + visible(r.Error)
	}
	return t + ": " + visible(r.Note)
}

// number groups digits in threes.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func byteSize(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// visible makes text from outside safe to look at: characters that hide or
// reorder what stands beside them are shown as their code points, and long text
// is cut. Escaping for HTML is the template's.
func visible(v any) string {
	var b strings.Builder
	n := 0
	for _, r := range fmt.Sprint(v) {
		if n++; n > previewRunes {
			b.WriteString("… (cut here; the JSON has all of it)")
			break
		}
		if r == '\n' || r == '\t' || (unicode.IsPrint(r) && r != utf8.RuneError) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%04x}", r)
		}
	}
	return b.String()
}

// pretty indents JSON for reading. Numbers and strings keep their spelling.
func pretty(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	out, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return visible(string(raw))
	}
	// MarshalIndent escapes for HTML, which the template does again.
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(out))
	return visible(plain)
}

// stateClass is the CSS class of a verdict, an anchor state or a check.
func stateClass(v any) string {
	switch fmt.Sprint(v) {
	case "confirmed", "safe", "final", "pass", "true":
		return "ok"
	case "contradicted", "failed", "fail", "false":
		return "bad"
	case "orphaned":
		return "warn"
	}
	return "unk"
}

// A statement is one side of an equivocation as a page shows it: the lines that
// were signed.
type statement struct {
	Scheme, Signature string
	Lines             []statementLine
}

type statementLine struct {
	Key, Value string
	Differs    bool
}

// statementOf reads both sides of evidence; it returns nil for evidence of another
// form than two signed headers, which is shown as JSON.
func statementOf(raw json.RawMessage) []statement {
	ev, err := flight.ParseEvidence(raw)
	if err != nil || ev.Reason == flight.BrokenChain {
		return nil
	}
	a, b := textLines(&ev.A), textLines(&ev.B)
	for i := range a.Lines {
		if i < len(b.Lines) && a.Lines[i].Value != b.Lines[i].Value {
			a.Lines[i].Differs, b.Lines[i].Differs = true, true
		}
	}
	return []statement{a, b}
}

func textLines(b *flight.Batch) statement {
	st := statement{Scheme: string(b.Scheme), Signature: b.Signature.String()}
	for line := range strings.SplitSeq(b.Header.Text(), "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			st.Lines = append(st.Lines, statementLine{Key: key, Value: value})
		}
	}
	return st
}
