package agentcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"karatum/app/cli"
	"karatum/flight"
	"karatum/flight/recorder"
)

func discloseCommand(fs *pflag.FlagSet) func(context.Context, *cli.Call) error {
	journal := fs.String("journal", "", "directory of the journal, or the file of an SDK's")
	step := fs.String("step", "", "the step as STREAM/NUMBER; STREAM may leave out the random part")
	reveal := fs.StringSlice("reveal", nil, "fields to open: prompt, args, result, claim; none shows only that the step is in its batch")
	out := fs.String("out", "", "file for the bundle; standard output where empty and not posted")
	post := fs.Bool("post", false, "post the bundle to --node; what becomes public is said first")
	publish := fs.Bool("publish", false, "with --post: ask the node to publish the other opened fields too, not the claim only")
	node := fs.String("node", "", "URL of the node, for --post")
	return func(ctx context.Context, c *cli.Call) error {
		stream, seq, err := parseStep(*step)
		errs := []error{err}
		if *journal == "" {
			errs = append(errs, errors.New("--journal is empty; name a directory, or the file of an SDK"))
		}
		for _, f := range *reveal {
			if !slices.Contains(flight.Fields, f) {
				errs = append(errs, fmt.Errorf("--reveal has %q; fields are %s", f, strings.Join(flight.Fields, ", ")))
			}
		}
		if *post && *node == "" || *publish && !*post {
			errs = append(errs, errors.New("--post needs --node, and --publish needs --post"))
		}
		if err := errors.Join(errs...); err != nil {
			return cli.Refuse(err)
		}
		r, err := recorder.OpenReader(*journal)
		if err != nil {
			return cli.Refuse(err)
		}
		d, err := r.Disclose(stream, seq, *reveal...)
		if err != nil {
			return err
		}
		if err := writeBundle(c, d, *out, *post); err != nil || !*post {
			return err
		}
		return postBundle(ctx, c, d, *node, *publish)
	}
}

// parseStep splits STREAM/NUMBER. Stream names hold no slash.
func parseStep(s string) (stream string, seq uint64, err error) {
	i := strings.LastIndexByte(s, '/')
	if i > 0 {
		seq, err = strconv.ParseUint(s[i+1:], 10, 53)
	}
	if i <= 0 || err != nil {
		return "", 0, fmt.Errorf("--step is %q; it must look like main/104", s)
	}
	return s[:i], seq, nil
}

func writeBundle(c *cli.Call, d *flight.Disclosure, out string, post bool) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	switch {
	case out != "":
		if err := os.WriteFile(out, append(b, '\n'), 0o600); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Stderr, "wrote %s; check it with: karatum verify %s\n", out, out)
	case !post:
		_, err = fmt.Fprintf(c.Stdout, "%s\n", b)
	}
	return err
}

func postBundle(ctx context.Context, c *cli.Call, d *flight.Disclosure, node string, publish bool) error {
	if _, err := fmt.Fprintln(c.Stderr, recorder.Explain(d, publish)); err != nil {
		return err
	}
	answer, err := recorder.PostDisclosure(ctx, node, nil, d, publish)
	if err != nil {
		return err
	}
	var v struct {
		StepHash flight.Hash    `json:"stepHash"`
		Verdict  flight.Verdict `json:"verdict"`
	}
	if err := json.Unmarshal(answer, &v); err != nil {
		return fmt.Errorf("the node's answer is not a step: %w", err)
	}
	_, err = fmt.Fprintf(c.Stdout, "step %s is %s%s\n", v.StepHash, v.Verdict.State, reason(v.Verdict))
	return err
}

func reason(v flight.Verdict) string {
	if v.Reason == "" {
		return ""
	}
	return " (" + v.Reason + ")"
}
