package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "directory for screenshots of the pages, for people to look at")

// What all tests share; set by TestMain.
var (
	browser context.Context
	site    *node
	missing string // why there is no browser
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	path := chromium()
	if path == "" {
		missing = "install chromium, or name one with CHROMIUM"
		return m.Run()
	}
	var err error
	if site, err = startNode(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: start the node:", err)
		return 1
	}
	defer site.stop()
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-gpu", true)))
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: start", path+":", err)
		return 1
	}
	browser = ctx
	return m.Run()
}

func chromium() string {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// need skips a test without a browser or another tool, and fails it under CI.
func need(t *testing.T, why string) {
	t.Helper()
	switch {
	case why == "":
	case os.Getenv("CI") != "":
		t.Fatal(why)
	default:
		t.Skip(why)
	}
}
