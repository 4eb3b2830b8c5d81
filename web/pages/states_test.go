package pages

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"karatum/app"
)

func TestScheduleWords(t *testing.T) {
	for spec, want := range map[string]string{
		"@every 5m": "every 5 min", "@every 15s": "every 15 s", "@every 90s": "every 90 s", "@every 24h": "every 24 h", "@every 1m30.5s": "every 1m30.5s",
		"*/5 * * * *": "*/5 * * * *", "@daily": "@daily", "@every x": "@every x", "": "",
	} {
		if got := scheduleWords(spec); got != want {
			t.Errorf("%q is %q, want %q", spec, got, want)
		}
	}
}

// The states that an anchor reached at one moment are told in their order.
func TestStages(t *testing.T) {
	got := fmt.Sprint(stages(map[string]uint64{"final": 5, "safe": 5, "pending": 3, "included": 5}))
	if want := "[{pending 3} {included 5} {safe 5} {final 5}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A number of the front page stands with the word that goes with it, and has both for
// the script that changes it.
func TestReadouts(t *testing.T) {
	for n, want := range map[uint64]string{0: "batches waiting", 1: "batch waiting", 2: "batches waiting"} {
		page := render(t, testSite().HomePage(HomeView{StatusView: app.StatusView{Waiting: n}}))
		if !strings.Contains(page, `data-one="batch waiting" data-many="batches waiting">`+want+`</p>`) {
			t.Errorf("%d: no %q", n, want)
		}
	}
}

// A command is copied as it is, whatever is in it.
func TestCommand(t *testing.T) {
	text := "curl -d '{\"a\": 1}' \\\n  http://127.0.0.1:8080/<id>"
	got := render(t, Command(text))
	const escaped = "curl -d &#39;{&#34;a&#34;: 1}&#39; \\\n  http://127.0.0.1:8080/&lt;id&gt;"
	if !strings.Contains(got, ">"+escaped+"</pre>") || !strings.Contains(got, `data-copy="`+escaped+`"`) {
		t.Errorf("rendered %s", got)
	}
}

// A step's transaction and its anchor lead to a block explorer on networks that have one.
func TestStepElsewhere(t *testing.T) {
	links := regexp.MustCompile(`href="(https://[a-z./-]+)0x[0-9a-f]{64}" rel="noreferrer"`)
	for chain, want := range map[uint64]string{31337: "", 84532: "https://sepolia.basescan.org/tx/", 11155111: "https://sepolia.etherscan.io/tx/", 8453: ""} {
		v, tx := testStep(t), hash("tx")
		v.Verdict.ChainID, v.Verdict.TxHash = chain, &tx
		got := links.FindAllStringSubmatch(render(t, testSite().StepPage(v)), -1)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0][1] != want) {
			t.Errorf("chain %d: %v, want %q", chain, got, want)
		}
	}
}

// Whoever asks too often is told when to come back, and sent nowhere in the meantime.
func TestRateLimitedPage(t *testing.T) {
	e := app.Error{Code: "RATE_LIMITED", Status: 429, RetryAfter: 1500 * time.Millisecond, Message: "too many requests from this address"}
	page := render(t, testSite().ErrorPage("Too many requests", &e, "id-1", "/base/nothing"))
	for _, want := range []string{"after 2 seconds", "--ip-rate", "--trusted-proxy"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if n := strings.Count(page, "<a "); n != 1 {
		t.Errorf("%d links, want the one that tries again", n)
	}
}
