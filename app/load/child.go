package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Child is a node in a process of its own, the same binary running serve, for
// benchmarks and for tests that kill it.
type Child struct {
	URL      string        // of the API
	ChainURL string        // of the dev chain's JSON-RPC, empty on other networks
	Ready    time.Duration // from the start of the process to its first line
	cmd      *exec.Cmd
	log      string
	exited   chan struct{} // closed after err is set
	err      error         // how the process ended
}

// Options say what to run.
type Options struct {
	Binary string   // karatum
	Data   string   // data directory
	Args   []string // further flags of serve
	Env    []string // added to this process's environment
	Log    string   // file that takes the log; defaults to node.log beside the data directory
}

// childPatience bounds a start. It takes a second; on a machine where everything else
// runs too, many.
const childPatience = 3 * time.Minute

// The lines of what serve prints by which a child finds its way; package app
// prints them.
const (
	screenAPI   = "pages and API"
	screenChain = "chain RPC"
	screenEnd   = "stop"
)

// Start starts a node on free ports and waits until it says that it is
// ready. The error carries the end of its log.
func Start(ctx context.Context, o Options) (*Child, error) {
	if o.Log == "" {
		o.Log = filepath.Join(filepath.Dir(o.Data), "node.log")
	}
	log, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	args := append([]string{"serve", "--data", o.Data, "--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0"}, o.Args...)
	c := &Child{cmd: exec.Command(o.Binary, args...), log: o.Log, exited: make(chan struct{})}
	c.cmd.Env, c.cmd.Stderr = append(os.Environ(), o.Env...), log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan bool, 1)
	go c.watch(out, ready)
	select {
	case ok := <-ready:
		c.Ready = time.Since(start)
		if ok {
			return c, nil
		}
	case <-time.After(childPatience):
	case <-ctx.Done():
	}
	c.Kill()
	return nil, fmt.Errorf("load: the node did not start: %w: %s", errors.Join(c.err, context.Cause(ctx)), c.LogTail())
}

// watch reads what serve prints, signals once it is all there, and waits for the
// end of the process.
func (c *Child) watch(out io.Reader, ready chan<- bool) {
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		text := strings.TrimSpace(sc.Text())
		if at, ok := strings.CutPrefix(text, screenAPI); ok && c.URL == "" {
			c.URL = strings.TrimRight(firstWord(at), "/")
		}
		if at, ok := strings.CutPrefix(text, screenChain); ok {
			c.ChainURL = firstWord(at)
		}
		if strings.HasPrefix(text, screenEnd) {
			tell(ready, true)
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
	c.err = c.cmd.Wait()
	close(c.exited)
	tell(ready, false)
}

// tell sends v unless something was told before.
func tell(ready chan<- bool, v bool) {
	select {
	case ready <- v:
	default:
	}
}

func firstWord(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

// PID is the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Kill ends the process at once, as a power cut would, and waits for its end.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	<-c.exited
}

// Stop asks the process to end and returns how long that took.
func (c *Child) Stop(patience time.Duration) (time.Duration, error) {
	start := time.Now()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return 0, err
	}
	select {
	case <-c.exited:
		return time.Since(start), c.err
	case <-time.After(patience):
		c.Kill()
		return time.Since(start), fmt.Errorf("the node did not stop within %s: %s", patience, c.LogTail())
	}
}

// Exited is closed when the process has ended.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// LogTail returns the last lines of the node's log.
func (c *Child) LogTail() string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// CPU is what the process has spent, as its metrics say.
func (c *Child) CPU(ctx context.Context) (time.Duration, error) {
	s, err := c.Metric(ctx, "process_cpu_seconds_total")
	return time.Duration(s * float64(time.Second)), err
}

// Waited is how long the process's threads were ready to run and had no core, which
// is other load on the machine; 0 where the system does not tell.
func (c *Child) Waited() (sum time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.PID()))
	if err != nil {
		return 0
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
			if ns, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				sum += time.Duration(ns)
			}
		}
	}
	return sum
}

// Metric reads one metric without labels.
func (c *Child) Metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	for sc := bufio.NewScanner(res.Body); sc.Scan(); {
		if key, value, ok := strings.Cut(sc.Text(), " "); ok && key == name {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the node has no metric %s", name)
}
