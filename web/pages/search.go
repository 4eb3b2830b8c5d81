package pages

import (
	"fmt"
	"strings"

	"karatum/app"
)

// foundWords say what a hit of each kind is, and how one says that it was looked for.
var foundWords = map[string]struct{ is, sought string }{
	app.FoundAgent:      {"Agent", "an agent's address"},
	app.FoundNode:       {"Key of this node", "a key of this node"},
	app.FoundStream:     {"Stream", "a stream of an agent"},
	app.FoundBatch:      {"Batch", "a batch id"},
	app.FoundStep:       {"Opened step", "the hash of an opened step"},
	app.FoundTx:         {"Step about a transaction", "a transaction that a step names"},
	app.FoundCommitment: {"Step with a commitment", "a commitment in an opened step"},
	app.FoundEpoch:      {"Epoch", "an epoch's root or number"},
	app.FoundAnchor:     {"Epoch in a transaction", "an anchoring transaction"},
}

// sought lists what a text could have named.
func sought(tried []string) string {
	words := make([]string, len(tried))
	for i, kind := range tried {
		words[i] = foundWords[kind].sought
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// FoundAt is the address of a hit.
func (s *Site) FoundAt(h app.SearchHit) string {
	switch h.Kind {
	case app.FoundAgent:
		return s.Link("agents", h.ID)
	case app.FoundNode:
		return s.Link("node")
	case app.FoundStream:
		return s.StreamLink(*h.Agent, h.Stream)
	case app.FoundBatch:
		return s.Link("batches", h.ID)
	case app.FoundEpoch, app.FoundAnchor:
		return s.Link("epochs", *h.Epoch)
	}
	return s.StepLink(*h.Agent, h.Stream, *h.Seq)
}

// foundName is how a hit is called in its list.
func foundName(h app.SearchHit) string {
	switch h.Kind {
	case app.FoundStream:
		return h.Stream
	case app.FoundBatch:
		return fmt.Sprintf("%s batch %d", h.Stream, *h.Index)
	case app.FoundEpoch, app.FoundAnchor:
		return fmt.Sprintf("Epoch %d", *h.Epoch)
	case app.FoundAgent, app.FoundNode:
		return ""
	}
	return fmt.Sprintf("%s %d", h.Stream, *h.Seq)
}
