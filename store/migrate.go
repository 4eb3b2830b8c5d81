package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
)

// applicationID marks the file as ours: "Kara".
const applicationID = 0x4b617261

// migrations bring an older file up to date: the text at index n takes version
// n+1 to n+2. A released one is never changed. schema.sql is at the version after
// the last; a test holds that every older file reaches exactly that.
var migrations = []string{
	// Replays are remembered.
	`CREATE TABLE replay (
	id       INTEGER PRIMARY KEY,
	chain_id INTEGER NOT NULL,
	tx_hash  BLOB NOT NULL,
	prefix   TEXT NOT NULL,
	step     BLOB NOT NULL, -- hash of the step that asked
	state    TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
	result   BLOB,          -- JSON
	at       INTEGER NOT NULL,
	done_at  INTEGER,
	UNIQUE (chain_id, tx_hash, prefix)
) STRICT;
CREATE INDEX replay_open ON replay (id) WHERE state IN ('queued', 'running');`,
	// Replays can be listed and cancelled; SQLite changes a CHECK by a new table only.
	`ALTER TABLE replay RENAME TO replay_2;
CREATE TABLE replay (
	id         INTEGER PRIMARY KEY,
	chain_id   INTEGER NOT NULL,
	tx_hash    BLOB NOT NULL,
	prefix     TEXT NOT NULL,
	step       BLOB NOT NULL,    -- hash of the step that asked first
	state      TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
	attempts   INTEGER NOT NULL, -- runs begun since it was queued
	summary    BLOB,             -- JSON, what lists show of done and failed
	result     BLOB,             -- JSON, all of it
	at         INTEGER NOT NULL, -- when it was queued
	started_at INTEGER,          -- the last run
	done_at    INTEGER,
	UNIQUE (chain_id, tx_hash, prefix)
) STRICT;
INSERT INTO replay (id, chain_id, tx_hash, prefix, step, state, attempts, summary, result, at, done_at)
SELECT id, chain_id, tx_hash, prefix, step, state, state <> 'queued', CASE state
	WHEN 'failed' THEN result
	WHEN 'done' THEN CAST(json_extract(CAST(result AS TEXT), '$.Result') AS BLOB) END, result, at, done_at FROM replay_2;
DROP TABLE replay_2;
CREATE INDEX replay_by_time ON replay (at);
CREATE INDEX replay_by_state ON replay (state, at);`,
	// Opened steps can be listed by their verdict.
	`CREATE INDEX step_by_state ON step (agent_id, state, id);`,
	// Final verdicts are found by their block.
	`CREATE INDEX step_final ON step (chain_id, block_number, block_hash) WHERE final = 1;`,
	// Steps are found by a transaction of whatever chain and by their commitments, and
	// verdicts counted by their day.
	`DROP INDEX step_by_tx;
CREATE INDEX step_by_tx ON step (tx_hash, chain_id, id) WHERE tx_hash IS NOT NULL;
CREATE INDEX step_by_check ON step (checked_at, state) WHERE claim_kind <> '';
CREATE TABLE commitment (
	key     BLOB NOT NULL,
	step_id INTEGER NOT NULL REFERENCES step (id),
	PRIMARY KEY (key, step_id)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO commitment (key, step_id)
SELECT substr(unhex(substr(j.value, 3)), 1, 8), s.id FROM step s, json_each(CAST(s.record AS TEXT)) j
WHERE j.key IN ('prompt', 'args', 'result', 'claim') AND j.type = 'text' AND length(j.value) = 66;`,
}

// migrate creates the schema in an empty file or runs the steps that an older one
// lacks, each in a transaction of its own, so that a crash leaves a whole version.
func migrate(ctx context.Context, conn *sql.Conn, schema string, steps []string) error {
	current := len(steps) + 1
	var version, app, tables int
	if err := conn.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version),
		(SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema)`).Scan(&version, &app, &tables); err != nil {
		return mapErr(err)
	}
	switch {
	case version == 0 && tables == 0:
		return inTransaction(ctx, conn, schema+fmt.Sprintf("\n;PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, current))
	case app != applicationID || version < 1:
		return fmt.Errorf("%w: the file is a database of another application", ErrDamaged)
	case version > current:
		return fmt.Errorf("%w: version %d, this is %d", ErrNewer, version, current)
	}
	for ; version < current; version++ {
		text := steps[version-1] + fmt.Sprintf("\n;PRAGMA user_version = %d;", version+1)
		if err := inTransaction(ctx, conn, text); err != nil {
			return fmt.Errorf("store: migrate version %d: %w", version, err)
		}
	}
	return nil
}

// inTransaction runs a script on a connection, all of it or nothing.
func inTransaction(ctx context.Context, conn *sql.Conn, script string) error {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return mapErr(err)
	}
	_, err := conn.ExecContext(ctx, script)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err == nil {
		return nil
	}
	// SQLite has undone it already where the disk is full, and says so.
	_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return mapErr(err)
}

var (
	sqlComment = regexp.MustCompile(`--[^\n]*`)
	sqlSpace   = regexp.MustCompile(`\s+`)
	sqlGlue    = regexp.MustCompile(`\s*([(),])\s*`)
)

// plainSQL removes what does not matter from a statement of the schema.
func plainSQL(text string) string {
	text = sqlSpace.ReplaceAllString(sqlComment.ReplaceAllString(text, ""), " ")
	return strings.TrimSpace(sqlGlue.ReplaceAllString(text, "$1"))
}

// rowQuerier is a connection or a pool.
type rowQuerier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// readSchema returns the statements that made the tables and indexes, by name.
func readSchema(ctx context.Context, q rowQuerier) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL`)
	if err != nil {
		return nil, mapErr(err)
	}
	defer rows.Close() // rows.Err is looked at
	out := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, mapErr(err)
		}
		out[name] = plainSQL(text)
	}
	return out, mapErr(rows.Err())
}

// wantSchema returns what readSchema finds in a file made by the script.
func wantSchema(ctx context.Context, script string) (map[string]string, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close() // it holds nothing
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, script); err != nil {
		return nil, err
	}
	return readSchema(ctx, db)
}
