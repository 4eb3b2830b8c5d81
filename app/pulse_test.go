package app

import (
	"errors"
	"testing"

	"karatum/flight"
)

func TestPulse(t *testing.T) {
	r := newRig(t, nil)
	if v := r.app.Pulse(); v != (PulseView{}) {
		t.Errorf("before the first: %+v", v)
	}
	a := newAuthorOf(t, r, 2)
	r.app.takePulse(t.Context())
	first := r.app.Pulse()
	if first.Waiting != 1 || first.Block == 0 || !first.Answers || first.At == 0 {
		t.Errorf("with a batch: %+v", first)
	}

	// What is shown is what was last known, whatever has changed since.
	a.fill(t, 1)
	r.mustIngest(a.batch(t, flight.EIP712))
	if v := r.app.Pulse(); v != first {
		t.Errorf("nobody has looked: %+v, want %+v", v, first)
	}
	if st, err := r.app.Status(t.Context()); err != nil || r.app.Pulse().Waiting != 2 || st.Waiting != 2 {
		t.Errorf("after the status: %+v, %v", r.app.Pulse(), err)
	}

	// A chain that does not answer leaves its last block.
	r.app.chains[31337] = deafChain{errors.New("away")}
	r.shift.Add(int64(lookEvery))
	r.app.takePulse(t.Context())
	if v := r.app.Pulse(); v.Answers || v.Block != first.Block || v.Waiting != 2 {
		t.Errorf("without the chain: %+v", v)
	}
}

// newAuthorOf returns an author who has delivered one batch of some steps.
func newAuthorOf(t *testing.T, r *rig, steps int) *author {
	t.Helper()
	a := newAuthor(t, "main")
	a.fill(t, steps)
	r.mustIngest(a.batch(t, flight.EIP712))
	return a
}
