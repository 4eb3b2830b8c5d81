package app

import (
	"encoding/json"

	"karatum/flight"
)

// This page holds what the API and the pages show. The JSON of these structs is a
// documented promise: fields may be added, never change meaning. Times are unix
// milliseconds unless the name says otherwise.

// A Page asks for a part of a list.
type Page struct {
	Cursor string // opaque; empty for the first part
	Limit  int    // 1 to 200
}

// A List is one part of a list; Next is the cursor of the following one, empty
// at the end.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// How a batch continues its stream (spec section 4).
const (
	Continuous = "continuous"
	Gap        = "gap"
	Filled     = "filled"
)

// IngestAnswer is the answer to one batch: the receipt and how it continues the
// stream. A duplicate has the stored receipt and no continuity.
type IngestAnswer struct {
	flight.Receipt
	Continuity string   `json:"continuity,omitempty"`
	Duplicate  bool     `json:"duplicate,omitempty"`
	Missing    *Missing `json:"missing,omitempty"`  // with gap
	LateBy     *uint64  `json:"lateByMs,omitempty"` // with filled: since the gap was seen
}

// Status returns the HTTP status of the answer.
func (a IngestAnswer) Status() int {
	if a.Duplicate {
		return 200
	}
	return 201
}

// Missing names what a stream lacks, both ends inclusive.
type Missing struct {
	Indexes [2]uint64 `json:"indexes"`
	Seqs    [2]uint64 `json:"seqs"`
}

// BulkAnswer is one line of a bulk answer: either the answer or the error.
type BulkAnswer struct {
	Line   int // from 0
	Answer *IngestAnswer
	Err    error
}

// BatchView is one stored batch.
type BatchView struct {
	BatchID   flight.Hash      `json:"batchId"`
	Header    flight.Header    `json:"header"`
	Scheme    flight.Scheme    `json:"scheme"`
	Signature flight.Signature `json:"signature"`
	Receipt   *flight.Receipt  `json:"receipt,omitempty"` // not in lists
	Epoch     *EpochRef        `json:"epoch"`
}

// EpochRef points at an epoch.
type EpochRef struct {
	ID    uint64      `json:"id"`
	Root  flight.Hash `json:"root"`
	State string      `json:"state"`
}

// BatchProofView is what a verifier needs besides the batch and any RPC.
type BatchProofView struct {
	BatchID flight.Hash  `json:"batchId"`
	Epoch   EpochHead    `json:"epoch"`
	Proof   flight.Proof `json:"proof"`
	Anchor  AnchorView   `json:"anchor"`
}

// EpochHead is what an attestation says of an epoch.
type EpochHead struct {
	Root       flight.Hash `json:"root"`
	BatchCount uint64      `json:"batchCount"`
}

// AnchorView says where an epoch stands on the chain. Fields that a pending
// anchor lacks are omitted.
type AnchorView struct {
	ChainID        uint64         `json:"chainId"`
	TxHash         *flight.Hash   `json:"txHash,omitempty"`
	BlockNumber    *uint64        `json:"blockNumber,omitempty"`
	BlockHash      *flight.Hash   `json:"blockHash,omitempty"`
	EAS            flight.Address `json:"eas"`
	SchemaUID      flight.Hash    `json:"schemaUid"`
	AttestationUID *flight.Hash   `json:"attestationUid,omitempty"`
	Attester       flight.Address `json:"attester"`
	State          string         `json:"state"` // pending, included, safe, final, orphaned, failed
}

// EpochView is one epoch.
type EpochView struct {
	ID         uint64            `json:"id"`
	Root       flight.Hash       `json:"root"`
	BatchCount uint64            `json:"batchCount"`
	First      uint64            `json:"firstPosition"`
	Last       uint64            `json:"lastPosition"`
	CreatedAt  uint64            `json:"createdAt"`
	Anchor     AnchorView        `json:"anchor"`
	Times      map[string]uint64 `json:"times"`           // when each state was reached
	LastError  string            `json:"error,omitempty"` // why the last attempt failed
	Batches    []flight.Hash     `json:"batches,omitempty"`
}

// StepView is one disclosed step.
type StepView struct {
	StepHash flight.Hash     `json:"stepHash"`
	BatchID  flight.Hash     `json:"batchId"`
	Step     json.RawMessage `json:"step"`
	Claim    json.RawMessage `json:"claim"` // null where none is opened
	Opened   []string        `json:"opened"`
	// Disclosure is the bundle that anyone can verify: the claim and what was
	// published are revealed, nothing else.
	Disclosure json.RawMessage `json:"disclosure"`
	Verdict    VerdictView     `json:"verdict"`
	Late       bool            `json:"late"`   // the block is over an hour older than step.at
	Replay     json.RawMessage `json:"replay"` // null until one ran
	ReceivedAt uint64          `json:"receivedAt"`
	Evidence   json.RawMessage `json:"equivocation,omitempty"` // a BROKEN_CHAIN that this step proved
	EpochOf    *EpochRef       `json:"epoch"`
}

