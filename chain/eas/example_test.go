package eas_test

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"karatum/chain/eas"
)

// A verifier who has an epoch's root and count rebuilds the input that the
// anchoring transaction must have, and compares it with what any node says.
func ExampleEpoch_Calldata() {
	epoch := eas.Epoch{Root: [32]byte{31: 1}, Count: 7, Spec: eas.SpecV1}
	input := epoch.Calldata()
	fmt.Println(len(input), hexutil.Encode(input[:4]))

	back, err := eas.ParseEpochCalldata(input)
	fmt.Println(back.Count, back.Spec, err)
	// Output:
	// 484 0xf17325e7
	// 7 karatum.flightrec.v1 <nil>
}
