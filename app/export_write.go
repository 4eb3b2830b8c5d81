package app

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
)

// An archiveWriter writes an archive, one part of a member kind in memory.
type archiveWriter struct {
	gz      *gzip.Writer
	order   archiveOrder // of what is written, so that no archive is made which is refused
	kind    string       // of the open part
	part    bytes.Buffer
	lines   uint64
	members []ArchiveMember
}

func newArchiveWriter(w io.Writer) *archiveWriter {
	// What fills an archive are hashes, which compress to half their hex at any
	// level; the fastest one is four times as fast.
	gz, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a known one
	return &archiveWriter{gz: gz}
}

// add appends a line of a kind. Kinds come in the order of archiveKinds.
func (a *archiveWriter) add(kind string, doc any) error {
	line, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if kind != a.kind {
		if err := a.flush(); err != nil {
			return err
		}
		a.kind = kind
	}
	a.part.Write(append(line, '\n'))
	if a.lines++; a.part.Len() < partBytes {
		return nil
	}
	return a.flush()
}

// flush writes the open part as a member.
func (a *archiveWriter) flush() error {
	if a.lines == 0 {
		return nil
	}
	number := 1
	if archiveKinds[a.order.kind] == a.kind {
		number = a.order.part + 1
	}
	m := ArchiveMember{Name: partName(a.kind, number), Bytes: uint64(a.part.Len()), Lines: a.lines, SHA256: sha256.Sum256(a.part.Bytes())}
	if err := a.member(m.Name, a.part.Bytes()); err != nil {
		return err
	}
	a.members = append(a.members, m)
	a.part.Reset()
	a.lines = 0
	return nil
}

func (a *archiveWriter) member(name string, body []byte) error {
	if _, err := a.order.next(name); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	head, err := tarHeader(name, uint64(len(body)))
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for _, b := range [][]byte{head, body, make([]byte, padding(uint64(len(body))))} {
		if _, err := a.gz.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// close writes the manifest and the end.
func (a *archiveWriter) close(m *ArchiveManifest) error {
	if err := a.flush(); err != nil {
		return err
	}
	m.Members = append([]ArchiveMember{}, a.members...)
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := a.member(manifestName, append(body, '\n')); err != nil {
		return err
	}
	if _, err := a.gz.Write(make([]byte, 2*tarBlock)); err != nil {
		return err
	}
	return a.gz.Close()
}
