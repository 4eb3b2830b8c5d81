package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A guard stands beside the journal and says which batch index was last handed to
// the network. It notices a journal that lost its tail, and by the number of its
// own inode one that was copied or restored, without asking the node. A file
// system that renumbers its files costs a new stream at each start, no more.
type guard struct {
	V      int    `json:"v"`
	Inode  uint64 `json:"inode"` // of the file itself, 0 where the system has none
	Stream string `json:"stream"`
	Sent   int64  `json:"sent"` // highest index handed to the network, -1 before the first
}

const guardName = "guard.json"

// writeGuard replaces the guard durably. It is written after the signed batch and
// before its first byte is sent.
func writeGuard(dir, stream string, sent int64) error {
	path := filepath.Join(dir, guardName)
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	g := guard{V: 1, Inode: inode(f), Stream: stream, Sent: sent}
	raw, err := json.Marshal(g)
	if err == nil {
		_, err = f.Write(append(raw, '\n'))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return rename(path+".tmp", path)
}

// checkGuard returns why the journal, whose last state is c, may not go on with
// its stream, or "" where it may.
func checkGuard(dir string, c *cursor) (string, error) {
	f, err := os.Open(filepath.Join(dir, guardName))
	if errors.Is(err, fs.ErrNotExist) {
		return "the journal's guard file is missing", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	var g guard
	switch err := json.NewDecoder(f).Decode(&g); {
	case err != nil || g.V != 1:
		return "the journal's guard file is unreadable", nil
	case g.Inode != inode(f):
		return "the journal was copied or restored", nil
	case g.Stream != c.Stream:
		return "the journal has lost its latest stream " + g.Stream, nil
	case g.Sent >= int64(c.Index):
		return fmt.Sprintf("the journal has lost batch %d, which was sent", g.Sent), nil
	}
	return "", nil
}
