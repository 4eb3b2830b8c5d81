package recorder

import (
	"errors"
	"fmt"
	"time"

	"karatum/flight"
)

// Errors of the journal and the recorder; test with errors.Is.
var (
	// ErrLocked reports that another recorder has the journal open.
	ErrLocked = errors.New("recorder: another recorder has this journal open")
	// ErrDamaged reports a journal with damage before its end. Nothing is repaired:
	// what stands there was signed, and going on could contradict it.
	ErrDamaged = errors.New("recorder: the journal is damaged in the middle; restore it, or move it away to begin a new one")
	// ErrNotJournal reports a path that is no journal, or not one that can be
	// written here.
	ErrNotJournal = errors.New("recorder: not a journal")
	// ErrTorn reports a line that a crash left unfinished at the journal's end. It
	// was cut off; every line before it is intact.
	ErrTorn = errors.New("recorder: the journal's last line was torn and is cut off")
	// ErrAgent reports a journal of another agent key.
	ErrAgent = errors.New("recorder: the journal belongs to another agent")
	// ErrClosed reports use after Close.
	ErrClosed = errors.New("recorder: closed")
	// ErrJournal reports that the disk refused a flush. Because nobody can say what
	// reached it, the journal takes nothing more until it is opened again.
	ErrJournal = errors.New("recorder: the journal could not be flushed to disk; open it again")
	// ErrStep reports a step that cannot be recorded, because a value has no
	// canonical form or a rule of spec section 2 is broken.
	ErrStep = errors.New("recorder: step not recorded")
	// ErrNoNode reports a Flush of a recorder without a node to send to.
	ErrNoNode = errors.New("recorder: no node is configured")
	// ErrNodeBehind reports a node that lacks batches which it had acknowledged. The
	// journal still has them: [Resend].
	ErrNodeBehind = errors.New("recorder: the node lacks batches that were delivered")
	// ErrNotFound reports a stream, step or field that the journal does not have.
	ErrNotFound = errors.New("recorder: not in the journal")
	// ErrNotSigned reports a step that is in no signed batch yet.
	ErrNotSigned = errors.New("recorder: the step is in no signed batch yet")
	// ErrSigner reports a signer whose signature is not the agent's.
	ErrSigner = errors.New("recorder: wrong signature from the signer")
)

// A StreamChange tells OnError that the recorder gave up a stream and goes on
// under a new one, which keeps the old one free of a second history.
type StreamChange struct {
	Old, New string
	Why      string
	Moved    uint64 // waiting steps that are recorded again in the new stream
}

func (e *StreamChange) Error() string {
	return fmt.Sprintf("recorder: stream %s is left for the new stream %s because %s; %d waiting steps go along and may stand in both",
		e.Old, e.New, e.Why, e.Moved)
}

// A ReceiptKeyError tells OnError of a receipt that is signed by another key than
// the node's, as far as this journal knows. It does not count: the batch stays in
// flight and is sent again, and steps go on into the journal.
type ReceiptKeyError struct {
	URL     string         // of the node that answered
	Got     flight.Address // signed the receipt
	Want    flight.Address // is pinned
	Journal string         // whose receipts pinned it; empty where Options.NodeAddress did
}

func (e *ReceiptKeyError) Error() string {
	by := "NodeAddress (--node-address)"
	if e.Journal != "" {
		by = "the receipts in " + e.Journal
	}
	return fmt.Sprintf("recorder: the receipt from %s is signed by %s, but %s pins the node's key to %s; it does not count, and the batch is sent again. "+
		"If the node's operator confirms the new key, or you changed nodes, open the journal with NodeAddress (--node-address) %[2]s; if not, somebody else answers in the node's place",
		e.URL, e.Got, by, e.Want)
}

// A NodeError is an answer of the node that is not a receipt.
type NodeError struct {
	URL        string // of the node
	Status     int    // HTTP status
	Code       string // of spec section 4, empty where the answer had none
	Message    string
	RetryAfter time.Duration    // 0 where the node names none
	Evidence   *flight.Evidence // of 409 EQUIVOCATION, nil where it proves nothing
}

func (e *NodeError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("recorder: %s answers %d without a node's error code; is the URL right?", e.URL, e.Status)
	}
	return fmt.Sprintf("recorder: the node at %s answers %d %s: %s", e.URL, e.Status, e.Code, e.Message)
}
