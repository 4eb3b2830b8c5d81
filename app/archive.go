package app

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"karatum/flight"
)

// ArchiveFormat names the form of an exported record: a tar archive in gzip. A tar
// is written and read from front to back, so that neither side needs the whole in
// memory or a file to seek in; a zip has its directory at the end and beside it a
// second truth in front of each member.
//
// The members are, in this order, batches/000001.ndjson and so on, disclosures/…,
// evidence/…, each of them whole lines, and manifest.json, which comes last for it
// holds what the others hash to. Every line is a document that [Verify] takes by
// itself. Headers are bare USTAR, one encoding for each name and size.
//
// The manifest is signed by nobody: it guards against accidents. What an agent or a
// node cannot deny is signed inside the lines.
const ArchiveFormat = "karatum.export.v1"

// Kinds of members, in the order in which an archive holds them.
const (
	membersBatches     = "batches"     // {batch, receipt, proof}, by stream and index; no proof before the anchor
	membersDisclosures = "disclosures" // {disclosure, nodeClaims}, in the order in which they were opened
	membersEvidence    = "evidence"    // as in spec section 5, the oldest first
	manifestName       = "manifest.json"
)

var archiveKinds = []string{membersBatches, membersDisclosures, membersEvidence}

// Sizes of an archive. A part is full with the line that reaches partBytes, so it
// is larger by at most one document.
const (
	tarBlock       = 512
	partBytes      = 1 << 20
	maxMemberBytes = partBytes + maxVerifyBytes
	maxMembers     = 1 << 16
	maxArchive     = 64 << 30 // bytes of all members
)

// An ArchiveManifest says what an archive holds.
type ArchiveManifest struct {
	Format     string          `json:"format"`
	Agent      flight.Address  `json:"agent"`
	Node       flight.Address  `json:"node"`       // that signs receipts now
	ExportedAt uint64          `json:"exportedAt"` // unix ms: what was stored then is here
	Chains     ArchiveChains   `json:"chainIds"`
	Counts     ArchiveCounts   `json:"counts"`
	Members    []ArchiveMember `json:"members"` // in their order, the manifest excepted
	// NodeClaims is the field record as the node shows it ([AgentView]). Nothing
	// here proves it.
	NodeClaims json.RawMessage `json:"nodeClaims"`
}

// ArchiveChains are the chains that a check needs, in rising order.
type ArchiveChains struct {
	Anchors []uint64 `json:"anchors"`
	Claims  []uint64 `json:"claims"` // that the disclosed steps name
}

// ArchiveCounts are the sizes of a record.
type ArchiveCounts struct {
	Streams     uint64 `json:"streams"`
	Batches     uint64 `json:"batches"`
	Missing     uint64 `json:"missingBatches"` // below the highest index of each stream
	Anchored    uint64 `json:"anchored"`       // batches with a proof
	Disclosures uint64 `json:"disclosures"`
	Evidence    uint64 `json:"evidence"`
}

// An ArchiveMember is one file of an archive.
type ArchiveMember struct {
	Name   string      `json:"name"`
	Bytes  uint64      `json:"bytes"`
	Lines  uint64      `json:"lines"`
	SHA256 flight.Hash `json:"sha256"`
}

// NodeClaims are what the node says of a disclosed step; nobody signed it.
type NodeClaims struct {
	Verdict  VerdictView `json:"verdict"`
	Late     bool        `json:"late"`
	OpenedAt uint64      `json:"openedAt"` // unix ms
}

func partName(kind string, part int) string { return fmt.Sprintf("%s/%06d.ndjson", kind, part) }

// tarHeader is the only header that a member of this name and size may have.
func tarHeader(name string, size uint64) ([]byte, error) {
	var b bytes.Buffer
	err := tar.NewWriter(&b).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(size), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
	if err == nil && b.Len() != tarBlock {
		err = fmt.Errorf("the header of %s takes %d bytes", name, b.Len())
	}
	return b.Bytes(), err
}

// padding is what fills the last block of a member.
func padding(size uint64) uint64 { return (tarBlock - size%tarBlock) % tarBlock }

// An archiveOrder follows the members and refuses one that is out of its place.
type archiveOrder struct {
	kind int // in archiveKinds
	part int // the last one seen of it
	done bool
}

// next takes a name and returns its kind, "" for the manifest.
func (o *archiveOrder) next(name string) (kind string, err error) {
	kind, rest, _ := strings.Cut(name, "/")
	k := slices.Index(archiveKinds, kind)
	switch {
	case o.done:
		return "", fmt.Errorf("member %q follows the manifest, which is the last", name)
	case name == manifestName:
		o.done = true
		return "", nil
	case strings.HasPrefix(name, "/") || strings.Contains(name, `\`) || slices.Contains(strings.Split(name, "/"), ".."):
		return "", fmt.Errorf("member %q leads out of the archive", name)
	case k < 0 || len(rest) != len("000001.ndjson") || !strings.HasSuffix(rest, ".ndjson") || strings.Trim(rest[:6], "0123456789") != "":
		return "", fmt.Errorf("member %q does not belong into an export", name)
	}
	want := 1
	if k == o.kind {
		want = o.part + 1
	}
	switch {
	case k < o.kind || name < partName(kind, want):
		return "", fmt.Errorf("member %q is there twice or out of order", name)
	case name != partName(kind, want):
		return "", fmt.Errorf("member %q comes where %q must", name, partName(kind, want))
	}
	o.kind, o.part = k, want
	return kind, nil
}
