package pages

import (
	"fmt"
	"slices"
	"strings"

	"karatum/app"
)

// What the page of a replay shows of its logs; the JSON has all of them.
const (
	shownLogs  = 48
	shownBytes = 256 // of the data of one
)

// A ReplayList is a part of the list of replays, and the choice of their state.
type ReplayList struct {
	List[app.ReplaySummary]
	State  string // "" for all
	States []StateLink
}

// A StateLink is one choice of the filter.
type StateLink struct {
	Text, Href string
	Current    bool
}

// ReplayStates are the choices of the list's filter, where state is chosen.
func (s *Site) ReplayStates(state string) []StateLink {
	out := []StateLink{{"All", s.Link("replays"), state == ""}}
	for _, c := range []StateLink{{Text: "Queued"}, {Text: "Running"}, {Text: "Done"}, {Text: "Failed"}, {Text: "Cancelled"}} {
		value := strings.ToLower(c.Text)
		out = append(out, StateLink{c.Text, s.Link("replays") + "?state=" + value, state == value})
	}
	return out
}

// A ReplayView is a replay as its page shows it.
type ReplayView struct {
	app.ReplayDetail
	Logs []logPair
	More int    // logs that are left out
	URL  string // of this node, for commands
}

// A logPair is a log of the chain's receipt beside the replay's of the same place; one
// of them may be missing.
type logPair struct {
	Place              int
	Original, Replayed *app.LogView
}

// ViewReplay puts the logs side by side.
func ViewReplay(v app.ReplayDetail, url string) ReplayView {
	out := ReplayView{ReplayDetail: v, URL: url}
	if v.Replayed == nil || v.Original == nil {
		return out
	}
	total := max(len(v.Original.Logs), len(v.Replayed.Logs))
	for i := range min(total, shownLogs) {
		p := logPair{Place: i}
		if i < len(v.Original.Logs) {
			p.Original = &v.Original.Logs[i]
		}
		if i < len(v.Replayed.Logs) {
			p.Replayed = &v.Replayed.Logs[i]
		}
		out.Logs = append(out.Logs, p)
	}
	out.More = total - len(out.Logs)
	return out
}

// same reports whether both sides have the log.
func (p logPair) same() bool {
	a, b := p.Original, p.Replayed
	return a != nil && b != nil && a.Address == b.Address && slices.Equal(a.Topics, b.Topics) && a.Data == b.Data
}

// data is the data of a log, cut, with its length.
func data(l *app.LogView) string {
	n := max(len(l.Data)-2, 0) / 2
	if n <= shownBytes {
		return l.Data
	}
	return fmt.Sprintf("%s… (%s bytes)", l.Data[:2+2*shownBytes], number(uint64(n)))
}

func status(r *app.ReceiptView) string {
	if r.Success {
		return "success"
	}
	return "reverted"
}

// replayClass is the CSS class of a replay's state.
func replayClass(state string) string {
	switch state {
	case "done":
		return "ok"
	case "failed":
		return "bad"
	case "cancelled":
		return "warn"
	}
	return "unk"
}

// outcome says a replay in one sentence.
func (v ReplayView) outcome() string {
	switch v.State {
	case "queued":
		return "Waits for its turn. Replays run one at a time."
	case "running":
		return "Runs now. Load this page again to see what comes of it."
	case "cancelled":
		return "The operator cancelled it. Nothing was compared."
	case "failed":
		return "Nothing could be replayed. " + strings.TrimSuffix(v.Failure.Words, ".") + "."
	}
	if *v.Reproduced {
		return "Executed again, the transaction had the same outcome: status and logs are those on the chain."
	}
	return "Executed again, the transaction had another outcome than on the chain."
}

// before says what was executed before the transaction.
func (v ReplayView) before() string {
	if v.Prefix == app.PrefixNone {
		return "nothing: on the state of the block before, without the earlier transactions of its own block"
	}
	switch {
	case v.PrefixCount == nil:
		return "the earlier transactions of its block"
	case *v.PrefixCount == 0:
		return "nothing: it is the first transaction of its block"
	}
	return plural(uint64(*v.PrefixCount), "earlier transaction", "earlier transactions") + " of its block"
}

// proof says what [Proof] means.
func (v ReplayView) proof() string {
	if v.Proof == app.ReplayProved {
		return "every account and slot was checked against the state root of the block"
	}
	return "not all that the RPC told could be checked against the block"
}

// limit is what one run may take.
func (v ReplayView) limit() string { return lasting(v.TimeoutMs) }

// took is how long the last run lasted.
func (v ReplayView) took() string { return lasting(v.DoneAt - min(v.StartedAt, v.DoneAt)) }

// lasting says a span of milliseconds in its largest unit.
func lasting(ms uint64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 120_000:
		return plural(ms/1000, "second", "seconds")
	}
	return plural(ms/60_000, "minute", "minutes")
}

// archive is the setting that gives the node the history of a chain.
func (s *Site) archive(chainID uint64) string {
	if chainID == s.Network.ChainID {
		return fmt.Sprintf("karatum serve --network %s --rpc-url https://YOUR_ARCHIVE_RPC", s.Network.Name)
	}
	return fmt.Sprintf("karatum serve --chain-rpc %d=https://YOUR_ARCHIVE_RPC", chainID)
}

// order is what the operator runs to have something done with a replay.
func (v ReplayView) order(what string) string {
	return `curl -X POST -H "Authorization: Bearer $(cat karatum-data/operator.token)" -H 'Content-Type: application/json' ` +
		v.URL + "/v1/admin/proofs/" + v.StepHash.String() + "/replay/" + what + "?prefix=" + v.Prefix
}

// ask is what anybody runs to have a step replayed.
func ask(url, step string) string {
	return "curl -X POST -H 'Content-Type: application/json' " + url + "/v1/flight/proofs/" + step + "/replay"
}

// alone is what a reader runs to replay the transaction without this node.
func (v ReplayView) alone() string {
	text := "karatum replay --rpc-url https://YOUR_RPC --tx " + v.TxHash.String()
	if v.Prefix == app.PrefixNone {
		text += " --prefix none"
	}
	return text
}
