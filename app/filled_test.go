package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"karatum/store"
)

// filledApp reads a database that the benchmark of pages filled, with so many batches
// and opened steps.
func filledApp(t *testing.T, batches, steps int) *App {
	t.Helper()
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	if err := fillPages(t.Context(), dir, string(schema), batches, steps); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{Dir: dir, Schema: string(schema), Now: time.Now, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &App{store: st, now: time.Now, log: slog.New(slog.DiscardHandler)}
}
