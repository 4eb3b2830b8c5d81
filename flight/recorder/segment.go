package recorder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"karatum/flight"
)

// A segment is one file of a journal, DIR/00000001.jsonl and so on. Every segment
// but the last is sealed: never written again, with an index beside it.
type segment struct {
	n    uint64
	path string
	head cursor // the state when it begins
}

func segmentPath(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%08d.jsonl", n))
}

func (s *segment) indexPath() string { return strings.TrimSuffix(s.path, ".jsonl") + ".idx" }

// listSegments reads the head of every segment in order. torn is the path of a
// last file whose first line is no segment line, or empty. The error wraps
// [ErrDamaged] where an earlier one is missing or unreadable.
func listSegments(dir string) (segs []segment, torn string, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	var numbers []uint64
	for _, f := range files {
		base, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if n, err := strconv.ParseUint(base, 10, 64); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if i > 0 && n != numbers[i-1]+1 {
			return nil, "", fmt.Errorf("%w: %s is missing", ErrDamaged, segmentPath(dir, numbers[i-1]+1))
		}
		s := segment{n: n, path: segmentPath(dir, n)}
		if s.head, err = readHead(s.path, n); err == nil {
			segs = append(segs, s)
			continue
		}
		if !errors.Is(err, errLine) {
			return nil, "", err
		}
		if i < len(numbers)-1 || laterLines(s.path) {
			return nil, "", fmt.Errorf("%w: %s: first line: %w", ErrDamaged, s.path, err)
		}
		torn = s.path
	}
	return segs, torn, nil
}

// laterLines reports whether any sound line stands in the file.
func laterLines(path string) bool {
	data, err := os.ReadFile(path)
	return err != nil || soundAfter(data, 0)
}

// readHead reads the first line of a segment. The error wraps errLine where it is
// none.
func readHead(path string, n uint64) (cursor, error) {
	f, err := os.Open(path)
	if err != nil {
		return cursor{}, err
	}
	defer f.Close()
	line := make([]byte, 0, 4096)
	for {
		got, err := f.Read(line[len(line):cap(line)])
		line = line[:len(line)+got]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
			break
		}
		if err != nil || len(line) > 1<<20 {
			break
		}
		line = slices.Grow(line, len(line)+1)
	}
	r, err := parseLine(line)
	switch {
	case err != nil:
		return cursor{}, err
	case r.kind != "segment" || r.n != n:
		return cursor{}, fmt.Errorf("%w: not the head of file %d", errLine, n)
	}
	return r.state, nil
}

// An entry locates one line of a segment.
type entry struct {
	kind byte        // 's' step, 'b' batch, 'r' receipt, 'x' refused
	num  uint64      // seq of a step, toSeq of a batch
	off  uint64      // of the line's first byte
	hash flight.Hash // of the step, or the batchId
}

func (r *record) entry(off int) entry {
	switch r.kind {
	case "step":
		return entry{'s', r.step.Seq, uint64(off), r.hash}
	case "batch":
		return entry{'b', r.batch.Header.ToSeq, uint64(off), r.batch.ID()}
	case "receipt":
		return entry{'r', 0, uint64(off), r.receipt.BatchID}
	}
	return entry{'x', 0, uint64(off), r.batchID}
}

// A replay is a segment read from its first line to its last whole one.
type replay struct {
	cursor
	entries []entry
	good    int  // bytes of whole lines
	torn    int  // bytes after them
	open    bool // the last whole line lacks its newline
}

// replaySegment reads and checks every line of a segment. Bytes after the last
// whole line are counted, not refused; a bad line before a sound one, or a line
// that does not follow from those before it, is an error that wraps [ErrDamaged].
// each, when not nil, is called with every line after the head.
func replaySegment(path string, n uint64, data []byte, each func(*record) error) (*replay, error) {
	r := &replay{}
	for off := 0; off < len(data); {
		line, rest := data[off:], 0
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line, rest = line[:end], 1
		}
		if !sound(line) {
			if soundAfter(data, off) {
				return nil, fmt.Errorf("%w: %s, byte %d", ErrDamaged, path, off)
			}
			r.torn = len(data) - off
			break
		}
		rec, err := parseLine(line)
		if err == nil {
			err = r.take(&rec, n, off, each)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s, byte %d: %w", ErrDamaged, path, off, err)
		}
		off += len(line) + rest
		r.good, r.open = off, rest == 0
	}
	return r, nil
}