// ReplaySummary is one replay as lists show it, for the step that asked first. What a
// replay that is not done lacks is null or omitted.
type ReplaySummary struct {
	ID          uint64          `json:"id"`
	State       string          `json:"state"` // queued, running, done, failed, cancelled
	StepHash    flight.Hash     `json:"stepHash"`
	Agent       flight.Address  `json:"agent"`
	Stream      string          `json:"stream"`
	Seq         uint64          `json:"seq"`
	ChainID     uint64          `json:"chainId"`
	TxHash      flight.Hash     `json:"txHash"`
	BlockNumber *uint64         `json:"blockNumber,omitempty"` // of the transaction
	BlockHash   *flight.Hash    `json:"blockHash,omitempty"`
	ForkBlock   *uint64         `json:"forkBlock,omitempty"` // the state is that after this block
	Prefix      string          `json:"prefix"`              // full or none
	PrefixCount *int            `json:"prefixCount,omitempty"`
	Reproduced  *bool           `json:"reproduced"`           // status and logs are the chain's
	Verdict     *flight.Verdict `json:"verdict"`              // of the step's claim on the replayed receipt
	Differences []string        `json:"differences"`          // in lists at most 8, then how many more
	Proof       string          `json:"proof,omitempty"`      // proved or unverified
	StateBasis  string          `json:"stateBasis,omitempty"` // "proved against block H" or "as told by RPC"
	Attempts    int             `json:"attempts"`             // runs begun since it was queued
	At          uint64          `json:"queuedAt"`
	StartedAt   uint64          `json:"startedAt,omitempty"` // the last run
	DoneAt      uint64          `json:"doneAt,omitempty"`
	Failure     *ReplayFailure  `json:"failure,omitempty"`
}

// ReplayDetail is all of one replay. Original is null where an older version of the
// node replayed.
type ReplayDetail struct {
	ReplaySummary
	Chain       VerdictView     `json:"chain"`    // the verdict on the chain's own receipt
	Original    *ReceiptView    `json:"original"` // what the chain has
	Replayed    *ReceiptView    `json:"replayed"`
	ConfirmedBy []string        `json:"confirmedBy,omitempty"` // who has the block besides the node read from
	Notes       []string        `json:"notes,omitempty"`
	Rules       string          `json:"rules,omitempty"` // the fork or network whose rules were applied
	TimeoutMs   uint64          `json:"timeoutMs"`       // what one run may take
	Result      json.RawMessage `json:"result"`          // as spec section 9 has it; null until done
}

// ReceiptView is what is compared of a receipt.
type ReceiptView struct {
	Success bool      `json:"success"`
	GasUsed uint64    `json:"gasUsed"`
	Logs    []LogView `json:"logs"`
}

// LogView is one event of a receipt.
type LogView struct {
	Address flight.Address `json:"address"`
	Topics  []flight.Hash  `json:"topics"`
	Data    string         `json:"data"` // hex
}

// ReplayQueue is how the queue of replays stands.
type ReplayQueue struct {
	Open      uint64         `json:"open"`    // queued or running
	Running   *ReplayRunning `json:"running"` // null while none runs
	LastError *ReplayError   `json:"lastError"`
}

// ReplayRunning is the replay that runs.
type ReplayRunning struct {
	ID        uint64      `json:"id"`
	StepHash  flight.Hash `json:"stepHash"`
	StartedAt uint64      `json:"startedAt"`
	AgeMs     uint64      `json:"ageMs"`
}

// ReplayError is the failed replay that was queued last.
type ReplayError struct {
	ID    uint64 `json:"id"`
	At    uint64 `json:"at"`
	Code  string `json:"code"`
	Words string `json:"words"` // the code in a sentence
}

// RecheckView says when a transaction is looked at again.
type RecheckView struct {
	ChainID  uint64      `json:"chainId"`
	TxHash   flight.Hash `json:"txHash"`
	DueAt    uint64      `json:"dueAt"`
	Attempts int         `json:"attempts"`
}

// VerdictView is a verdict with its place on the chain.
type VerdictView struct {
	flight.Verdict
	ChainID     uint64       `json:"chainId,omitempty"`
	TxHash      *flight.Hash `json:"txHash,omitempty"`
	BlockNumber *uint64      `json:"blockNumber,omitempty"`
	Final       bool         `json:"final"`
	At          uint64       `json:"at"`
}

// RatingView is a field rating and what must be read with it. Counts are of
// distinct transactions.
type RatingView struct {
	Rating       *float64 `json:"rating"` // null while nothing is decided
	Confirmed    uint64   `json:"confirmed"`
	Contradicted uint64   `json:"contradicted"`
	Unverifiable uint64   `json:"unverifiable"`
}

// Besides are the counts shown beside a rating, outside its formula.
type Besides struct {
	Self           uint64 `json:"self"` // transfers to the agent itself
	Zero           uint64 `json:"zero"` // amount 0
	Late           uint64 `json:"late"`
	Counterparties uint64 `json:"counterparties"`
}

