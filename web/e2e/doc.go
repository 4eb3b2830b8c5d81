// Package e2e tests the pages in a real browser, against a real node with real
// data on its own dev chain. It holds tests only.
//
// Chromium is found by name, or at $CHROMIUM. Without one the tests are skipped
// with a message; where CI is set they fail. There is one browser and one node for
// all tests, and a tab for each subtest, closed at its end.
package e2e
