package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/spf13/pflag"
)

// Config is every setting of a node (spec section 6). Values come from flags,
// then from KARATUM_* in the environment, then from the file named by --config.
type Config struct {
	// Listen is the address of the API and the pages.
	Listen string
	// ChainListen is where the dev chain serves JSON-RPC; port 0 takes any.
	ChainListen string
	// Data is the one directory that holds all state.
	Data string
	// Network is where epochs are anchored: dev, base-sepolia or sepolia.
	Network string
	// RPCURL lists the anchoring network's JSON-RPC nodes, the preferred first;
	// the others stand in while it fails. It stays empty on dev.
	RPCURL []string
	// ChainRPC lists further chains for verdicts as ID=URL.
	ChainRPC []string
	// AnchorCron and RecheckCron are cron expressions or "@every 5m".
	AnchorCron, RecheckCron string
	// Confirmations is the depth at which a verdict is final; -1 takes the
	// network's default, 1 on dev and 12 elsewhere.
	Confirmations int
	// ReplayTimeout is what one run of a replay may take.
	ReplayTimeout time.Duration
	// AnchorGasPerDay bounds the gas that anchoring may spend in 24 hours.
	AnchorGasPerDay uint64
	// IPRate and IPBurst shape the token bucket of one address, per minute. A
	// rate of 0 switches the limit off.
	IPRate, IPBurst int
	// BatchQuota is the most batches of one key in 24 hours.
	BatchQuota int
	// TrustedProxy lists the CIDRs whose X-Forwarded-For is believed.
	TrustedProxy []string
	// Host lists further names under which the operator reaches the admin routes,
	// as behind a proxy.
	Host []string
	// BasePath is the prefix under which a proxy serves the node.
	BasePath string
	// LogFormat is text or json.
	LogFormat string
}

// Flags declares the settings of a node on fs.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "address of the API and the pages")
	fs.StringVar(&c.ChainListen, "chain-listen", "127.0.0.1:8545", "address of the dev chain's JSON-RPC; port 0 takes any free one")
	fs.StringVar(&c.Data, "data", "./karatum-data", "directory that holds all state")
	fs.StringVar(&c.Network, "network", "dev", "where epochs are anchored: dev, base-sepolia or sepolia")
	fs.StringArrayVar(&c.RPCURL, "rpc-url", nil, "JSON-RPC of the anchoring network (not on dev); repeatable, the others stand in while the first fails")
	fs.StringArrayVar(&c.ChainRPC, "chain-rpc", nil, "further chain for verdicts, as ID=URL; repeatable, also for one chain")
	fs.StringVar(&c.AnchorCron, "anchor-cron", "@every 5m", "when epochs are anchored")
	fs.StringVar(&c.RecheckCron, "recheck-cron", "@every 1m", "when open verdicts are looked at again")
	fs.IntVar(&c.Confirmations, "confirmations", -1, "blocks before a verdict is final; -1 means 1 on dev and 12 elsewhere")
	fs.DurationVar(&c.ReplayTimeout, "replay-timeout", 2*time.Minute, "time that one replay of a transaction may take")
	fs.Uint64Var(&c.AnchorGasPerDay, "anchor-gas-per-day", 200_000_000, "gas that anchoring may spend in 24 hours")
	fs.IntVar(&c.IPRate, "ip-rate", 120, "requests a minute from one address; 0 switches the limit off")
	fs.IntVar(&c.IPBurst, "ip-burst", 60, "requests that one address may send at once")
	fs.IntVar(&c.BatchQuota, "batch-quota", 1440, "batches of one key in 24 hours")
	fs.StringArrayVar(&c.TrustedProxy, "trusted-proxy", nil, "CIDR whose X-Forwarded-For is believed; repeatable")
	fs.StringArrayVar(&c.Host, "host", nil, "further name under which the admin routes answer, as behind a proxy; repeatable")
	fs.StringVar(&c.BasePath, "base-path", "", "prefix under which a proxy serves the node, such as /karatum")
	fs.StringVar(&c.LogFormat, "log-format", "text", "text or json")
}

// Fill sets each flag that the command line left alone from the environment,
// then from the file: lines of "name = value", # starting a comment. It reports
// every mistake at once.
func Fill(fs *pflag.FlagSet, environ []string, file io.Reader) error {
	given, err := readFile(fs, file)
	errs := []error{err}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if flag := fs.Lookup(flagName(name)); strings.HasPrefix(name, "KARATUM_") && flag != nil {
			given[flag.Name] = []setting{{name, value}}
		}
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			return
		}
		for _, s := range given[f.Name] {
			if err := fs.Set(f.Name, s.value); err != nil {
				var invalid *pflag.InvalidValueError
				if errors.As(err, &invalid) {
					err = invalid.Unwrap()
				}
				errs = append(errs, fmt.Errorf("%s is %q: %w", s.place, s.value, err))
			}
		}
	})
	return errors.Join(errs...)
}

// UnknownEnv names the variables that look like settings and are none, so that a
// misspelt one is not passed over in silence. They are no mistakes: a supervisor may
// set some of its own, as Kubernetes does for a service of this name.
func UnknownEnv(fs *pflag.FlagSet, environ []string) []string {
	var names []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "KARATUM_") && !strings.HasPrefix(name, "KARATUM_TEST_") && fs.Lookup(flagName(name)) == nil {
			names = append(names, name)
		}
	}
	return names
}

