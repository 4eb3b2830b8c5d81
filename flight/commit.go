package flight

import "karatum/flight/canon"

// commitTag precedes every commitment's input (seed section 2.1).
const commitTag = "karatum.fr.v1.commit"

// Commit returns keccak256(tag || salt || canonical), the commitment to the value
// whose canonical JSON is given. With 32 fresh random bytes as salt it hides even
// a guessable value.
func Commit(canonical []byte, salt Hash) Hash {
	return Keccak256([]byte(commitTag), salt[:], canonical)
}

// CommitValue is [Commit] of a value, which may be too deep or too large (spec
// section 1; the error is a [*canon.Error]).
func CommitValue(v canon.Value, salt Hash) (Hash, error) {
	b, err := v.Canonical()
	if err != nil {
		return Hash{}, err
	}
	return Commit(b, salt), nil
}
