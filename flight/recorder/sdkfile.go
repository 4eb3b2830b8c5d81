package recorder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"karatum/flight"
	"karatum/flight/canon"
)

// The journal of the single-file SDKs, Python and JavaScript alike, is one file of
// canonical JSON lines without checksums:
//
//	{"type":"stream","agent":…,"stream":…,"carry":{"stream":…,"fromSeq":…,"count":…}}
//	{"type":"step","hash":…,"step":{…},"openings":{FIELD:{"salt":…,"value":…}}}
//	{"type":"batch","header":{…},"scheme":…,"signature":…}
//	{"type":"receipt","index":…,"receipt":{…}}
//
// carry says, as [moved] does, which steps of another stream the first ones repeat.
// It is read here and never written: only the SDK that holds its lock goes on with
// it.

// maxSDKLine is more than the SDKs write for four values of 1 MiB.
const maxSDKLine = 16 << 20

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// parseSDKLine reads a line, without its newline. The error wraps errLine.
func parseSDKLine(line []byte) (record, error) {
	v, err := canon.Parse(line, lineDepth)
	if err != nil {
		return record{}, fmt.Errorf("%w: %w", errLine, err)
	}
	kind, _ := v.Get("type")
	r := record{kind: kind.Str}
	switch r.kind {
	case "stream":
		r.state, err = sdkStreamLine(v)
	case "step":
		err = r.stepFrom(v, "openings")
	case "batch":
		v.Obj = slices.DeleteFunc(v.Obj, func(m canon.Member) bool { return m.Key == "type" })
		if r.body, err = v.Canonical(); err == nil {
			r.batch, err = flight.ParseBatch(r.body)
		}
	case "receipt":
		err = json.Unmarshal(line, &struct {
			Index   *uint64         `json:"index"`
			Receipt *flight.Receipt `json:"receipt"`
		}{&r.n, &r.receipt})
	default:
		err = fmt.Errorf("unknown type %q", r.kind)
	}
	if err != nil {
		return record{}, fmt.Errorf("%w: %w", errLine, err)
	}
	return r, nil
}

func sdkStreamLine(v canon.Value) (c cursor, err error) {
	agent, _ := v.Get("agent")
	stream, _ := v.Get("stream")
	if c.Agent, err = flight.ParseAddress(agent.Str); err != nil {
		return c, err
	}
	c.Stream = stream.Str
	if err := flight.CheckStream(c.Stream); err != nil {
		return c, err
	}
	carry, ok := v.Get("carry")
	if !ok {
		return c, nil
	}
	from, _ := carry.Get("stream")
	first, _ := carry.Get("fromSeq")
	count, _ := carry.Get("count")
	c.Moved = &moved{Stream: from.Str}
	if c.Moved.From, ok = first.Int(); ok {
		c.Moved.Count, ok = count.Int()
	}
	if !ok {
		return c, errors.New("carry is not {stream, fromSeq, count}")
	}
	return c, nil
}

// applySDK is apply for the lines of an SDK, which begin their streams anywhere and
// name the batch of a receipt by its index.
func (c *cursor) applySDK(r *record) error {
	switch r.kind {
	case "stream":
		if c.Stream != "" && r.state.Agent != c.Agent {
			return fmt.Errorf("%w: a stream of %s in the journal of %s", errLine, r.state.Agent, c.Agent)
		}
		r.state.Node = c.Node
		*c = r.state
	case "receipt":
		if c.Inflight == nil || r.n+1 != c.Index {
			return fmt.Errorf("%w: a receipt for batch %d, which was not sent", errLine, r.n)
		}
		c.Inflight, c.Node = nil, r.receipt.Node
	default:
		return c.apply(r)
	}
	return nil
}

// An sdkScan goes through the lines of an SDK's journal, as the SDK itself does when
// it opens it.
type sdkScan struct {
	path string
	cursor
	line int   // number of the one last read
	good int64 // bytes of the lines that follow from each other
	size int64 // of the file
	bad  error // why the first other line is none; its place
}

// run calls each with every line and the place of its first byte. What follows the
// first line that is none was never sent, or there would be a batch in it, and that
// is damage: the error wraps [ErrDamaged].
func (s *sdkScan) run(each func(r *record, off int64) error) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := readLine(in)
		off := s.size
		s.size += int64(len(line))
		if err == io.EOF {
			return s.end()
		}
		if err != nil {
			return err
		}
		s.line++
		if err := s.take(bytes.TrimSuffix(line, []byte{'\n'}), off, each); err != nil {
			return err
		}
	}
}

func (s *sdkScan) take(line []byte, off int64, each func(*record, int64) error) error {
	r, err := parseSDKLine(line)
	if s.bad != nil {
		if err == nil && r.kind == "batch" {
			return fmt.Errorf("%w: %s, %w, yet signed batches follow", ErrDamaged, s.path, s.bad)
		}
		return nil
	}
	if err == nil {
		err = s.applySDK(&r)
	}
	if err != nil {
		s.bad = fmt.Errorf("line %d: %w", s.line, err)
		return nil
	}
	s.good = off + int64(len(line)) + 1
	return each(&r, off)
}

func (s *sdkScan) end() error {
	if s.Stream == "" {
		return s.stranger()
	}
	return nil
}

