package store

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
)

// Pragmas belong to a connection and so stand in the DSN. The page size and the
// journal are properties of the file and take effect when it is created. The
// writer checkpoints by itself, see wal.go. Memory mapping is off: a truncated
// file would end the process with SIGBUS instead of an error.
var (
	commonPragmas = []string{"busy_timeout(1000)", "foreign_keys(ON)", "mmap_size(0)", "trusted_schema(OFF)", "temp_store(MEMORY)"}
	writerPragmas = append([]string{"page_size(4096)", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(0)", "cache_size(-65536)"}, commonPragmas...)
	readerPragmas = append([]string{"query_only(1)", "cache_size(-2048)", "wal_autocheckpoint(0)"}, commonPragmas...)
)

// dsn returns the driver's name for the file at path. A transaction that database/sql
// begins takes the write lock at once, unless it is declared read-only.
func dsn(path string, pragmas []string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return u.String() + "?_txlock=immediate&_dqs=0&_error_rc=1&_pragma=" + strings.Join(pragmas, "&_pragma=")
}

// stmtCache prepares each statement once on one connection.
type stmtCache struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (c *stmtCache) get(text string) (*sql.Stmt, error) {
	if st, ok := c.stmts[text]; ok {
		return st, nil
	}
	st, err := c.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	c.stmts[text] = st
	return st, nil
}
