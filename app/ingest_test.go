package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"karatum/flight"
)

func TestIngestDecisions(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 3)
	b0 := a.batch(t, flight.EIP712)
	a.fill(t, 2)
	b1 := a.batch(t, flight.EIP191)
	a.fill(t, 4)
	b2 := a.batch(t, flight.EIP712)
	a.fill(t, 1)
	b3 := a.batch(t, flight.EIP712)

	first := r.mustIngest(b0)
	if first.Continuity != Continuous || first.Status() != 201 {
		t.Errorf("batch 0: %q, status %d; want continuous, 201", first.Continuity, first.Status())
	}
	if err := first.Verify(); err != nil {
		t.Errorf("receipt of batch 0: %v", err)
	}
	gap := r.mustIngest(b3)
	if want := (Missing{Indexes: [2]uint64{1, 2}, Seqs: [2]uint64{3, 8}}); gap.Continuity != Gap || *gap.Missing != want {
		t.Errorf("batch 3: %q, missing %v; want gap, %v", gap.Continuity, gap.Missing, want)
	}
	for _, b := range []flight.Batch{b2, b1} {
		if ans := r.mustIngest(b); ans.Continuity != Filled || ans.LateBy == nil {
			t.Errorf("batch %d: %q, late by %v; want filled with a time", b.Header.Index, ans.Continuity, ans.LateBy)
		}
	}
	s, err := r.app.Stream(t.Context(), a.key.Address(), "main")
	if err != nil || len(s.Gaps) != 0 || s.Batches != 4 || s.Head.Index != 3 || s.Head.Head != b3.Header.Head {
		t.Errorf("stream = %+v, %v; want 4 batches, no gap, head of batch 3", s, err)
	}
}

func TestIngestTwice(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 2)
	b := a.batch(t, flight.EIP712)
	stored := r.mustIngest(b)
	later := b.Header
	later.CreatedAt += 60
	raw := b.Signature
	raw[64] -= 27
	compact := append([]byte{}, b.Signature[:64]...)
	compact[32] |= (b.Signature[64] - 27) << 7
	withSignature := func(hex string) []byte {
		return []byte(strings.Replace(string(encode(t, b)), b.Signature.String(), hex, 1))
	}
	for name, body := range map[string][]byte{
		"same bytes":       encode(t, b),
		"re-signed later":  encode(t, later.Sign(a.key, flight.EIP712)),
		"other scheme":     encode(t, b.Header.Sign(a.key, flight.EIP191)),
		"v 0 or 1":         withSignature(raw.String()),
		"EIP-2098":         withSignature(hexOf(compact)),
		"numbers as 0.0":   []byte(strings.Replace(string(encode(t, b)), `"index":0`, `"index":0.0`, 1)),
		"spaces and order": []byte(` { "signature": ` + string(encode(t, b.Signature)) + `, "scheme":"eip712", "header":` + string(encode(t, b.Header)) + `} `),
	} {
		ans, err := r.app.Ingest(t.Context(), body)
		if err != nil || !ans.Duplicate || ans.Status() != 200 || ans.Position != stored.Position {
			t.Errorf("%s: %+v, %v; want the stored receipt as a duplicate", name, ans, err)
		}
		if err := ans.Verify(); err != nil {
			t.Errorf("%s: receipt: %v", name, err)
		}
	}
	ag, err := r.app.Agent(t.Context(), a.key.Address())
	if err != nil || ag.Batches != 1 || ag.Equivocated || ag.RecordedSteps != 2 {
		t.Errorf("agent = %+v, %v; want one batch of two steps, no flag", ag, err)
	}
}

func hexOf(b []byte) string { return fmt.Sprintf("0x%x", b) }

func TestIngestRefusals(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 2)
	b := a.batch(t, flight.EIP712)
	body := string(encode(t, b))
	future := b.Header
	future.CreatedAt = uint64(time.Now().Add(time.Hour).Unix())
	stranger := newAuthor(t, "main")
	for _, c := range []struct{ name, body, code, field, inner string }{
		{"unknown key", strings.Replace(body, `"scheme"`, `"extra":1,"scheme"`, 1), "BAD_REQUEST", "extra", ""},
		{"unknown header key", strings.Replace(body, `"stream"`, `"x":1,"stream"`, 1), "BAD_REQUEST", "x", ""},
		{"wrong type", strings.Replace(body, `"index":0`, `"index":"0"`, 1), "BAD_REQUEST", "index", ""},
		{"duplicate key", strings.Replace(body, `"index":0`, `"index":0,"index":0`, 1), "BAD_REQUEST", "", "DUPLICATE_KEY"},
		{"1000 digits", strings.Replace(body, `"index":0`, `"index":`+strings.Repeat("9", 1000), 1), "BAD_REQUEST", "", "NON_FINITE"},
		{"depth 10000", strings.Repeat("[", 10000), "BAD_REQUEST", "", "TOO_DEEP"},
		{"too large", strings.Repeat(" ", flight.MaxBatchBytes) + body, "BAD_REQUEST", "", "TOO_LARGE"},
		{"short signature", strings.Replace(body, b.Signature.String(), "0x1234", 1), "BAD_REQUEST", "signature", ""},
		{"impossible", strings.Replace(body, `"fromSeq":0`, `"fromSeq":1`, 1), "BAD_REQUEST", "fromSeq", ""},
		{"future", string(encode(t, future.Sign(a.key, flight.EIP712))), "CLOCK_SKEW", "", ""},
		{"stranger's signature", string(encode(t, b.Header.Sign(stranger.key, flight.EIP712))), "BAD_SIGNATURE", "", ""},
		{"changed header", strings.Replace(body, `"toSeq":1`, `"toSeq":2`, 1), "BAD_SIGNATURE", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.app.Ingest(t.Context(), []byte(c.body))
			e := wantCode(t, err, c.code)
			if got, _ := e.Details["field"].(string); got != c.field {
				t.Errorf("details.field = %q, want %q (%s)", got, c.field, e.Message)
			}
			if got, _ := e.Details["code"].(string); got != c.inner {
				t.Errorf("details.code = %q, want %q", got, c.inner)
			}
			if c.code == "CLOCK_SKEW" && e.RetryAfter < 49*time.Minute {
				t.Errorf("Retry-After = %v, want about 50 minutes", e.RetryAfter)
			}
			if c.code == "BAD_SIGNATURE" && (e.Details["batchId"] == nil || e.Details["signer"] == nil || !strings.Contains(e.Message, "name and version only")) {
				t.Errorf("BAD_SIGNATURE says %q with %v; want the signer, the batchId and the domain's rule", e.Message, e.Details)
			}
		})
	}
	if _, err := r.app.Agent(t.Context(), a.key.Address()); err == nil {
		t.Error("a refused batch left its agent behind")
	}
}

