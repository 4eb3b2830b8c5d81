package flight_test

import (
	"testing"

	"karatum/flight"
	"karatum/flight/merkle"
)

// A step at an odd place of its batch is compared with the leaf beside it. One that
// names another step never passes, yet its disclosure stands: evidence of a broken
// chain consists of such.
func TestPrevOfInnerSteps(t *testing.T) {
	key, err := flight.KeyFromBytes(append(make([]byte, 31), 7))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		broken bool
		want   [4]flight.CheckState // PREV_HEAD of each step
	}{
		{"honest", false, [4]flight.CheckState{flight.Pass, flight.Pass, flight.Skip, flight.Pass}},
		{"broken before step 1", true, [4]flight.CheckState{flight.Pass, flight.Skip, flight.Skip, flight.Pass}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var steps []flight.Step
			var hashes []flight.Hash
			for i := range 4 {
				args := flight.Hash{byte(i + 1)}
				s := flight.Step{Agent: key.Address(), Stream: "main", Seq: uint64(i), At: 1, Kind: "note", Status: "ok", Args: &args}
				if i > 0 {
					s.Prev = hashes[i-1]
				}
				if c.broken && i == 1 {
					s.Prev = flight.Hash{9}
				}
				steps, hashes = append(steps, s), append(hashes, s.Hash())
			}
			root, err := merkle.Root(hashes)
			if err != nil {
				t.Fatal(err)
			}
			b := flight.Header{Agent: key.Address(), Stream: "main", ToSeq: 3, Head: hashes[3], Root: root, CreatedAt: 1}.Sign(key, flight.EIP712)
			for i, want := range c.want {
				d, err := flight.NewDisclosure(b, steps, i)
				if err != nil {
					t.Fatal(err)
				}
				r := d.Verify()
				if r.Err() != nil {
					t.Errorf("step %d: %v", i, r.Err())
				}
				for _, got := range r.Checks {
					if got.Code == flight.CheckPrevHead && got.State != want {
						t.Errorf("step %d: %s, want %s: %s", i, got.State, want, got.Detail)
					}
				}
			}
		})
	}
}
