package pages

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"karatum/app"
	"karatum/flight"
)

func testLog(n byte) app.LogView {
	return app.LogView{Address: flight.Address{n}, Topics: []flight.Hash{{n}}, Data: "0x0" + string('0'+rune(n))}
}

func TestViewReplay(t *testing.T) {
	a, b := testLog(1), testLog(2)
	long := make([]app.LogView, shownLogs+3)
	for _, c := range []struct {
		name               string
		original, replayed []app.LogView
		same               []bool
		more               int
	}{
		{"none", nil, nil, nil, 0},
		{"the same", []app.LogView{a, b}, []app.LogView{a, b}, []bool{true, true}, 0},
		{"in another order", []app.LogView{a, b}, []app.LogView{b, a}, []bool{false, false}, 0},
		{"one is missing", []app.LogView{a, b}, []app.LogView{a}, []bool{true, false}, 0},
		{"one is too many", nil, []app.LogView{a}, []bool{false}, 0},
		{"too many to show", long, long, nil, 3},
	} {
		v := ViewReplay(app.ReplayDetail{Original: &app.ReceiptView{Logs: c.original}, Replayed: &app.ReceiptView{Logs: c.replayed}}, "")
		if v.More != c.more {
			t.Errorf("%s: %d are left out, want %d", c.name, v.More, c.more)
		}
		for i, want := range c.same {
			if got := v.Logs[i].same(); got != want {
				t.Errorf("%s: log %d is the same: %v, want %v", c.name, i, got, want)
			}
		}
	}
}

func TestLogData(t *testing.T) {
	whole := "0x" + strings.Repeat("ab", shownBytes)
	for in, want := range map[string]string{"0x": "0x", "": "", whole: whole, whole + strings.Repeat("cd", 1000): whole + "… (1,256 bytes)"} {
		if got := data(&app.LogView{Data: in}); got != want {
			t.Errorf("%.20s of %d: %q, want %q", in, len(in), got, want)
		}
	}
}

func TestArchive(t *testing.T) {
	s := &Site{Network: app.NetworkView{Name: "sepolia", ChainID: 11155111}}
	for id, want := range map[uint64]string{11155111: "--network sepolia --rpc-url ", 8453: "--chain-rpc 8453="} {
		if got := s.archive(id); !strings.Contains(got, want) {
			t.Errorf("chain %d: %s, want %s", id, got, want)
		}
	}
}

// TestReplayPage renders a replay in each state, with text that tries to break a page
// wherever a server chose it.
func TestReplayPage(t *testing.T) {
	const hostile = "<script>alert(1)</script>\u202e"
	site := &Site{Base: "/base", Now: func() time.Time { return time.UnixMilli(90_000) }}
	yes, no, count, block := true, false, 2, uint64(1_234_568)
	needs := block - 1
	base := app.ReplaySummary{ID: 7, Prefix: "full", Stream: hostile, ChainID: 8453, BlockNumber: &block, Attempts: 1, At: 30_000, StartedAt: 31_000, DoneAt: 33_500}
	receipt := &app.ReceiptView{Success: true, GasUsed: 21_000, Logs: []app.LogView{testLog(1)}}
	done := func(v app.ReplayDetail) app.ReplayDetail {
		v.State, v.ForkBlock, v.PrefixCount, v.Rules, v.Notes, v.ConfirmedBy = "done", &needs, &count, "prague", []string{hostile}, []string{hostile}
		v.Verdict = &flight.Verdict{State: flight.Confirmed, Checks: []flight.VerdictCheck{{Name: "tx.sender", Pass: true, Want: hostile, Got: hostile}}}
		return v
	}
	for _, c := range []struct {
		name   string
		adapt  func(app.ReplayDetail) app.ReplayDetail
		has    []string
		hasNot []string
	}{
		{"queued", func(v app.ReplayDetail) app.ReplayDetail { v.State = "queued"; return v },
			[]string{"Waits for its turn", "/replay/cancel?prefix=full"}, []string{"/replay/rerun", "Original beside"}},
		{"cancelled", func(v app.ReplayDetail) app.ReplayDetail { v.State = "cancelled"; return v },
			[]string{"The operator cancelled it", "/replay/rerun?prefix=full"}, []string{"/replay/cancel"}},
		{"pruned", func(v app.ReplayDetail) app.ReplayDetail {
			v.State = "failed"
			v.Failure = &app.ReplayFailure{Code: "HISTORY_PRUNED", Message: hostile, Hint: hostile, Words: "It is gone", NeedsBlock: &needs}
			return v
		}, []string{"It is gone.", "HISTORY_PRUNED", "after block 1,234,567", "--chain-rpc 8453="}, []string{"Original beside"}},
		{"reproduced", func(v app.ReplayDetail) app.ReplayDetail {
			v = done(v)
			v.Reproduced, v.Proof, v.Original, v.Replayed = &yes, app.ReplayProved, receipt, receipt
			return v
		}, []string{"same outcome", "proved state", "2 earlier transactions", "that after block 1,234,567", "after 2 seconds", "2 minutes a run", "21,000"}, []string{`class="diff"`, "differs"}},
		{"another outcome", func(v app.ReplayDetail) app.ReplayDetail {
			v = done(v)
			v.Reproduced, v.Proof, v.Differences, v.Prefix = &no, app.ReplayUnproved, []string{hostile}, app.PrefixNone
			v.Original, v.Replayed = receipt, &app.ReceiptView{GasUsed: 20_000}
			return v
		}, []string{"another outcome", "the RPC&#39;s word", "reverted", "differs", `class="diff"`, "--prefix none", "without the earlier transactions"}, []string{"proved state"}},
	} {
		v := c.adapt(app.ReplayDetail{ReplaySummary: base, TimeoutMs: 120_000})
		var out bytes.Buffer
		if err := site.ReplayPage(ViewReplay(v, "http://node")).Render(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		var list bytes.Buffer
		l := ReplayList{List: List[app.ReplaySummary]{Items: []app.ReplaySummary{v.ReplaySummary}}, States: site.ReplayStates("")}
		if err := site.ReplaysPage(l).Render(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: the page lacks %q", c.name, want)
			}
		}
		for _, bad := range append(c.hasNot, "<script>", "\u202e", "%!") {
			if strings.Contains(out.String(), bad) {
				t.Errorf("%s: the page has %q", c.name, bad)
			}
		}
		if s := list.String(); strings.Contains(s, "<script>") || !strings.Contains(s, `href="/base/replays/7"`) || !strings.Contains(s, v.State) {
			t.Errorf("%s: list %s", c.name, s)
		}
	}
}
