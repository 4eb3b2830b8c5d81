package eas

import (
	"bytes"
	"fmt"

	"github.com/ethereum/go-ethereum/accounts/abi"
)

// customErrors are the errors of EAS 1.4 and its registry, of the libraries that
// they use, and of this project's compatible contracts (ResolverUnsupported).
var customErrors = []string{
	"AccessDenied()", "AlreadyExists()", "AlreadyRevoked()", "AlreadyRevokedOffchain()", "AlreadyTimestamped()",
	"DeadlineExpired()", "FailedCall()", "InsufficientBalance(uint256,uint256)", "InsufficientValue()",
	"InvalidAttestation()", "InvalidAttestations()", "InvalidEAS()", "InvalidExpirationTime()", "InvalidLength()",
	"InvalidNonce()", "InvalidOffset()", "InvalidRegistry()", "InvalidRevocation()", "InvalidRevocations()",
	"InvalidSchema()", "InvalidShortString()", "InvalidSignature()", "InvalidVerifier()", "Irrevocable()", "NotFound()", "NotPayable()",
	"ResolverUnsupported(address)", "StringTooLong(string)", "WrongSchema()",
}

// RevertName names the reason in the data of a reverted call: a custom error of
// EAS such as "InvalidSchema", the text of a plain revert or panic, or a
// description of what is there. It never fails: it is for logs and messages, and
// what a contract says in plain text is quoted, at most 200 characters of it.
func RevertName(data []byte) string {
	if len(data) == 0 {
		return "no reason given"
	}
	for _, signature := range customErrors {
		if bytes.HasPrefix(data, selector(signature)) {
			name, _, _ := bytes.Cut([]byte(signature), []byte("("))
			return string(name)
		}
	}
	if reason, err := abi.UnpackRevert(data); err == nil {
		return fmt.Sprintf("%.200q", reason)
	}
	return fmt.Sprintf("unknown error %#x", data[:min(len(data), 4)])
}