// AgentView is the field record of one key.
type AgentView struct {
	Address       flight.Address    `json:"address"`
	FirstSeen     uint64            `json:"firstSeen"`
	LastSeen      uint64            `json:"lastSeen"`
	Batches       uint64            `json:"batches"`
	RecordedSteps uint64            `json:"recordedSteps"` // gaps included
	OpenedSteps   uint64            `json:"openedSteps"`
	Coverage      float64           `json:"coverage"` // opened / recorded, 0 to 1
	Field         RatingView        `json:"field"`    // public networks
	DevField      RatingView        `json:"devField"` // the dev chain, never mixed in
	Besides       Besides           `json:"besides"`
	Claims        map[string]uint64 `json:"claims"` // opened claims by kind
	Streams       uint64            `json:"streams"`
	Equivocations uint64            `json:"equivocations"`
	Equivocated   bool              `json:"equivocated"`
	Binding       string            `json:"binding"` // "unbound" until builds exist
}

// AnchoringView says how far the batches of a key are anchored.
type AnchoringView struct {
	Batches uint64    `json:"batches"`
	Waiting uint64    `json:"waiting"` // in no epoch, at least: among the 4,096 that go next
	Last    *EpochRef `json:"last"`    // the newest epoch in a block, of the stream that was seen last; null for none
}

// StreamView is one stream: what a recorder reads before it signs.
type StreamView struct {
	Agent      flight.Address `json:"agent"`
	Stream     string         `json:"stream"`
	Batches    uint64         `json:"batches"`
	Gaps       []Missing      `json:"gaps"` // oldest first, at most 200
	Head       *StreamHead    `json:"head"`
	LastSeenAt uint64         `json:"lastSeen"`
}

// StreamHead is the batch of the highest index.
type StreamHead struct {
	Index   uint64      `json:"index"`
	ToSeq   uint64      `json:"toSeq"`
	Head    flight.Hash `json:"head"`
	BatchID flight.Hash `json:"batchId"`
}

// EvidenceView is one stored equivocation.
type EvidenceView struct {
	ID       uint64          `json:"id"`
	Agent    flight.Address  `json:"agent"`
	Stream   string          `json:"stream"`
	Index    uint64          `json:"index"`
	Reason   string          `json:"reason"`
	SeenAt   uint64          `json:"seenAt"`
	Evidence json.RawMessage `json:"evidence"`
}

// CronView is one job of the node.
type CronView struct {
	Name     string        `json:"name"`
	Schedule string        `json:"schedule"`
	Next     uint64        `json:"next"` // 0 while the crons do not run
	Runs     []CronRunView `json:"runs"` // newest first, at most 20
}

// CronRunView is one run of a job.
type CronRunView struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"`
}

// ChainView is the node's sight of one chain.
type ChainView struct {
	ChainID   uint64 `json:"chainId"`
	Name      string `json:"name"`
	RPC       string `json:"rpc"` // without credentials
	Head      uint64 `json:"head"`
	LatencyMs uint64 `json:"latencyMs"`
	Error     string `json:"error,omitempty"`
}

// StatusView is the health of the node, without secrets.
type StatusView struct {
	Version         string         `json:"version"`
	Network         string         `json:"network"`
	Node            flight.Address `json:"node"`     // signs receipts
	Attester        flight.Address `json:"attester"` // sends attestations
	StartedAt       uint64         `json:"startedAt"`
	Batches         uint64         `json:"batches"`
	Agents          uint64         `json:"agents"`
	Waiting         uint64         `json:"waiting"` // batches not yet in an epoch
	NextAnchor      uint64         `json:"nextAnchor"`
	Epochs          uint64         `json:"epochs"`
	Equivocations   uint64         `json:"equivocations"`
	OpenedSteps     uint64         `json:"openedSteps"`
	PerMinute       uint64         `json:"batchesPerMinute"` // stored in the last 60 seconds
	LastHour        []uint64       `json:"batchesLastHour"`  // stored in each of the last 60 minutes of the clock, the running one last
	Today           VerdictsView   `json:"verdictsToday"`    // whose claim was compared last since midnight UTC
	DatabaseBytes   uint64         `json:"databaseBytes"`
	WALBytes        uint64         `json:"walBytes"`
	DiskFreeBytes   uint64         `json:"diskFreeBytes"`
	Chains          []ChainView    `json:"chains"`
	Crons           []CronView     `json:"crons"`
	Healthy         bool           `json:"healthy"`
	Problems        []string       `json:"problems"` // in plain words
	Replays         ReplayQueue    `json:"replays"`
	AttesterBalance string         `json:"attesterBalance,omitempty"`
}

// VerdictsView counts opened steps by their verdict.
type VerdictsView struct {
	Confirmed    uint64 `json:"confirmed"`
	Contradicted uint64 `json:"contradicted"`
	Unverifiable uint64 `json:"unverifiable"`
}

// AnchorRun says what one anchoring run did.
type AnchorRun struct {
	Epochs  int `json:"epochs"`  // anchored or sent
	Batches int `json:"batches"` // in them
}
