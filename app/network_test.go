package app

import (
	"errors"
	"testing"

	"karatum/chain"
	"karatum/flight"
)

// TestNetworkAway starts on a public network that cannot be reached: batches are
// taken in, and anchoring says why it waits.
func TestNetworkAway(t *testing.T) {
	r := newRig(t, func(c *Config, d *Deps) {
		c.Network, c.RPCURL = "base-sepolia", []string{"http://127.0.0.1:1"}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		chains, err := OpenChains(t.Context(), *c, d.Keys, d.Log)
		if err != nil {
			t.Fatalf("OpenChains = %v; want a start without the network", err)
		}
		t.Cleanup(func() { chains.Close() })
		d.Anchor, d.Chains = chains.Anchor, chains.ByID
	})
	a := newAuthor(t, "main")
	a.fill(t, 1)
	r.mustIngest(a.batch(t, flight.EIP712))
	if _, err := r.app.AnchorNow(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("AnchorNow = %v; want that the node is unavailable", err)
	}
	if err := r.app.Ready(t.Context()); err == nil {
		t.Error("ready without the anchoring network")
	}
}
