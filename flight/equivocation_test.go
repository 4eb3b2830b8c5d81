package flight_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"karatum/flight"
	"karatum/flight/canon"
	"karatum/flight/merkle"
)

// The model: a history is a cut of steps 0..n-1 into batches. What a batch says of
// the step before it (prevHead) and of its last step (head) are labels of those
// positions, 1 or 2, free but for two rules: the same position has one label, and
// before step 0 stands 0. A pair of headers is honest exactly if some history holds
// both. Nothing here does arithmetic on gaps.
const modelSteps = 5

type pair [2]flight.Header

// modelHeader returns the header of a batch with these labels. A batch of one
// step has the root that its head demands; other roots are labels as well.
func modelHeader(index, from, to int, prev, head, root byte) flight.Header {
	h := flight.Header{Stream: "main", Index: uint64(index), FromSeq: uint64(from), ToSeq: uint64(to), Head: flight.Hash{head}, Root: flight.Hash{root, 9}}
	if from > 0 {
		h.PrevHead = flight.Hash{prev}
	}
	if from == to {
		h.Root = merkle.Leaf(h.Head)
	}
	return h
}

// cuts calls visit with the batch ends of every cut of n steps.
func cuts(n int, visit func(ends []int)) {
	for mask := range 1 << (n - 1) {
		var ends []int
		for i := range n - 1 {
			if mask>>i&1 == 1 {
				ends = append(ends, i)
			}
		}
		visit(append(ends, n-1))
	}
}

var labels = []byte{1, 2}

// honestPairs lists every pair that some history of at most modelSteps steps holds.
func honestPairs() map[pair]bool {
	honest := map[pair]bool{}
	for n := 1; n <= modelSteps; n++ {
		cuts(n, func(ends []int) {
			for j := range ends {
				for i := range j {
					honestPair(honest, ends, i, j)
				}
			}
		})
	}
	return honest
}

func honestPair(honest map[pair]bool, ends []int, i, j int) {
	start := func(k int) int {
		if k == 0 {
			return 0
		}
		return ends[k-1] + 1
	}
	label := map[int]byte{} // by position
	assign(label, []int{start(i) - 1, ends[i], start(j) - 1, ends[j]}, func() {
		for _, ra := range labels {
			for _, rb := range labels {
				a := modelHeader(i, start(i), ends[i], label[start(i)-1], label[ends[i]], ra)
				b := modelHeader(j, start(j), ends[j], label[start(j)-1], label[ends[j]], rb)
				honest[pair{a, b}] = true
			}
		}
	})
}

// assign calls visit with every labelling of the positions.
func assign(label map[int]byte, positions []int, visit func()) {
	if len(positions) == 0 {
		visit()
		return
	}
	p := positions[0]
	if _, known := label[p]; known {
		assign(label, positions[1:], visit)
		return
	}
	for _, l := range labels {
		label[p] = l
		assign(label, positions[1:], visit)
	}
	delete(label, p)
}

// modelHeaders lists every header that Check allows within the model.
func modelHeaders() (out []flight.Header) {
	seen := map[flight.Header]bool{}
	for index := range modelSteps {
		for from := range modelSteps {
			for to := from; to < modelSteps; to++ {
				for bits := range 8 {
					h := modelHeader(index, from, to, labels[bits&1], labels[bits>>1&1], labels[bits>>2])
					if h.Check() == nil && !seen[h] {
						seen[h] = true
						out = append(out, h)
					}
				}
			}
		}
	}
	return out
}

func TestConflictAgainstEveryHistory(t *testing.T) {
	honest, all := honestPairs(), modelHeaders()
	conflicts, fine := 0, 0
	reasons := map[flight.Reason]int{}
	for _, a := range all {
		for _, b := range all {
			got := flight.Conflict(&a, &b)
			if back := flight.Conflict(&b, &a); back != got {
				t.Fatalf("Conflict(a, b) = %q, Conflict(b, a) = %q for\n%+v\n%+v", got, back, a, b)
			}
			want := a != b && !honest[pair{a, b}] && !honest[pair{b, a}]
			if (got != "") != want {
				t.Fatalf("Conflict = %q, the model says %t for\n%+v\n%+v", got, want, a, b)
			}
			reasons[got]++
			if want {
				conflicts++
			} else {
				fine++
			}
		}
	}
	for _, r := range []flight.Reason{"", flight.SameIndex, flight.Overlap, flight.Order, flight.AdjacentIndexGap, flight.TooFewSteps, flight.PrevHead} {
		if reasons[r] == 0 {
			t.Errorf("no pair gives %q", r)
		}
	}
	t.Logf("%d headers: %d conflicting pairs, %d honest ones, by reason %v", len(all), conflicts, fine, reasons)
}

