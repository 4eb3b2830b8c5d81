package app

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Errors of an archive's frame.
var (
	errCut       = errors.New("the archive ends too early: it was cut off, or its export was")
	errTrailing  = errors.New("bytes follow the end of the archive")
	errNoEnd     = errors.New("the archive ends without " + manifestName)
	errTooMany   = fmt.Errorf("the archive has over %d members", maxMembers)
	errTooLarge  = fmt.Errorf("the members take over %d bytes", int64(maxArchive))
	errNoArchive = errors.New("the file is no archive in gzip")
)

// An archiveReader reads the members of an archive, one in memory at a time.
type archiveReader struct {
	src   *bufio.Reader
	gz    *gzip.Reader
	order archiveOrder
	count int
	total uint64
}

// A readMember is a member whose frame is right.
type readMember struct {
	ArchiveMember
	kind string // empty for the manifest
	body []byte
}

func openArchive(r io.Reader) (*archiveReader, error) {
	src := bufio.NewReader(r)
	gz, err := gzip.NewReader(src)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errNoArchive, err) // not wrapped: io.EOF here is no good end
	}
	gz.Multistream(false)
	return &archiveReader{src: src, gz: gz}, nil
}

// IsArchive reports whether a file that begins so is an archive rather than a JSON
// document.
func IsArchive(head []byte) bool { return bytes.HasPrefix(head, []byte{0x1f, 0x8b}) }

// next returns the next member, or io.EOF after a complete archive. Everything that
// a header can say beside name and size is refused, so there are no links, no
// sparse files and no second names.
func (a *archiveReader) next() (*readMember, error) {
	var head [tarBlock]byte
	if err := a.full(head[:]); err != nil {
		return nil, err
	}
	if head == [tarBlock]byte{} {
		return nil, a.end()
	}
	m := &readMember{}
	m.Name = string(bytes.TrimRight(head[:100], "\x00"))
	if f := head[156]; f != tar.TypeReg {
		return nil, fmt.Errorf("member %q is no plain file (tar type %q)", m.Name, f)
	}
	var err error
	if m.kind, err = a.order.next(m.Name); err != nil {
		return nil, err
	}
	if m.Bytes, err = strconv.ParseUint(strings.TrimRight(string(head[124:136]), "\x00 "), 8, 63); err != nil {
		return nil, fmt.Errorf("member %q has no readable size", m.Name)
	}
	if want, err := tarHeader(m.Name, min(m.Bytes, maxMemberBytes)); m.Bytes <= maxMemberBytes && (err != nil || !bytes.Equal(want, head[:])) {
		return nil, fmt.Errorf("member %q has a header that no export writes", m.Name)
	}
	if err := a.admit(m); err != nil {
		return nil, err
	}
	return m, a.fill(m)
}

// admit holds the member against the limits before any of it is read.
func (a *archiveReader) admit(m *readMember) error {
	a.count++
	a.total += m.Bytes
	switch {
	case m.Bytes > maxMemberBytes:
		return fmt.Errorf("member %q takes %d bytes; at most %d are read", m.Name, m.Bytes, maxMemberBytes)
	case a.count > maxMembers:
		return errTooMany
	case a.total > maxArchive:
		return errTooLarge
	}
	return nil
}

func (a *archiveReader) fill(m *readMember) error {
	// A size costs nothing to claim: memory grows with what is really there.
	var b bytes.Buffer
	if n, err := io.Copy(&b, io.LimitReader(a.gz, int64(m.Bytes))); err != nil || uint64(n) < m.Bytes {
		return cut(err)
	}
	m.body, m.SHA256 = b.Bytes(), sha256.Sum256(b.Bytes())
	m.Lines = uint64(bytes.Count(m.body, []byte{'\n'}))
	var pad [tarBlock]byte
	if err := a.full(pad[:padding(m.Bytes)]); err != nil {
		return err
	}
	if pad != [tarBlock]byte{} {
		return fmt.Errorf("member %q is padded with something", m.Name)
	}
	return nil
}

// end reads what must follow the first block of zeros: one more, and nothing.
func (a *archiveReader) end() error {
	var rest [tarBlock]byte
	if err := a.full(rest[:]); err != nil {
		return err
	}
	if rest != [tarBlock]byte{} {
		return errTrailing
	}
	switch _, err := io.ReadFull(a.gz, rest[:1]); {
	case err == nil:
		return errTrailing
	case !errors.Is(err, io.EOF):
		return cut(err)
	}
	if _, err := a.src.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.Join(errTrailing, err)
	}
	if !a.order.done {
		return errNoEnd
	}
	return io.EOF
}

func (a *archiveReader) full(b []byte) error {
	if _, err := io.ReadFull(a.gz, b); err != nil {
		return cut(err)
	}
	return nil
}

// cut says why reading ended: what the compression noticed, or the end.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return fmt.Errorf("the compressed bytes are damaged: %w", err)
}