func TestIngestEquivocation(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	a.fill(t, 2)
	r.mustIngest(a.batch(t, flight.EIP712))
	var last json.RawMessage
	for i := range 20 {
		a.fill(t, 1)
		b := a.batch(t, flight.EIP712)
		r.mustIngest(b)
		fork := b.Header
		fork.Head = flight.Keccak256([]byte{byte(i)})
		fork.ToSeq++
		_, err := r.ingest(fork.Sign(a.key, flight.EIP191))
		e := wantCode(t, err, "EQUIVOCATION")
		doc, _ := e.Details["evidence"].(json.RawMessage)
		ev, err := flight.ParseEvidence(doc)
		if err != nil || ev.Verify() != nil || ev.Agent() != a.key.Address() {
			t.Fatalf("evidence %d does not prove itself: %v, %v", i, err, ev)
		}
		last = doc
	}
	l, err := r.app.Equivocations(t.Context(), nil, Page{Limit: 50})
	if err != nil || len(l.Items) != 16 {
		t.Fatalf("%d evidences are kept (%v), want 16 of an agent", len(l.Items), err)
	}
	if string(last) != string(l.Items[0].Evidence) {
		t.Error("past the sixteenth, the answer is not what is stored")
	}
	ag, err := r.app.Agent(t.Context(), a.key.Address())
	if err != nil || !ag.Equivocated || ag.Batches != 21 {
		t.Errorf("agent = %+v, %v; want the flag and 21 batches", ag, err)
	}
}

func TestBatchQuota(t *testing.T) {
	r := newRig(t, func(c *Config, _ *Deps) { c.BatchQuota = 3 })
	a := newAuthor(t, "main")
	for range 3 {
		a.fill(t, 1)
		r.mustIngest(a.batch(t, flight.EIP712))
	}
	a.fill(t, 1)
	b := a.batch(t, flight.EIP712)
	_, err := r.ingest(b)
	if e := wantCode(t, err, "BATCH_QUOTA"); e.RetryAfter <= 0 || e.RetryAfter > 25*time.Hour {
		t.Errorf("Retry-After = %v, want up to a day", e.RetryAfter)
	}
	r.shift.Add(int64(25 * time.Hour))
	r.mustIngest(b)
}

func TestIngestConcurrently(t *testing.T) {
	r := newRig(t, nil)
	var wg sync.WaitGroup
	for range 16 {
		a := newAuthor(t, "main")
		wg.Go(func() {
			for range 20 {
				a.fill(t, 1)
				ans, err := r.ingest(a.batch(t, flight.EIP712))
				if err != nil || ans.Continuity != Continuous || ans.Verify() != nil {
					t.Errorf("ingest: %+v, %v", ans, err)
					return
				}
				back, err := r.app.Batch(t.Context(), ans.BatchID)
				if err != nil || back.Receipt.Verify() != nil || back.Receipt.Position != ans.Position {
					t.Errorf("batch read back: %+v, %v", back, err)
				}
			}
		})
	}
	wg.Wait()
	st, err := r.app.Status(t.Context())
	if err != nil || st.Batches != 320 || st.Agents != 16 || st.Waiting != 320 {
		t.Errorf("status = %+v, %v; want 320 batches of 16 agents, all waiting", st, err)
	}
}

func TestIngestBulk(t *testing.T) {
	r := newRig(t, nil)
	a := newAuthor(t, "main")
	var lines [][]byte
	for range 300 {
		a.fill(t, 1)
		lines = append(lines, encode(t, a.batch(t, flight.EIP712)))
	}
	lines[7] = []byte(`{"nonsense":1}`)
	out := r.app.IngestBulk(t.Context(), lines)
	for i, o := range out {
		switch {
		case o.Line != i:
			t.Fatalf("answer %d is for line %d", i, o.Line)
		case i == 7:
			wantCode(t, o.Err, "BAD_REQUEST")
		case i == 8 && (o.Err != nil || o.Answer.Continuity != Gap):
			t.Errorf("line 8: %+v, %v; want a gap", o.Answer, o.Err)
		case i > 8 && (o.Err != nil || o.Answer.Continuity != Continuous || o.Answer.Verify() != nil):
			t.Errorf("line %d: %+v, %v; want continuous", i, o.Answer, o.Err)
		}
	}
}
