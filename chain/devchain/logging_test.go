package devchain

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	gethlog "github.com/ethereum/go-ethereum/log"
)

// go-ethereum ends the process after a log record of level Crit. Here it must
// not: the goroutine is parked, and every later call says so.
func TestCritIsNoExit(t *testing.T) {
	c := openTest(t, testOptions(t.TempDir()))
	go gethlog.Crit("Failed to store block", "err", "no space left")
	<-c.dead.blown
	if err := c.Err(); !errors.Is(err, ErrDead) || !strings.Contains(err.Error(), "Failed to store block: no space left") {
		t.Errorf("Err = %v", err)
	}
	if err := c.Mine(); !errors.Is(err, ErrDead) {
		t.Errorf("Mine = %v, want ErrDead", err)
	}
	if err := c.Close(); !errors.Is(err, ErrDead) {
		t.Errorf("Close = %v, want ErrDead", err)
	}
}

// A syncBuffer is written by go-ethereum's goroutines while a test reads it.
type syncBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Nothing goes to standard error or the default logger; what go-ethereum says
// reaches the given logger only, one step quieter.
func TestLogging(t *testing.T) {
	var log syncBuffer
	previous := slog.Default()
	o := testOptions(t.TempDir())
	o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := openTest(t, o)
	if err := c.Mine(); err != nil {
		t.Fatal(err)
	}
	gethlog.Info("tea is ready")
	gethlog.Warn("tea is cold", "cups", 2)
	gethlog.Error("tea is out")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if slog.Default() != previous {
		t.Error("the default logger was replaced")
	}
	text := log.String()
	for _, want := range []string{`level=DEBUG msg="devchain: tea is cold" cups=2`, `level=WARN msg="devchain: tea is out"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.Contains(line, `msg="devchain: `) || strings.Contains(line, "level=ERROR") || strings.Contains(line, "ready") {
			t.Errorf("unexpected: %s", line)
		}
	}
}
