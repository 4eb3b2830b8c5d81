// Package pages is what the explorer shows: one component for each page, the parts
// that they are made of, and the views that they take. It reads nothing and answers
// no request; package web does both and hands a [Page] to [Site.Layout].
//
// # How a page is put together
//
// A page has four parts, and each has its place:
//
//   - a view, where the page shows more than one thing of package app: a struct that
//     embeds what the node answered, beside the component or, with rules of its own,
//     in a file of its own;
//   - a component called after the page, such as [Site.EpochPage], in a file called
//     after the thing. It calls [Band] for the top and [Stack] or [Listing] for what is
//     below, and gives every table row and every card of more than a few lines a
//     component of its own;
//   - a handler in package web, which reads the node, fills the view and renders
//     Page{Title, Nav, Twin, Body}, where Twin is the API address with the same data;
//   - a line in the table of routes.
//
// After a change to a .templ file, go generate ./web writes the Go code beside it, and
// both are committed.
//
// # What components are given
//
// The node's own addresses and clock come with the receiver, a [Site]; no component
// reads them from a context. Addresses are made by [Site.Link], which escapes each
// part, and by nothing else; of streams and steps by [Site.StreamLink] and
// [Site.StepLink], for a stream may be called anything. What an agent or another server chose goes through
// [Visible], or through [Name], which also keeps it from reordering its surroundings;
// hashes go through [Hash] or [Full], times through [Site.Time], ratings through
// [Rated], which does not show one without its coverage. templ escapes all text and
// attributes. There are no style attributes and no scripts in a page: the policy would
// not run them.
//
// # Spaces
//
// templ drops the line break between a text and a component below it, and makes one
// space of the break between a component and a text below it. So a text that ends at
// a component on the next line is written as an expression with its space, and
// [Then] puts a text right behind a component:
//
//	{ "next anchor " }
//	@s.Time(v.NextAnchor)
package pages