// A setting is a value and the place that it comes from, in words.
type setting struct{ place, value string }

func flagName(env string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(env, "KARATUM_")), "_", "-")
}

func readFile(fs *pflag.FlagSet, file io.Reader) (map[string][]setting, error) {
	given := map[string][]setting{}
	if file == nil {
		return given, nil
	}
	var errs []error
	sc := bufio.NewScanner(file)
	for n := 1; sc.Scan(); n++ {
		line, _, _ := strings.Cut(sc.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || fs.Lookup(name) == nil {
			errs = append(errs, fmt.Errorf("config file line %d: %q is no setting", n, name))
			continue
		}
		given[name] = append(given[name], setting{fmt.Sprintf("config file line %d: %s", n, name), strings.TrimSpace(value)})
	}
	return given, errors.Join(append(errs, sc.Err())...)
}

// Validate reports every mistake of the settings at once, each by its flag.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, l := range []struct{ flag, addr string }{{"listen", c.Listen}, {"chain-listen", c.ChainListen}} {
		if _, port, err := net.SplitHostPort(l.addr); err != nil || !portOK(port) {
			bad("--%s is %q; it must be HOST:PORT", l.flag, l.addr)
		}
	}
	if c.Data == "" {
		bad("--data is empty; name a directory")
	}
	if !slices.Contains([]string{"dev", "base-sepolia", "sepolia"}, c.Network) {
		bad("--network is %q; it must be dev, base-sepolia or sepolia", c.Network)
	}
	if c.Network != "dev" && len(c.RPCURL) == 0 {
		bad("--rpc-url is needed with --network %s", c.Network)
	}
	if c.Network == "dev" && len(c.RPCURL) > 0 {
		bad("--rpc-url has no use with --network dev, which brings its own chain")
	}
	for _, u := range c.RPCURL {
		if !urlOK(u) {
			bad("--rpc-url must be an http or https URL")
		}
	}
	if _, err := c.Chains(); err != nil {
		errs = append(errs, err)
	}
	for _, s := range []struct{ flag, spec string }{{"anchor-cron", c.AnchorCron}, {"recheck-cron", c.RecheckCron}} {
		if _, err := cron.ParseStandard(s.spec); err != nil {
			bad("--%s is %q: %w", s.flag, s.spec, err)
		}
	}
	if c.Confirmations < -1 || c.Confirmations > 10_000 {
		bad("--confirmations is %d; it must be -1 to 10000", c.Confirmations)
	}
	if c.ReplayTimeout < time.Second || c.ReplayTimeout > time.Hour {
		bad("--replay-timeout is %s; it must be 1s to 1h", c.ReplayTimeout)
	}
	for _, l := range []struct {
		flag         string
		value, least int
	}{{"ip-rate", c.IPRate, 0}, {"ip-burst", c.IPBurst, 1}, {"batch-quota", c.BatchQuota, 1}} {
		if l.value < l.least {
			bad("--%s is %d; the minimum is %d", l.flag, l.value, l.least)
		}
	}
	if _, err := c.Proxies(); err != nil {
		errs = append(errs, err)
	}
	for _, h := range c.Host {
		if u, err := url.Parse("http://" + h); err != nil || u.Host != h || h == "" {
			bad("--host is %q; it must be a name such as node.example", h)
		}
	}
	if c.BasePath != "" && (c.BasePath[0] != '/' || path.Clean(c.BasePath) != c.BasePath || c.BasePath == "/") {
		bad("--base-path is %q; it must look like /karatum", c.BasePath)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		bad("--log-format is %q; it must be text or json", c.LogFormat)
	}
	return errors.Join(errs...)
}

func portOK(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 0 && n < 1<<16
}

func urlOK(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// Chains returns the further chains of --chain-rpc by chain id, with the nodes of
// each in the order given.
func (c *Config) Chains() (map[uint64][]string, error) {
	chains := map[uint64][]string{}
	for _, s := range c.ChainRPC {
		id, raw, ok := strings.Cut(s, "=")
		n, err := strconv.ParseUint(id, 10, 53)
		if !ok || err != nil || n == 0 || !urlOK(raw) {
			return nil, fmt.Errorf("--chain-rpc must look like 8453=https://rpc.example; chain %q does not", id)
		}
		chains[n] = append(chains[n], raw)
	}
	return chains, nil
}

// Proxies returns the networks of --trusted-proxy.
func (c *Config) Proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range c.TrustedProxy {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxy is %q; it must be a CIDR such as 10.0.0.0/8", s)
		}
		out = append(out, p)
	}
	return out, nil
}

// Depth returns the confirmations in force.
func (c *Config) Depth() uint64 {
	if c.Confirmations >= 0 {
		return uint64(c.Confirmations)
	}
	if c.Network == "dev" {
		return 1
	}
	return 12
}

// anchorInterval returns the pause between two anchor runs after t.
func (c *Config) anchorInterval(t time.Time) time.Duration {
	s, err := cron.ParseStandard(c.AnchorCron)
	if err != nil { // Validate has refused it
		return 5 * time.Minute
	}
	next := s.Next(t)
	return s.Next(next).Sub(next)
}

// OpenConfig opens the file of --config, or returns nil where none is named.
func OpenConfig(name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return f, nil
}
