package app

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// DefaultConfig returns the settings that no flag changed.
func DefaultConfig() Config {
	var c Config
	c.Flags(pflag.NewFlagSet("defaults", pflag.ContinueOnError))
	return c
}

// Load completes the settings that fs declared with [Config.Flags]: what no flag
// gave is taken from the environment, then from the file, if one is named.
func (c *Config) Load(fs *pflag.FlagSet, environ []string, file string) error {
	f, err := OpenConfig(file)
	if err != nil {
		return err
	}
	if f == nil {
		return Fill(fs, environ, nil)
	}
	defer f.Close()
	return Fill(fs, environ, f)
}

// NewLogger returns a logger of the format of --log-format.
func NewLogger(w io.Writer, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

// OperatorToken reads the token of the admin routes, which [LoadKeys] has drawn.
func OperatorToken(dir string) (string, error) {
	b, err := fs.ReadFile(os.DirFS(dir), operatorFile)
	return strings.TrimSpace(string(b)), err
}

// The lines by which programs, such as package load, find their way in what serve
// prints.
const (
	ScreenAPI   = "pages and API"
	ScreenChain = "chain RPC"
	ScreenEnd   = "stop"
)

// PrintScreen writes what serve says once it is ready: where everything is and
// how to try it.
func PrintScreen(w io.Writer, c *Config, version, url, chainURL string) error {
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return err
	}
	var b strings.Builder
	row := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "  %-15s %s\n", key, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "karatum %s, anchoring on %s\n\n", version, c.Network)
	row(ScreenAPI, "%s/", url)
	if chainURL != "" {
		row(ScreenChain, "%s  (chain id 31337, for cast, viem and wallets)", chainURL)
	}
	row("data", "%s  (keys and %s are files in it)", data, operatorFile)
	row("try", "curl -s %s/v1/status", url)
	row("record", "the Go package flight/recorder, or %s/sdk/", url)
	row("back up", "karatum backup FILE --data %s", c.Data)
	row(ScreenEnd, "Ctrl-C")
	_, err = io.WriteString(w, b.String())
	return err
}
