package pages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"karatum/app"
)

// stateClass is the CSS class of a verdict or an anchor state, and the name of the
// icon that goes with it.
func stateClass(state string) string {
	switch state {
	case "confirmed", "safe", "final":
		return "ok"
	case "contradicted", "failed":
		return "bad"
	case "orphaned":
		return "warn"
	}
	return "unk"
}

var verdictWords = map[string]string{
	"confirmed":    "The chain shows what the agent said",
	"contradicted": "The chain shows something else",
	"unverifiable": "Nothing to compare. Never counts against it",
}

// reasons are the words for why a claim could not be compared (spec section 8).
var reasons = map[string]string{
	"TX_NOT_FOUND":      "The transaction is not found yet; it is looked for again",
	"NO_CLAIM":          "No claim was opened",
	"NO_TX":             "The step names no transaction",
	"RPC_ERROR":         "The chain's node did not answer; it is asked again",
	"CHAIN_UNSUPPORTED": "This node does not read that chain",
	"UNSUPPORTED_CLAIM": "This node does not know that kind of claim",
}

// reasonWords says a reason in plain words, or as it is where there are none.
func reasonWords(code string) string {
	if text, ok := reasons[code]; ok {
		return text
	}
	return Visible(code)
}

// A stage is a state of an anchor and when it was reached.
type stage struct {
	State string
	At    uint64
}

// anchorStates are the states of an anchor in the order in which they are reached.
var anchorStates = []string{"pending", "included", "safe", "final"}

// stages puts the times of an epoch in their order; equal ones stay in that of the
// states.
func stages(times map[string]uint64) []stage {
	var out []stage
	for state, at := range times {
		out = append(out, stage{state, at})
	}
	slices.SortFunc(out, func(a, b stage) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(slices.Index(anchorStates, a.State), slices.Index(anchorStates, b.State)), cmp.Compare(a.State, b.State))
	})
	return out
}

// place is a chain, and the block on it where one is known.
func place(chainID uint64, block *uint64) string {
	if block == nil {
		return fmt.Sprint(chainID)
	}
	return fmt.Sprintf("%d, block %s", chainID, number(*block))
}

// jobs are the jobs of a node in words.
var jobs = map[string]string{
	"anchor":  "Anchor waiting batches",
	"settle":  "Follow anchors until final",
	"recheck": "Recheck open claims",
}

func jobWords(name string) string { return cmp.Or(jobs[name], sentence(Visible(name))) }

// scheduleWords says "@every 5m0s" as "every 5m"; a cron expression stays as it is.
func scheduleWords(spec string) string {
	text, ok := strings.CutPrefix(spec, "@every ")
	d, err := time.ParseDuration(text)
	if !ok || err != nil {
		return Visible(spec)
	}
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("every %d h", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("every %d min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("every %d s", d/time.Second)
	}
	return "every " + d.String()
}

// runTitle says one run of a job: when, how long, and what came of it.
func runTitle(r app.CronRunView) string {
	t := time.UnixMilli(int64(r.Start)).UTC().Format("2006-01-02 15:04:05") + " UTC, " + fmt.Sprint(time.Duration(r.End-min(r.Start, r.End))*time.Millisecond)
	if r.Error != "" {
		return t + ": failed: " + Visible(r.Error)
	}
	return t + ": " + Visible(r.Note)
}

// barsLabel says the runs of a job in one line.
func barsLabel(runs []app.CronRunView) string {
	failed := 0
	for _, r := range runs {
		if r.Error != "" {
			failed++
		}
	}
	return fmt.Sprintf("%d last runs, newest right, %d failed", len(runs), failed)
}

// oldest puts the runs of a job in the order of time.
func oldest(runs []app.CronRunView) []app.CronRunView {
	out := slices.Clone(runs)
	slices.Reverse(out)
	return out
}

// sortedKeys are the keys of counts, so that a page is the same each time.
func sortedKeys(counts map[string]uint64) []string { return slices.Sorted(maps.Keys(counts)) }
