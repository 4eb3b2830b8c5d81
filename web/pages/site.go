package pages

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"

	"karatum/app"
	"karatum/flight"
)

// A Site is what all pages of one node share. Components that make an address or
// say how long ago something was are its methods; all others are plain functions.
// It is not changed once pages are rendered, so all of them may use it at once.
type Site struct {
	Base          string           // the prefix of every address, such as "/karatum"; "" for none
	CSS, JS, Icon string           // addresses that change with the content
	LiveJS        string           // the same, of what a page loads in place of JS where it follows the node
	Fonts         []string         // the same, of what every page is written in
	Network       app.NetworkView  // where the node anchors
	Now           func() time.Time // the clock of relative times
}

// A Page is one page: what the layout shows, and its body.
type Page struct {
	Title  string        // names the thing first
	Nav    string        // the current entry of the navigation
	Twin   string        // the API address with the same data, "" for none
	Module string        // a script beside the site's, "" for none
	Theme  string        // "light", "dark", or "" for what the system has
	Pulse  app.PulseView // set by the server, as the theme is
	Live   bool          // the page follows the node
	Asks   bool          // the reader may have the page ask an RPC of their choice
	Body   templ.Component
}

// Link is an address on this node: the base path and the escaped parts.
func (s *Site) Link(parts ...any) string {
	var b strings.Builder
	b.WriteString(s.Base)
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(fmt.Sprint(p)))
	}
	if len(parts) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// A List is one part of a list.
type List[T any] struct {
	Items []T
	URL   string // of this node, for the commands of empty states
	First bool   // nothing stands before it
	Next  string // address of the following part, "" at the end
}

// A Crumb is one part of the way to a page; the last has no address.
type Crumb struct {
	Text, Href string
	Stream     bool // an agent chose the text
}

// A Column is the head of one column of a table.
type Column struct {
	Name  string
	Right bool // it holds numbers
}

func left(name string) Column  { return Column{Name: name} }
func right(name string) Column { return Column{name, true} }

// An entry is one of the main navigation; nav is what [Page] calls it.
type entry struct{ nav, text, href string }

func (s *Site) entries() []entry {
	return []entry{
		{"home", "Live", s.Link()}, {"agents", "Agents", s.Link("agents")}, {"epochs", "Epochs", s.Link("epochs")}, {"conflicts", "Conflicts", s.Link("conflicts")},
		{"replays", "Replays", s.Link("replays")},
		{"verify", "Verify", s.Link("verify")}, {"node", "Node", s.Link("node")}, {"about", "About", s.Link("about")},
	}
}

// toStream is the way to a stream.
func (s *Site) toStream(agent flight.Address, stream string) []Crumb {
	return []Crumb{{Text: "Agents", Href: s.Link("agents")}, {Text: Shorten(agent.String()), Href: s.Link("agents", agent)}, {Text: stream, Href: s.StreamLink(agent, stream), Stream: true}}
}

// toStep is the way to a step.
func (s *Site) toStep(v StepView) []Crumb {
	return append(s.toStream(v.Record.Agent, v.Record.Stream),
		Crumb{Text: fmt.Sprintf("batch %d", v.Batch.Index), Href: s.Link("batches", v.BatchID)}, Crumb{Text: fmt.Sprintf("step %d", v.Record.Seq)})
}
