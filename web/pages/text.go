package pages

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"karatum/app"
)

// previewRunes bounds a text on a page; the JSON twin has all of it.
const previewRunes = 4096

// Visible makes text from outside safe to look at: characters that hide or reorder
// what stands beside them are shown as their code points, and long text is cut.
// Escaping for HTML is the template's.
func Visible(text string) string {
	if isPlain(text) {
		return text
	}
	var b strings.Builder
	n := 0
	for _, r := range text {
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

// isPlain reports whether a text is short and of letters, digits and signs of ASCII,
// as most are.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= previewRunes
}

// pretty indents JSON for reading. Numbers and strings keep their spelling.
func pretty(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	out, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return Visible(string(raw))
	}
	// MarshalIndent escapes for HTML, which the template does again.
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(out))
	return Visible(plain)
}

// asJSON is a view as indented JSON, in which characters that hide or reorder text
// are escaped as JSON does.
func asJSON(v any) (string, error) {
	out, err := json.MarshalIndent(v, "", "  ")
	var b strings.Builder
	for _, r := range string(out) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String(), err
}

// Shorten keeps the first 6 and last 4 characters of long hex.
func Shorten(hex string) string {
	if len(hex) <= 14 {
		return hex
	}
	return hex[:6] + "…" + hex[len(hex)-4:]
}

// sentence begins a word as a sentence does.
func sentence(word string) string {
	first, n := utf8.DecodeRuneInString(word)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + word[n:]
}

// message is what an error says as a sentence; the name of a field stays as it is.
func message(e *app.Error) string {
	text := Visible(e.Message)
	if field, ok := e.Details["field"].(string); !ok || !strings.HasPrefix(text, field+" ") {
		text = sentence(text)
	}
	return strings.TrimSuffix(text, ".") + "."
}

// number groups digits in threes.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// numbers is a range, or the one number that it holds.
func numbers(from, to uint64) string {
	if from == to {
		return number(from)
	}
	return number(from) + " to " + number(to)
}

// steps names a range of steps.
func steps(from, to uint64) string {
	if from == to {
		return "step " + number(from)
	}
	return "steps " + numbers(from, to)
}

// plural is a count with the word that goes with it.
func plural(n uint64, one, many string) string {
	if n == 1 {
		return number(n) + " " + one
	}
	return number(n) + " " + many
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

// RatingText is a rating as every page writes it.
func RatingText(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }

// Percent is a share of 0 to 1 in percent, without the sign.
func Percent(f float64) string { return strconv.FormatFloat(f*100, 'f', 1, 64) }

// A timeView is a time, relative with the exact one in its title.
type timeView struct{ ISO, UTC, Text string }

func whenView(ms uint64, now time.Time) timeView {
	if ms == 0 || ms > 253402300799999 { // past year 9999 there is no ISO form
		return timeView{Text: "never"}
	}
	t := time.UnixMilli(int64(ms)).UTC()
	v := timeView{ISO: t.Format(time.RFC3339), UTC: t.Format("2006-01-02 15:04:05") + " UTC"}
	v.Text = relative(now.Sub(t))
	return v
}

// relative says how long ago something was, or with a negative age how soon it will
// be. It counts no seconds, so that a page stays the same for a while.
func relative(age time.Duration) string {
	switch {
	case age <= -time.Minute:
		return "in " + count(-age)
	case age < 0:
		return "in under 1 min"
	case age < time.Minute:
		return "just now"
	}
	return count(age) + " ago"
}

func count(d time.Duration) string {
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + " days"
}

// quick records one step with a throw-away key, and delivers it to the node.
func quick(url string) string {
	return "curl -fsSO " + url + `/sdk/karatum_flight.py
python3 -c '
import karatum_flight as k, secrets
node = "` + url + `"
key = "0x" + secrets.token_hex(32)
with k.Recorder(node, key) as r:
    r.record({"kind": "note", "name": "hello"})'`
}
