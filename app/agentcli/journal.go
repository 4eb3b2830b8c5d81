package agentcli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"karatum/app/cli"
	"karatum/flight"
	"karatum/flight/recorder"
)

// journalCommand checks a journal, or sends its batches to a node again.
func journalCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	node := fs.String("node", "", "URL of the node, for send")
	return func(ctx context.Context, c *cli.Call) error {
		if len(c.Args) == 2 {
			switch c.Args[0] {
			case "check":
				return checkJournal(c, c.Args[1])
			case "send":
				return sendJournal(ctx, c, c.Args[1], *node)
			}
		}
		return cli.Refusef("say karatum journal check JOURNAL, or karatum journal send JOURNAL --node URL")
	}
}

func checkJournal(c *cli.Call, dir string) error {
	r, err := recorder.Check(dir)
	if err != nil {
		return cli.Refuse(err)
	}
	files := "1 file"
	if r.Segments != 1 {
		files = fmt.Sprint(r.Segments, " files")
	}
	fmt.Fprintf(c.Stdout, "%s, %d steps, %d batches, %d receipts, %d refused\nstreams: %s\n%d steps wait for a batch\n",
		files, r.Steps, r.Batches, r.Receipts, r.Refused, strings.Join(r.Streams, ", "), r.Waiting)
	if len(r.Nodes) > 0 {
		fmt.Fprintf(c.Stdout, "receipts are signed by %s\n", joined(r.Nodes))
	}
	if r.Torn > 0 {
		fmt.Fprintf(c.Stdout, "%d bytes follow the last whole line: a crash left them, or a line is being written\n", r.Torn)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(c.Stdout, "damage:", p)
	}
	if len(r.Problems) > 0 {
		return cli.ErrReported
	}
	fmt.Fprintln(c.Stdout, "the journal is whole")
	return nil
}

func joined(addresses []flight.Address) string {
	var names []string
	for _, a := range addresses {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

func sendJournal(ctx context.Context, c *cli.Call, dir, node string) error {
	if node == "" {
		return cli.Refusef("--node is empty; name the node that is to have the batches")
	}
	rep, err := recorder.Resend(ctx, dir, node, nil, func(d time.Duration, err error) {
		fmt.Fprintf(c.Stderr, "karatum: %v; waiting %v\n", err, d.Round(time.Second))
	})
	if rep == nil {
		return cli.Refuse(err)
	}
	fmt.Fprintf(c.Stdout, "%d signed batches read, the node has %d of them\n", rep.Batches, rep.Receipted)
	for _, id := range rep.Refused {
		fmt.Fprintf(c.Stdout, "batch %s was refused: the node holds another history in its place\n", id)
	}
	if err == nil && len(rep.Refused) > 0 {
		err = errors.New("not every batch was taken")
	}
	return err
}
