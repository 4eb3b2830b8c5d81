package app

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestFill sets one setting in three places, of which the command line wins over the
// environment and that over the file, and reports every mistake by its place.
func TestFill(t *testing.T) {
	const file = "# a node\nlisten = file:1\n data=file # here\nip-rate = 7\nrpc-url = http://a\nrpc-url = http://b\n\n"
	env := []string{"KARATUM_LISTEN=env:1", "KARATUM_IP_RATE=8", "KARATUM_REPLAY_TIMEOUT=90s", "KARATUM_OTHER=x", "DATA=x", "LISTEN=x"}
	fill := func(env []string, file string, args ...string) (Config, error) {
		t.Helper()
		var c Config
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		c.Flags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return c, Fill(fs, env, strings.NewReader(file))
	}
	c, err := fill(env, file, "--listen", "flag:1")
	if err != nil || c.Listen != "flag:1" || c.Data != "file" || c.IPRate != 8 || c.ReplayTimeout != 90*time.Second ||
		strings.Join(c.RPCURL, " ") != "http://a http://b" || c.IPBurst != 60 {
		t.Errorf("filled %+v, %v", c, err)
	}
	_, err = fill([]string{"KARATUM_IP_RATE=fast", "KARATUM_IP_BURST=1"}, "ip-burst = x\nbatch-quota = many\nspeed = 3\nlisten\n")
	want := `config file line 3: "speed" is no setting
config file line 4: "listen" is no setting
config file line 2: batch-quota is "many": must be an integer
KARATUM_IP_RATE is "fast": must be an integer`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestUnknownEnv tells a misspelt setting from a setting and from what is foreign.
func TestUnknownEnv(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.Flags(fs)
	env := []string{"KARATUM_LISTEN=a:1", "KARATUM_LISTNE=a:1", "KARATUM_TEST_KILL=sent", "LISTNE=a:1", "KARATUM_=x", "KARATUM_ip_rate=1"}
	if got := strings.Join(UnknownEnv(fs, env), " "); got != "KARATUM_LISTNE KARATUM_" {
		t.Errorf("unknown: %s", got)
	}
}

// TestValidate breaks every setting at once.
func TestValidate(t *testing.T) {
	good := testConfig(t.TempDir())
	if err := good.Validate(); err != nil {
		t.Fatalf("the tests' own settings: %v", err)
	}
	bad := good
	bad.Listen, bad.ChainListen, bad.Data, bad.Network = "8080", "localhost:http:1", "", "mainnet"
	bad.AnchorCron, bad.RecheckCron, bad.Confirmations, bad.ReplayTimeout = "often", "", -2, 0
	bad.IPRate, bad.IPBurst, bad.BatchQuota, bad.LogFormat = -1, -1, -1, "xml"
	bad.RPCURL, bad.ChainRPC, bad.TrustedProxy, bad.BasePath = []string{"ftp://x"}, []string{"one=http://x"}, []string{"10.0.0.1"}, "karatum/"
	err := bad.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, flag := range []string{"listen", "chain-listen", "data", "network", "rpc-url", "chain-rpc", "anchor-cron", "recheck-cron", "confirmations",
		"replay-timeout", "ip-rate", "ip-burst", "batch-quota", "trusted-proxy", "base-path", "log-format"} {
		if !strings.Contains("\n"+err.Error(), "\n--"+flag+" ") {
			t.Errorf("nothing said of --%s in\n%v", flag, err)
		}
	}
}