func (r *replay) take(rec *record, n uint64, off int, each func(*record) error) error {
	if off == 0 {
		if rec.kind != "segment" || rec.n != n {
			return fmt.Errorf("%w: not the head of file %d", errLine, n)
		}
		r.cursor = rec.state
		return nil
	}
	if err := r.apply(rec); err != nil {
		return err
	}
	r.entries = append(r.entries, rec.entry(off))
	if each != nil {
		return each(rec)
	}
	return nil
}

// soundAfter reports whether a sound line begins anywhere after byte off.
func soundAfter(data []byte, off int) bool {
	for at := off + 1; at < len(data); at++ {
		next := bytes.Index(data[at:], []byte(crcOpen))
		if next < 0 {
			return false
		}
		at += next
		line, _, _ := bytes.Cut(data[at:], []byte{'\n'})
		if sound(line) {
			return true
		}
	}
	return false
}

// Index files: entries of 56 bytes {kind, 7 zero bytes, num, off, hash}, then the
// CRC-32C of them all. They only save time: a missing or wrong one is made anew.
const entryLen = 56

func encodeIndex(entries []entry) []byte {
	b := make([]byte, 0, len(entries)*entryLen+4)
	for _, e := range entries {
		b = append(b, e.kind, 0, 0, 0, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint64(b, e.num)
		b = binary.BigEndian.AppendUint64(b, e.off)
		b = append(b, e.hash[:]...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeIndex(b []byte) ([]entry, bool) {
	n := len(b) - 4
	if n < 0 || n%entryLen != 0 || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return nil, false
	}
	entries := make([]entry, 0, n/entryLen)
	for ; len(b) > 4; b = b[entryLen:] {
		entries = append(entries, entry{b[0], binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]), flight.Hash(b[24:56])})
	}
	return entries, true
}

// check reads the whole sealed segment, compares it with the state at which the
// next one begins and with its index, and writes the index anew where it differs
// and write is set.
func (s *segment) check(next *cursor, write bool) (*replay, error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	r, err := replaySegment(s.path, s.n, data, nil)
	if err != nil {
		return nil, err
	}
	if r.torn > 0 || r.open || !next.follows(&r.cursor) {
		return nil, fmt.Errorf("%w: %s does not lead to the file after it", ErrDamaged, s.path)
	}
	want := encodeIndex(r.entries)
	if have, err := os.ReadFile(s.indexPath()); write && (err != nil || !bytes.Equal(have, want)) {
		return r, writeFile(s.indexPath(), want)
	}
	return r, nil
}

// follows reports whether a segment's head c is what the segment before it ends
// with: the same state, or the beginning of another stream of the same agent. Heads
// that were written before receipts were pinned name no node.
func (c *cursor) follows(end *cursor) bool {
	if c.Agent != end.Agent || c.Node != end.Node && c.Node != (flight.Address{}) || !bytes.Equal(c.Inflight, end.Inflight) {
		return false
	}
	if c.Stream != end.Stream {
		return c.Seq == 0 && c.Index == 0 && c.From == 0
	}
	return c.Seq == end.Seq && c.Prev == end.Prev && c.Index == end.Index && c.From == end.From && c.PrevHead == end.PrevHead
}

// writeFile replaces a file so that a crash leaves the old or the new content.
func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return rename(path+".tmp", path)
}

// rename moves a file and makes the move durable.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if runtime.GOOS == "windows" { // has no such call
		return nil
	}
	return d.Sync()
}