// drawHistory cuts a chain of real steps into batches.
func drawHistory(t *rapid.T, label string, steps []flight.Step) (out []flight.Header) {
	for from := 0; from < len(steps); {
		n := rapid.IntRange(1, 5).Draw(t, label)
		to := min(from+n, len(steps))
		out = append(out, headerOf(t, uint64(len(out)), steps[from:to]))
		from = to
	}
	return out
}

func TestHonestHistoriesNeverConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		steps := chain(flight.Address{1}, "main", rapid.IntRange(1, 30).Draw(t, "steps"), 0)
		history := drawHistory(t, "span", steps)
		for i := range history {
			if err := history[i].Check(); err != nil {
				t.Fatalf("an honest header is refused: %v", err)
			}
			for j := range history {
				later := history[j]
				later.CreatedAt += 100 // signed again
				if r := flight.Conflict(&history[i], &later); r != "" {
					t.Fatalf("batches %d and %d of one history: %s", i, j, r)
				}
			}
		}
	})
}

// Two histories that part somewhere conflict in every pair of batches that both
// hold a step past the parting, unless gaps could explain the pair.
func TestForksConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "steps")
		steps := chain(flight.Address{1}, "main", n, 0)
		fork := append([]flight.Step{}, steps...)
		at := rapid.IntRange(0, n-1).Draw(t, "fork")
		for i := at; i < n; i++ {
			fork[i].At += 7
			if i > 0 {
				fork[i].Prev = fork[i-1].Hash()
			}
		}
		ours, theirs := drawHistory(t, "ours", steps), drawHistory(t, "theirs", fork)
		for i := range ours {
			for j := range theirs {
				a, b := ours[i], theirs[j]
				shared := a.FromSeq <= b.ToSeq && b.FromSeq <= a.ToSeq
				if shared && max(a.ToSeq, b.ToSeq) >= uint64(at) && !a.SameHistory(b) && flight.Conflict(&a, &b) == "" {
					t.Fatalf("both speak of one step after the fork at %d and do not conflict:\n%+v\n%+v", at, a, b)
				}
			}
		}
		other := theirs[len(theirs)-1]
		other.Stream = "other"
		if r := flight.Conflict(&ours[len(ours)-1], &other); r != "" {
			t.Fatalf("two streams conflict: %s", r)
		}
	})
}

func TestEvidence(t *testing.T) {
	k := testKey(t, 7)
	steps, fork := chain(k.Address(), "main", 6, 0), chain(k.Address(), "main", 6, 1)
	a, b := header(t, 0, steps).Sign(k, flight.EIP712), header(t, 0, fork).Sign(k, flight.EIP191)
	e := flight.NewEvidence(a, b)
	if e == nil || e.A != a || e.B != b || e.Agent() != k.Address() || e.Verify() != nil {
		t.Fatalf("evidence %+v", e)
	}
	if tie := flight.NewEvidence(b, a); tie.A != b {
		t.Error("on a tie the stored statement must stand first")
	}
	late := header(t, 1, fork[2:]).Sign(k, flight.EIP712)
	if e := flight.NewEvidence(late, a); e == nil || e.A != a || e.Reason != flight.Overlap {
		t.Errorf("evidence %+v: the lower index must stand first", e)
	}
	if flight.NewEvidence(a, a) != nil {
		t.Error("a statement conflicts with itself")
	}
	stranger := header(t, 0, fork).Sign(testKey(t, 8), flight.EIP712)
	for why, bad := range map[string]*flight.Evidence{
		"another signer": {Reason: flight.SameIndex, A: a, B: stranger}, "another reason": {Reason: flight.Overlap, A: a, B: b}, "no reason": {A: a, B: b},
		"no contradiction": {Reason: flight.SameIndex, A: a, B: a}, "order": {Reason: flight.Overlap, A: late, B: a}, "no statements": {Reason: flight.SameIndex}, "no steps": {Reason: flight.BrokenChain},
	} {
		if err := bad.Verify(); !errors.Is(err, flight.ErrEvidence) {
			t.Errorf("%s: %v, want %v", why, err, flight.ErrEvidence)
		}
		bad.Agent()
	}
}

// brokenChain returns disclosures of two proven steps that do not link.
func brokenChain(tb testing.TB, k *flight.Key) (a, b *flight.Disclosure) {
	tb.Helper()
	steps := chain(k.Address(), "main", 3, 0)
	steps[1].Prev = flight.Hash{1}
	batch := header(tb, 0, steps).Sign(k, flight.EIP712)
	var out [2]*flight.Disclosure
	for i := range out {
		d, err := flight.NewDisclosure(batch, steps, i)
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = d
	}
	return out[0], out[1]
}

