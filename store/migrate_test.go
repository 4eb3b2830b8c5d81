package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"karatum/flight"
)

// olderSchema returns testdata/schema_N.sql, the schema as it was at version N.
func olderSchema(t *testing.T, n string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "schema_"+n+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makeFile makes a database by a script, in the journal mode of a real one.
func makeFile(t *testing.T, dir, script string) string {
	t.Helper()
	path := filepath.Join(dir, FileName)
	db, err := sql.Open("sqlite", dsn(path, writerPragmas))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(script); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMigrate brings a file of every older version up to date, rows included, and
// compares it with a file made by schema.sql.
func TestMigrate(t *testing.T) {
	want, err := wantSchema(t.Context(), schemaText(t))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "schema_*.sql"))
	if err != nil || len(files) != len(migrations) {
		t.Fatalf("%d older schemas for %d migrations, %v", len(files), len(migrations), err)
	}
	for _, file := range files {
		n := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "schema_"), ".sql")
		dir := t.TempDir()
		makeFile(t, dir, olderSchema(t, n)+"; PRAGMA application_id = 0x4b617261; PRAGMA user_version = "+n+
			"; INSERT INTO meta VALUES ('kept', x'01')")
		s := openStore(t, options(t, dir))
		got, err := readSchema(t.Context(), s.readers)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("version %s: migrated schema differs, %v:\n%v\n%v", n, err, got, want)
		}
		read(t, s, func(tx *ReadTx) error { _, err := tx.Meta(t.Context(), "kept"); return err })
		put(t, s, testBatch(1, "a", 0))
	}
}

// TestMigrateReplays expects replays of version 2 as they were, with what lists show
// of them.
func TestMigrateReplays(t *testing.T) {
	dir := t.TempDir()
	makeFile(t, dir, olderSchema(t, "2")+`; PRAGMA application_id = 0x4b617261; PRAGMA user_version = 2;
		INSERT INTO replay VALUES (3, 1, zeroblob(32), 'full', zeroblob(32), 'done', CAST('{"Result":{"reproduced":true}}' AS BLOB), 5, 6),
			(4, 2, zeroblob(32), 'none', zeroblob(32), 'failed', CAST('{"code":"LIMIT"}' AS BLOB), 5, 6),
			(5, 3, zeroblob(32), 'full', zeroblob(32), 'queued', NULL, 7, NULL)`)
	s := openStore(t, options(t, dir))
	read(t, s, func(tx *ReadTx) error {
		rows, _, err := tx.Replays(t.Context(), "", Page{})
		if err != nil || len(rows) != 3 {
			t.Fatalf("%d replays, %v", len(rows), err)
		}
		for i, want := range []Replay{
			{ID: 5, ChainID: 3, Prefix: "full", State: ReplayQueued, At: 7},
			{ID: 4, ChainID: 2, Prefix: "none", State: ReplayFailed, Attempts: 1, Summary: []byte(`{"code":"LIMIT"}`), At: 5, DoneAt: 6},
			{ID: 3, ChainID: 1, Prefix: "full", State: ReplayDone, Attempts: 1, Summary: []byte(`{"reproduced":true}`), At: 5, DoneAt: 6},
		} {
			if !reflect.DeepEqual(rows[i], want) {
				t.Errorf("%+v, want %+v", rows[i], want)
			}
		}
		p, err := tx.ReplayByID(t.Context(), 3)
		if string(p.Result) != `{"Result":{"reproduced":true}}` {
			t.Errorf("result = %s", p.Result)
		}
		return err
	})
}

// TestMigrateSearch expects opened steps of version 5 to be found by what they hold.
func TestMigrateSearch(t *testing.T) {
	args, claim := testHash("args"), testHash("claim")
	path := makeFile(t, t.TempDir(), olderSchema(t, "5")+fmt.Sprintf(`; PRAGMA application_id = 0x4b617261; PRAGMA user_version = 5; PRAGMA foreign_keys = OFF;
		INSERT INTO step (id, hash, agent_id, stream_id, seq, position, at, opened_at, opened, record, proof, claim_kind, state, reason,
			checks, checked_at, final, self_transfer, zero_amount, late)
		VALUES (7, zeroblob(32), 1, 1, 0, 1, 1, 1, 1, CAST('{"args":"%[1]s","claim":"%[2]s","name":"%[1]s","result":"%[1]s","v":"karatum.fr.v1"}' AS BLOB), zeroblob(0),
			'', 'unverifiable', '', zeroblob(0), 9, 1, 0, 0, 0)`, args, claim))
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := migrate(t.Context(), conn, schemaText(t), migrations); err != nil {
		t.Fatal(err)
	}
	for _, want := range []flight.Hash{args, claim} {
		var n int
		err := conn.QueryRowContext(t.Context(), `SELECT count(*) FROM commitment WHERE key = ? AND step_id = 7`, want[:8]).Scan(&n)
		if err != nil || n != 1 {
			t.Errorf("commitment %s: %d rows, %v", want, n, err)
		}
	}
	var all int
	if err := conn.QueryRowContext(t.Context(), `SELECT count(*) FROM commitment`).Scan(&all); err != nil || all != 2 {
		t.Errorf("%d rows, %v; want 2", all, err)
	}
}

// TestMigrateStops expects a step that fails to leave the version before it.
func TestMigrateStops(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := migrate(t.Context(), conn, "CREATE TABLE a (x)", nil); err != nil {
		t.Fatal(err)
	}
	steps := []string{"CREATE TABLE b (x)", "CREATE TABLE c (x); CREATE TABLE c (x)"}
	if err := migrate(t.Context(), conn, "", steps); err == nil {
		t.Fatal("a failing step succeeded")
	}
	got, err := readSchema(t.Context(), connQuerier{conn})
	if err != nil || len(got) != 2 || got["b"] == "" {
		t.Errorf("after a failed step: %v, %v", got, err)
	}
	steps[1] = "CREATE TABLE c (x)"
	if err := migrate(t.Context(), conn, "", steps); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), conn, "", steps[:1]); !errors.Is(err, ErrNewer) {
		t.Errorf("an older program = %v, want ErrNewer", err)
	}
}

type connQuerier struct{ *sql.Conn }

func (c connQuerier) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return c.Conn.QueryContext(ctx, text, args...)
}
