package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"karatum/flight"
)

func TestSearch(t *testing.T) {
	r := newRecord(t)
	ctx := t.Context()
	batches, err := r.app.StreamBatches(ctx, r.agent, "alpha", Page{})
	if err != nil {
		t.Fatal(err)
	}
	batch := batches.Items[0].BatchID.String()
	steps, err := r.app.Steps(ctx, r.agent, "", Page{})
	if err != nil {
		t.Fatal(err)
	}
	step, epoch := steps.Items[0], mustEpoch(t, r.rig)
	s := r.alpha.steps[0]
	agent, tx := r.agent.String(), s.TxHash.String()
	shout := func(h string) string { return "  " + strings.ToUpper(h[2:12]) + " " + strings.ToUpper(h[12:]) + "\n" }
	allHashes := []string{FoundBatch, FoundStep, FoundTx, FoundCommitment, FoundEpoch, FoundAnchor}
	for _, c := range []struct {
		name, text string
		want       []string // kind and id of each hit
		tried      []string
	}{
		{"agent", agent, []string{"agent " + agent}, []string{FoundAgent, FoundNode}},
		{"agent as it is pasted", shout(agent), []string{"agent " + agent}, []string{FoundAgent, FoundNode}},
		{"agent by its beginning", agent[:12], []string{"agent " + agent}, nil},
		{"node", r.keys.Anchor.Address().String(), []string{"node " + r.keys.Anchor.Address().String()}, []string{FoundAgent, FoundNode}},
		{"batch", batch, []string{"batch " + batch}, allHashes},
		{"batch as it is pasted", shout(batch), []string{"batch " + batch}, allHashes},
		{"batch by its beginning", batch[:9], []string{"batch " + batch}, nil},
		{"step", step.StepHash.String(), []string{"step " + step.StepHash.String()}, allHashes},
		{"transaction of several steps", tx, []string{"transaction " + tx, "transaction " + tx}, allHashes},
		{"commitment", s.Args.String(), []string{"commitment " + s.Args.String()}, allHashes},
		{"commitment of a claim", s.Claim.String()[:20], []string{"commitment " + s.Claim.String()}, nil},
		{"root", epoch.Root.String(), []string{"epoch " + epoch.Root.String()}, allHashes},
		{"anchor", epoch.Anchor.TxHash.String(), []string{"anchor " + epoch.Anchor.TxHash.String()}, allHashes},
		{"number", "1", []string{"epoch " + epoch.Root.String()}, []string{FoundEpoch}},
		{"number of nothing", "2", nil, []string{FoundEpoch}},
		{"stream", agent + "/alpha", []string{"stream " + agent}, []string{FoundStream}},
		{"step by its place", agent + "/alpha/0", []string{"step " + s0(r).String()}, []string{FoundStream, FoundStep}},
		{"step that is not opened", agent + "/alpha/1", nil, []string{FoundStream, FoundStep}},
		{"stream of nobody", agent + "/gamma", nil, []string{FoundStream}},
		{"unknown hash", flight.Keccak256([]byte("x")).String(), nil, allHashes},
		{"unknown address", flight.Address{1}.String(), nil, []string{FoundAgent, FoundNode}},
		{"too few digits", "0x1234a", nil, []string{}},
		{"too many digits", batch + "0", nil, []string{}},
		{"words", "what is this", nil, []string{}},
		{"nothing", " ", nil, []string{}},
		{"half a path", "/", nil, []string{}},
		{"a book", strings.Repeat("a ", maxSearch), nil, []string{}},
	} {
		v, err := r.app.Search(ctx, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := []string{}
		for _, h := range v.Hits {
			got = append(got, h.Kind+" "+h.ID)
		}
		if !slices.Equal(got, append([]string{}, c.want...)) || c.tried != nil && !slices.Equal(v.Tried, c.tried) || v.More {
			t.Errorf("%s %q: %v, tried %v; want %v, tried %v", c.name, c.text, got, v.Tried, c.want, c.tried)
		}
	}
}

func s0(r *record) flight.Hash { return r.alpha.hashes[0] }

func mustEpoch(t *testing.T, r *rig) EpochView {
	t.Helper()
	e, err := r.app.Epoch(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A key that is agent and attester is listed as both, and many hits are cut.
func TestSearchLists(t *testing.T) {
	r := newRig(t, nil)
	a := &author{key: r.keys.Anchor, stream: "main"}
	sent := flight.Keccak256([]byte("sent"))
	for range foundEach + 1 {
		a.step(t, nil, 1, &sent)
	}
	b := a.batch(t, flight.EIP712)
	r.mustIngest(b)
	for i := range a.steps {
		r.mustDisclose(a.disclose(t, b, uint64(i), "args"), false)
	}
	for text, want := range map[string]string{
		r.keys.Anchor.Address().String(): "agent node more:false",
		sent.String():                    strings.Repeat("transaction ", foundEach) + "more:true",
	} {
		v, err := r.app.Search(t.Context(), text)
		got := ""
		for _, h := range v.Hits {
			got += h.Kind + " "
		}
		if got += fmt.Sprintf("more:%v", v.More); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, s := range []string{"", "0x", "ABCDEF", "0x00/a/1", "123456", "é", "0x" + strings.Repeat("f", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := hexDigits(text)
		if strings.ToLower(d) != d || hexDigits("0x"+d) != d || strings.ContainsAny(d, " x") {
			t.Errorf("digits of %q are %q", text, d)
		}
	})
}
