package e2e

import (
	"encoding/json"
	"os"
	"testing"
)

// The whole vector file, tampered and error cases included, through what
// checks any document and an anchor as they are shipped, in the browser.
func TestConformance(t *testing.T) {
	script, err := os.ReadFile("testdata/conformance.js")
	if err != nil {
		t.Fatal(err)
	}
	b := newTab(t)
	b.open(site.url + "/verify")
	b.wait(`document.querySelector('[data-verify]').dataset.ready === ''`)
	raw := eval[string](b, `(`+string(script)+`)(...['any', 'anchor'].map((c) => document.querySelector('a[data-checks="' + c + '"]').href), '/testvectors/v1.json')`)
	var got struct {
		Passed     int
		Failed     []string
		NotCovered []string
	}
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Failed {
		t.Error(f)
	}
	for _, name := range got.NotCovered {
		t.Errorf("no case of %s ran", name)
	}
	if got.Passed < 450 {
		t.Errorf("%d values were compared", got.Passed)
	}
	t.Logf("%d values compared", got.Passed)
}
