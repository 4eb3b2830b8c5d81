// Package cli is the frame of the command line: subcommands with flags, help that
// ends with examples, mistakes reported all at once, and three exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A Command is one subcommand.
type Command struct {
	Name     string
	Args     string // of the usage line, such as "FILE..."
	MaxArgs  int    // more are refused
	About    string
	Examples []string
	// Setup declares the flags and returns what to run once they are read.
	Setup func(fs *pflag.FlagSet) func(ctx context.Context, c *Call) error
}

// A Call is one run of a command.
type Call struct {
	Args           []string // that are no flags
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Outcomes that are no plain failure.
var (
	// ErrUsage marks what the operator must change before anything can run: a
	// wrong flag, a port in use, a directory that another node holds.
	ErrUsage = errors.New("wrong usage")
	// ErrReported marks a failed check whose report is printed already.
	ErrReported = errors.New("a check failed")
)

// refusal marks an error with ErrUsage and leaves its text as it is.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrUsage }
func (r refusal) Unwrap() error      { return r.error }

// Refuse marks an error with [ErrUsage]; nil stays nil.
func Refuse(err error) error {
	if err == nil {
		return nil
	}
	return refusal{err}
}

// Refusef is Refuse of a formatted error.
func Refusef(format string, args ...any) error { return Refuse(fmt.Errorf(format, args...)) }

// ExitCode is 0 for no error, 2 for one marked with [ErrUsage], else 1.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrUsage):
		return 2
	}
	return 1
}

// exitCodes ends every help text.
const exitCodes = "Exit codes: 0 ok, 1 a check failed, 2 wrong usage or a start that was refused."

// A Program is a set of commands.
type Program struct {
	Name     string
	About    string
	Commands []Command
}

// Run runs the command that args name. Help goes to stdout and is no error.
func (p *Program) Run(ctx context.Context, args []string, c Call) error {
	if len(args) == 0 {
		return errors.Join(p.usage(c.Stderr), Refusef("name a command"))
	}
	switch {
	case slices.Contains([]string{"help", "-h", "--help"}, args[0]) && len(args) == 1:
		return p.usage(c.Stdout)
	case args[0] == "help":
		args = []string{args[1], "--help"}
	case args[0] == "--version":
		args = []string{"version"}
	}
	i := slices.IndexFunc(p.Commands, func(cmd Command) bool { return cmd.Name == args[0] })
	if i < 0 {
		return Refusef("there is no command %q; %s help lists them", args[0], p.Name)
	}
	cmd := &p.Commands[i]
	fs := pflag.NewFlagSet(cmd.Name, pflag.ContinueOnError)
	fs.SortFlags, fs.Usage = false, func() {}
	body := cmd.Setup(fs)
	if err := parse(fs, args[1:]); errors.Is(err, pflag.ErrHelp) {
		return p.help(c.Stdout, cmd, fs)
	} else if err != nil {
		return Refusef("%w; see %s %s --help", err, p.Name, cmd.Name)
	}
	if fs.NArg() > cmd.MaxArgs {
		return Refusef("%s does not take %q; see %s %s --help", cmd.Name, fs.Arg(cmd.MaxArgs), p.Name, cmd.Name)
	}
	c.Args = fs.Args()
	return body(ctx, &c)
}

// parse reads the flags. It goes on after a wrong value, so that all of them are
// reported at once; only an unknown flag ends it.
func parse(fs *pflag.FlagSet, args []string) error {
	var wrong []error
	err := fs.ParseAll(args, func(f *pflag.Flag, value string) error {
		if err := fs.Set(f.Name, value); err != nil {
			wrong = append(wrong, err)
		}
		return nil
	})
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return errors.Join(append(wrong, err)...)
}

func (p *Program) usage(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nCommands:\n", p.Name, p.About)
	width := 0
	for _, c := range p.Commands {
		width = max(width, len(c.Name)+1+len(c.Args))
	}
	for _, c := range p.Commands {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, strings.TrimSpace(c.Name+" "+c.Args), c.About)
	}
	fmt.Fprintf(&b, "\n%s COMMAND --help has the flags and examples.\n%s\n", p.Name, exitCodes)
	_, err := io.WriteString(w, b.String())
	return err
}

// flagTypes say how flags are given, in place of pflag's types and as long, so that
// the columns stay.
var flagTypes = strings.NewReplacer(" stringArray ", " string...   ", "[=true|false]", "             ")

func (p *Program) help(w io.Writer, c *Command, fs *pflag.FlagSet) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n\nUsage: %s %s [flags]\n", p.Name, c.Name, c.About, p.Name, strings.TrimSpace(c.Name+" "+c.Args))
	if fs.HasFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flagTypes.Replace(fs.FlagUsagesWrapped(100)))
	}
	fmt.Fprintf(&b, "\nExamples:\n  %s\n\n%s\n", strings.Join(c.Examples, "\n  "), exitCodes)
	_, err := io.WriteString(w, b.String())
	return err
}