func TestBrokenChain(t *testing.T) {
	k := testKey(t, 7)
	a, b := brokenChain(t, k)
	e := flight.NewBrokenChain(a, b)
	if e == nil || e.Agent() != k.Address() {
		t.Fatal("two proven steps that do not link are no evidence")
	}
	back, err := flight.ParseEvidence(mustMarshal(t, e))
	if err != nil || back.Verify() != nil || back.Reason != flight.BrokenChain {
		t.Errorf("comes back as %+v, %v", back, err)
	}
	opened := *a
	opened.Reveal = []flight.Opening{{Field: "args", Salt: flight.Hash{}, Value: canon.Value{}}}
	if flight.NewBrokenChain(&opened, b) == nil {
		t.Error("reveals are not taken out")
	}
	if err := (&flight.Evidence{Reason: flight.BrokenChain, StepA: &opened, StepB: b}).Verify(); err == nil {
		t.Error("evidence that opens something is accepted")
	}
	linked := chain(k.Address(), "main", 3, 0)
	batch := header(t, 0, linked).Sign(k, flight.EIP712)
	var good [3]*flight.Disclosure
	for i := range good {
		if good[i], err = flight.NewDisclosure(batch, linked, i); err != nil {
			t.Fatal(err)
		}
	}
	for why, p := range map[string][2]*flight.Disclosure{
		"linked": {good[0], good[1]}, "not neighbours": {good[0], good[2]}, "reverse": {b, a}, "the same": {a, a}, "nil": {nil, a}, "nil b": {a, nil},
	} {
		if flight.NewBrokenChain(p[0], p[1]) != nil {
			t.Errorf("%s: evidence was made", why)
		}
	}
}

func TestParseEvidenceRefuses(t *testing.T) {
	v := load(t)
	pairOf := v.Equivocations[0]
	a := body(pairOf.A.Header, flight.EIP712, pairOf.A.Signatures[flight.EIP712])
	b := body(pairOf.B.Header, flight.EIP712, pairOf.B.Signatures[flight.EIP712])
	doc := func(kind, reason string, a, b []byte) string {
		return `{"type":"` + kind + `","reason":"` + reason + `","a":` + string(a) + `,"b":` + string(b) + `}`
	}
	good := doc(flight.EvidenceType, "SAME_INDEX", a, b)
	e, err := flight.ParseEvidence([]byte(good))
	if err != nil || e.Verify() != nil {
		t.Fatal(err)
	}
	highS := strings.Replace(string(a), pairOf.A.Signatures[flight.EIP712], v.SignatureForms.Reject[0].Signature, 1)
	for want, text := range map[string]string{
		"type": doc("karatum.equivocation.v2", "SAME_INDEX", a, b), "reason": strings.Replace(good, `"SAME_INDEX"`, "1", 1), "extra": strings.Replace(good, "{", `{"extra":1,`, 1),
		"a": doc(flight.EvidenceType, "SAME_INDEX", []byte("1"), b), "b": doc(flight.EvidenceType, "SAME_INDEX", a, []byte("null")), "a.signature": doc(flight.EvidenceType, "SAME_INDEX", []byte(highS), b),
		"a.step": doc(flight.EvidenceType, "BROKEN_CHAIN", a, b),
	} {
		e, err := flight.ParseEvidence([]byte(text))
		if e != nil || field(err) != want {
			t.Errorf("refused at %q, want %q (%v)", field(err), want, e)
		}
	}
}

// Every single change of evidence is refused: by its shape, a signature or the
// missing contradiction. Which of two equal indexes stands first is free.
func TestEveryChangeOfEvidenceIsRefused(t *testing.T) {
	k := testKey(t, 7)
	one := flight.NewEvidence(header(t, 0, chain(k.Address(), "main", 6, 0)).Sign(k, flight.EIP712), header(t, 1, chain(k.Address(), "main", 6, 1)[2:]).Sign(k, flight.EIP191))
	two := flight.NewBrokenChain(brokenChain(t, k))
	for _, e := range []*flight.Evidence{one, two} {
		tree := decode(t, mustMarshal(t, e))
		tried := 0
		eachChange("", tree, func(any) {}, func(what string) {
			if what == " changed" {
				return
			}
			tried++
			text, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			if e, err := flight.ParseEvidence(text); err == nil && e.Verify() == nil {
				t.Errorf("%s, and it is still evidence", what)
			}
		})
		if tried < 2000 {
			t.Errorf("only %d changes were tried", tried)
		}
	}
}
