package verifier

import (
	"regexp"
	"strings"
)

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	tag        = regexp.MustCompile(`<[^<>]*>`)
	quoted     = regexp.MustCompile("'[^'\n]*'|`[^`\n]*`")
	word       = regexp.MustCompile(`[A-Za-z][\w-]*`)
	// beside are the parts of a selector that say nothing of what must be in a page.
	beside = regexp.MustCompile(`"[^"]*"|::?[\w-]+(\([^()]*\))?`)
)

// prune leaves of a style sheet the rules that a page can have use for: those with a
// selector each of whose elements, classes, identifiers and attributes is a word in a
// tag of the page or in a text of its script. Of the rules that begin with @ those of
// media stay: the page has no fonts, and nothing in it moves. No text in the style
// sheet holds a brace.
func prune(css, page, script string) string {
	words := map[string]bool{}
	for _, text := range append(tag.FindAllString(page, -1), quoted.FindAllString(script, -1)...) {
		for _, w := range word.FindAllString(text, -1) {
			words[w] = true
		}
	}
	var b strings.Builder
	pruneRules(&b, cssComment.ReplaceAllString(css, ""), words)
	return b.String()
}

func pruneRules(b *strings.Builder, css string, words map[string]bool) {
	for {
		selectors, rest, found := strings.Cut(css, "{")
		if !found {
			return
		}
		end := closing(rest)
		body := rest[:end]
		css = strings.TrimPrefix(rest[end:], "}")
		switch selectors = strings.TrimSpace(selectors); {
		case strings.HasPrefix(selectors, "@media"):
			var inner strings.Builder
			if pruneRules(&inner, body, words); inner.Len() > 0 {
				b.WriteString(selectors + " {\n" + inner.String() + "}\n")
			}
		case strings.HasPrefix(selectors, "@"):
		case used(selectors, words):
			b.WriteString(selectors + " {" + strings.TrimRight(body, " \n") + " }\n")
		}
	}
}

// closing is where the brace stands that closes a block, or the end of the text.
func closing(text string) int {
	for i, deep := 0, 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			deep++
		case '}':
			if deep == 0 {
				return i
			}
			deep--
		}
	}
	return len(text)
}

// used says whether one of the selectors can match something in a page of these words.
func used(selectors string, words map[string]bool) bool {
	for selector := range strings.SplitSeq(beside.ReplaceAllString(selectors, ""), ",") {
		all := true
		for _, name := range word.FindAllString(selector, -1) {
			all = all && words[name]
		}
		if all {
			return true
		}
	}
	return false
}