// stranger says what the file is instead.
func (s *sdkScan) stranger() error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, len(crcOpen))
	if n, _ := io.ReadFull(f, start); string(start[:n]) == crcOpen {
		return fmt.Errorf("%w: %s is one file of a journal; name its directory", ErrNotJournal, s.path)
	}
	return fmt.Errorf("%w: %s is neither a journal's directory nor the journal of an SDK", ErrNotJournal, s.path)
}

// readLine reads a line with its newline. io.EOF comes with what follows the last
// one. A line that is longer than any of a journal is cut, which spoils it.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) < maxSDKLine {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// An sdkFile is the source of an SDK's journal: the hash and place of each step,
// and the batches.
type sdkFile struct {
	path string
	all  []sdkStream // oldest first
}

type sdkStream struct {
	name   string
	moved  *moved
	steps  []sdkStep // by seq
	signed []signed  // by index
}

type sdkStep struct {
	off  int64 // of its line
	hash flight.Hash
}

func openSDKFile(path string) (*sdkFile, error) {
	f := &sdkFile{path: path}
	s := sdkScan{path: path}
	return f, s.run(func(r *record, off int64) error {
		if r.kind == "stream" {
			f.all = append(f.all, sdkStream{name: r.state.Stream, moved: r.state.Moved})
			return nil
		}
		cur := &f.all[len(f.all)-1]
		switch r.kind {
		case "step":
			cur.steps = append(cur.steps, sdkStep{off, r.hash})
		case "batch":
			cur.signed = append(cur.signed, signed{r.batch, r.body})
		}
		return nil
	})
}

func (f *sdkFile) streams() []string {
	var names []string
	for i := range f.all {
		names = append(names, f.all[i].name)
	}
	return names
}

func (f *sdkFile) moved(stream string, seq uint64) (string, uint64, bool) {
	for i := range f.all {
		if m := f.all[i].moved; m != nil && m.Stream == stream && seq >= m.From && seq-m.From < m.Count {
			return f.all[i].name, seq - m.From, true
		}
	}
	return "", 0, false
}

// find returns the stream, empty where there is none.
func (f *sdkFile) find(stream string) *sdkStream {
	for i := range f.all {
		if f.all[i].name == stream {
			return &f.all[i]
		}
	}
	return &sdkStream{}
}

func (f *sdkFile) step(stream string, seq uint64) (record, error) {
	s := f.find(stream)
	if seq >= uint64(len(s.steps)) {
		return record{}, fmt.Errorf("%w: step %s/%d", ErrNotFound, stream, seq)
	}
	in, err := os.Open(f.path)
	if err != nil {
		return record{}, err
	}
	defer in.Close()
	if _, err := in.Seek(s.steps[seq].off, io.SeekStart); err != nil {
		return record{}, err
	}
	line, err := readLine(bufio.NewReader(in))
	if err != nil {
		return record{}, err
	}
	return parseSDKLine(bytes.TrimSuffix(line, []byte{'\n'}))
}

func (f *sdkFile) batch(stream string, seq uint64) (flight.Batch, error) {
	s := f.find(stream)
	i := sort.Search(len(s.signed), func(i int) bool { return s.signed[i].Header.ToSeq >= seq })
	if i == len(s.signed) {
		return flight.Batch{}, ErrNotSigned
	}
	return s.signed[i].Batch, nil
}

func (f *sdkFile) hashes(h *flight.Header) ([]flight.Hash, error) {
	var out []flight.Hash
	for _, s := range f.find(h.Stream).steps[h.FromSeq : h.ToSeq+1] {
		out = append(out, s.hash)
	}
	return out, nil
}

func (f *sdkFile) batches(each func(*signed) error) error {
	for i := range f.all {
		for k := range f.all[i].signed {
			if err := each(&f.all[i].signed[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSDKFile is [Check] for the journal of an SDK.
func checkSDKFile(path string) (*CheckReport, error) {
	c := checker{rep: CheckReport{Segments: 1}}
	s := sdkScan{path: path}
	var id flight.Hash // of the last batch
	open := false      // it has no receipt yet
	err := s.run(func(r *record, _ int64) error {
		switch r.kind {
		case "stream":
			if open {
				c.rep.Refused++ // the node took another history; the stream was left
			}
			c.rep.Streams = append(c.rep.Streams, r.state.Stream)
			c.stream, c.first, c.hashes, open = r.state.Stream, 0, nil, false
			return nil
		case "batch":
			id, open = r.batch.ID(), true
		case "receipt":
			if open = false; r.receipt.BatchID != id {
				c.problem("%s, line %d: a receipt of batch %s in place of %s", path, s.line, r.receipt.BatchID, id)
			}
		}
		return c.line(r)
	})
	switch {
	case errors.Is(err, ErrDamaged):
		c.rep.Problems = append(c.rep.Problems, err)
	case err != nil:
		return nil, err
	case s.bad != nil:
		c.problem("%s, %w; its SDK takes it out with all that follows at the next open", path, s.bad)
	default:
		c.rep.Torn = int(s.size - s.good)
	}
	c.rep.Waiting, c.rep.Inflight = s.Seq-s.From, s.Inflight != nil
	return &c.rep, nil
}
