package pages

import (
	"fmt"
	"testing"

	"karatum/app"
)

// Where nothing is found, the way leads up to what may be there, and no further down.
func TestAbove(t *testing.T) {
	s, a := testSite(), address(1)
	agent, stream := "/base/agents/"+a.String(), "ledger סוף"
	for _, c := range []struct {
		path string
		err  *app.Error
		want []string
	}{
		{"/base/", app.ErrUnknownStep, nil},
		{"/base/nothing/at/all", app.ErrUnknownStep, nil},
		{"/base/agents", app.ErrUnknownAgent, nil},
		{agent, app.ErrUnknownAgent, []string{"/base/agents"}},
		{agent + "/main/7", app.ErrUnknownAgent, []string{"/base/agents"}},
		{agent + "/main", app.ErrUnknownStream, []string{"/base/agents", agent}},
		{agent + "/main/7", app.ErrUnknownStep, []string{"/base/agents", agent, agent + "/main"}},
		{s.StepLink(a, stream, 7), app.ErrUnknownStep, []string{"/base/agents", agent, s.StreamLink(a, stream)}},
		{agent + "/%zz/7", app.ErrUnknownStep, []string{"/base/agents", agent}},
		{"/base/agents/" + hostileName + "/x/7", app.ErrUnknownStep, []string{"/base/agents"}},
		{"/base/epochs/99", app.ErrUnknownEpoch, []string{"/base/epochs"}},
	} {
		var got []string
		for _, crumb := range s.above(c.path, c.err) {
			got = append(got, crumb.Href)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s, %s: %q, want %q", c.path, c.err.Code, got, c.want)
		}
	}
}
