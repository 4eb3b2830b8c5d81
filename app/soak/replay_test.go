package soak

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"karatum/app/load"
	"karatum/chain/devchain"
)

// replayedSteps is how many transactions are replayed over and over, each of a block
// of its own: more than the node keeps in memory.
const replayedSteps = 20

// TestReplaysLeaveNothing has a node replay the same steps again and again, and
// expects it to need no more memory in the end than after a fifth of them.
func TestReplaysLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	node := start(t, dir, []string{"GOMEMLIMIT=512MiB"}, unlimited...)
	steps := openedPayments(t, node, replayedSteps)
	for _, step := range steps {
		if status, body, err := node.Post(t.Context(), "/v1/flight/proofs/"+step+"/replay", []byte("{}"), ""); err != nil || status != http.StatusAccepted {
			t.Fatalf("queue: %d %s %v", status, body, err)
		}
	}
	for _, step := range steps {
		replayed(t, node, step)
	}
	rounds := replayRuns / replayedSteps
	var early int
	for i := range rounds {
		for _, step := range steps {
			if status, body, err := node.Post(t.Context(), "/v1/admin/proofs/"+step+"/replay/rerun", []byte("{}"), token(t, dir)); err != nil || status != http.StatusAccepted {
				t.Fatalf("rerun: %d %s %v", status, body, err)
			}
		}
		for _, step := range steps {
			replayed(t, node, step)
		}
		if i == rounds/5 {
			early = resident(t, node.PID())
		}
	}
	late := resident(t, node.PID())
	t.Logf("%d replays: %d MB resident after a fifth, %d MB at the end", rounds*replayedSteps, early>>20, late>>20)
	if float64(late) > 1.3*float64(early) {
		t.Errorf("%d bytes resident at the end, %d after a fifth", late, early)
	}
	stop(t, node)
}

// openedPayments has an agent pay, record it and open its claims, with the command
// line, and returns the steps.
func openedPayments(t *testing.T, node *load.Child, n int) (steps []string) {
	t.Helper()
	accounts, err := devchain.WellKnownAccounts()
	if err != nil {
		t.Fatal(err)
	}
	agent, payee := accounts[5], accounts[6].Address.Hex()
	key := filepath.Join(t.TempDir(), "agent.key")
	if err := os.WriteFile(key, fmt.Appendf(nil, "0x%x\n", crypto.FromECDSA(agent.Key)), 0o600); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range n {
		var hash string
		ask(t, node.ChainURL, "eth_sendTransaction", &hash, map[string]any{"from": agent.Address, "to": payee, "value": fmt.Sprintf("0x%x", i+1)})
		fmt.Fprintf(&lines, `{"kind":"tx","name":"pay","chainId":31337,"txHash":%q,"claim":{"kind":"native.transfer","to":%q,"value":"%d"}}`+"\n", hash, strings.ToLower(payee), i+1)
	}
	journal := t.TempDir()
	record := exec.CommandContext(t.Context(), binary, "record", "--stdin", "--journal", journal, "--key", key, "--node", node.URL)
	record.Stdin = strings.NewReader(lines.String())
	answers, err := record.Output()
	if err != nil {
		t.Fatalf("record: %v\n%s", err, answers)
	}
	for line := range strings.Lines(string(answers)) {
		var step struct{ Hash string }
		if err := json.Unmarshal([]byte(line), &step); err != nil || step.Hash == "" {
			t.Fatalf("record: %s %v", line, err)
		}
		steps = append(steps, step.Hash)
	}
	for i := range n {
		out, err := exec.CommandContext(t.Context(), binary, "disclose", "--journal", journal, "--step", fmt.Sprintf("main/%d", i), "--reveal", "claim", "--post", "--node", node.URL).CombinedOutput()
		if err != nil {
			t.Fatalf("disclose: %v\n%s", err, out)
		}
	}
	return steps
}

// replayed waits until the replay of a step has ended, as its chain has it.
func replayed(t *testing.T, node *load.Child, step string) {
	t.Helper()
	for {
		var v struct {
			State  string
			Result json.RawMessage
		}
		if status, err := node.Get(t.Context(), "/v1/flight/proofs/"+step+"/replay", &v); err != nil || status != http.StatusOK {
			t.Fatalf("replay: %d %v", status, err)
		}
		var result struct{ Reproduced bool }
		switch v.State {
		case "queued", "running":
			continue
		case "done":
			if json.Unmarshal(v.Result, &result) == nil && result.Reproduced {
				return
			}
		}
		t.Fatalf("replay of %s: %s %s", step, v.State, v.Result)
	}
}
