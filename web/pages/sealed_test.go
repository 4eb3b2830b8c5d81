package pages

import (
	"os/exec"
	"strings"
	"testing"

	"karatum/app"
	"karatum/flight"
)

// The command names the step to a shell as it is, whatever the stream is called.
func TestOpeningCommand(t *testing.T) {
	for _, stream := range []string{"main-0badcafe", "it's", `$(id) "x" \n`, hostileStream, "-rf"} {
		v := SealedView{SealedStepView: app.SealedStepView{Stream: stream, Seq: 7}, URL: "http://127.0.0.1:8080"}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "karatum() { printf '%s\n' \"$@\"; }; "+v.opening()).Output()
		want := strings.Join([]string{"disclose", "--journal", "./journal", "--step", stream + "/7", "--reveal", "claim", "--post", "--node", v.URL}, "\n") + "\n"
		if err != nil || string(out) != want {
			t.Errorf("%q: the shell sees %q, %v; want %q", stream, out, err, want)
		}
	}
}

// The page states a hash where a signed header names it, and says where it does not.
func TestSealedHashes(t *testing.T) {
	s, head, before := testSite(), hash("head"), hash("before")
	v := SealedView{SealedStepView: app.SealedStepView{
		Agent: address(1), Stream: "main", Seq: 5, Index: 1, Size: 3, Batch: app.BatchView{Header: flight.Header{FromSeq: 4, ToSeq: 6, Head: head, PrevHead: before}},
		Neighbors: []app.SealedNeighbor{{Seq: 4, Known: app.NeighborOpened, Verdict: "confirmed"}, {Seq: 6, Known: app.NeighborSealed}},
	}}
	inside := render(t, s.SealedPage(v))
	for _, want := range []string{"2 of 3", "its hash is not known here", s.StepLink(v.Agent, "main", 4), s.StepLink(v.Agent, "main", 6), "Confirmed", ", sealed"} {
		if !strings.Contains(inside, want) {
			t.Errorf("a step inside a batch does not show %q", want)
		}
	}
	if strings.Contains(inside, head.String()) || strings.Contains(inside, before.String()) {
		t.Error("a step inside a batch shows a hash of another")
	}
	if n := strings.Count(inside, "Sealed, or not there"); n != len(flight.Fields) {
		t.Errorf("%d fields may be there, want %d", n, len(flight.Fields))
	}
	v.StepHash, v.Prev = &head, &before
	if edge := render(t, s.SealedPage(v)); !strings.Contains(edge, head.String()) || !strings.Contains(edge, before.String()) {
		t.Error("a step at the edges of its batch does not show the signed hashes")
	}
	v.Neighbors = []app.SealedNeighbor{{Seq: 4, Known: app.NeighborMissing}}
	if torn := render(t, s.SealedPage(v)); !strings.Contains(torn, "step 4, never delivered") || strings.Contains(torn, s.StepLink(v.Agent, "main", 4)) {
		t.Error("a missing neighbour has a page, or is not called missing")
	}
}
