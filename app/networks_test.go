package app

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"karatum/chain"
	"karatum/chain/anchor"
	"karatum/chain/chaintest"
	"karatum/chain/eas"
	"karatum/flight"
	"karatum/store"
)

// publicNetworks are the networks besides the dev chain, each with what puts its
// EAS onto anvil: the original contracts, and what Sepolia has had since before.
func publicNetworks(t *testing.T, run func(*testing.T, eas.Network, func(testing.TB, *chain.Client, common.Address, common.Address))) {
	for name, place := range map[string]func(testing.TB, *chain.Client, common.Address, common.Address){
		"base-sepolia": chaintest.PlaceOriginal, "sepolia": chaintest.PlaceSepolia,
	} {
		t.Run(name, func(t *testing.T) {
			net, err := eas.NetworkByName(name)
			if err != nil {
				t.Fatal(err)
			}
			run(t, net, place)
		})
	}
}

// anvilOf is an anvil with a network's chain id.
func anvilOf(t *testing.T, net eas.Network) (string, *chain.Client) {
	t.Helper()
	url := chaintest.Anvil(t, "--hardfork", "prague", "--chain-id", strconv.FormatUint(net.ChainID, 10))
	return url, chaintest.Dial(t, url)
}

// newPublicRig starts a node without servers on a network behind an RPC, by the
// same way as serve.
func newPublicRig(t *testing.T, net eas.Network, url string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	var err error
	if r.keys, err = LoadKeys(r.dir, true); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	chains, err := OpenChains(t.Context(), publicConfig(r.dir, net, url), r.keys, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { chains.Close() })
	r.client = chains.Anchor.Client
	r.open(func(c *Config, d *Deps) {
		*c = publicConfig(r.dir, net, url)
		d.Anchor, d.Chains, d.Clients = chains.Anchor, chains.ByID, chains.Clients
	})
	return r
}

func publicConfig(dir string, net eas.Network, url string) Config {
	c := testConfig(dir)
	c.Network, c.RPCURL = net.Name, []string{url}
	return c
}

func TestPublicNetworks(t *testing.T) {
	publicNetworks(t, func(t *testing.T, net eas.Network, place func(testing.TB, *chain.Client, common.Address, common.Address)) {
		url, c := anvilOf(t, net)
		place(t, c, net.Registry, net.EAS)
		r := newPublicRig(t, net, url)
		a := newAuthor(t, "main")
		deliver := func() flight.Hash {
			a.fill(t, 2)
			return r.mustIngest(a.batch(t, flight.EIP712)).BatchID
		}
		id := deliver()
		_, err := r.app.AnchorNow(t.Context())
		if err == nil || !strings.Contains(err.Error(), r.keys.Anchor.Address().String()) || !strings.Contains(err.Error(), net.Name) {
			t.Fatalf("without a balance: %v; want the key to fund and the network", err)
		}
		chaintest.Raw(t, c, "anvil_setBalance", r.keys.Anchor.Address(), "0xde0b6b3a7640000")
		if run, err := r.app.AnchorNow(t.Context()); err != nil || run.Batches != 1 {
			t.Fatalf("run = %+v, %v", run, err)
		}
		if ok, err := anchor.SchemaRegistered(t.Context(), c, net); !ok || err != nil {
			t.Errorf("the schema is registered: %v, %v", ok, err)
		}
		r.settlesBy(c, id)
		r.wantAttested(c, net, 1)

		id = deliver()
		if _, err := r.app.AnchorNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := r.anchorState(id, store.EpochIncluded)
		r.wantAttested(c, net, 2)
		chaintest.Raw(t, c, "anvil_reorg", 1, []any{})
		r.wantAttested(c, net, 1)
		for range 3 { // settling again changes nothing
			if _, err := r.app.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		again := r.anchorState(id, store.EpochIncluded)
		if *again.TxHash != *first.TxHash || *again.BlockHash == *first.BlockHash {
			t.Errorf("anchored again as %s in %s, first as %s in %s; want the same transaction in another block",
				again.TxHash, again.BlockHash, first.TxHash, first.BlockHash)
		}
		r.settlesBy(c, id)
		r.wantAttested(c, net, 2)
	})
}

// settlesBy has blocks mined on top of an anchor until it is safe, then final.
func (r *rig) settlesBy(c *chain.Client, id flight.Hash) {
	r.t.Helper()
	r.anchorState(id, store.EpochIncluded)
	for _, more := range []struct {
		blocks int
		state  store.EpochState
	}{{40, store.EpochSafe}, {40, store.EpochFinal}} { // anvil's epoch has 32 slots
		chaintest.Raw(r.t, c, "anvil_mine", more.blocks)
		if _, err := r.app.settle(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
		r.anchorState(id, more.state)
	}
}

// anchorState is the anchor of a batch, once its block is the node's head or below.
func (r *rig) anchorState(id flight.Hash, want store.EpochState) AnchorView {
	r.t.Helper()
	p, err := r.app.BatchProof(r.t.Context(), id)
	if err != nil || p.Anchor.State != string(want) {
		r.t.Fatalf("anchor = %+v, %v; want %s", p.Anchor, err, want)
	}
	chaintest.Receipt(r.t, r.client, common.Hash(*p.Anchor.TxHash))
	return p.Anchor
}

// wantAttested counts the attestations on the chain, whoever sent them.
func (r *rig) wantAttested(c *chain.Client, net eas.Network, want int) {
	r.t.Helper()
	var logs []json.RawMessage
	raw := chaintest.Raw(r.t, c, "eth_getLogs", map[string]any{
		"fromBlock": "0x0", "toBlock": "latest", "address": net.EAS, "topics": []any{eas.AttestedTopic()},
	})
	if err := json.Unmarshal(raw, &logs); err != nil || len(logs) != want {
		r.t.Fatalf("%d attestations, %v; want %d", len(logs), err, want)
	}
}

// TestPublicNetworkRefused names what a node does not start on.
func TestPublicNetworkRefused(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	publicNetworks(t, func(t *testing.T, net eas.Network, place func(testing.TB, *chain.Client, common.Address, common.Address)) {
		url, c := anvilOf(t, net)
		dir := t.TempDir()
		keys, err := LoadKeys(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		_, err = OpenChains(t.Context(), publicConfig(dir, net, url), keys, log)
		if !errors.Is(err, anchor.ErrNotEAS) {
			t.Errorf("a chain without EAS: %v, want ErrNotEAS", err)
		}
		place(t, c, net.Registry, net.EAS)
		other := net
		other.Name = map[string]string{"sepolia": "base-sepolia", "base-sepolia": "sepolia"}[net.Name]
		_, err = OpenChains(t.Context(), publicConfig(dir, other, url), keys, log)
		if !errors.Is(err, chain.ErrWrongChain) || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), strconv.FormatUint(net.ChainID, 10)) {
			t.Errorf("another chain: %v, want one line that names chain %d", err, net.ChainID)
		}
		known := t.TempDir()
		secret := hex.EncodeToString(crypto.FromECDSA(chaintest.Account(t, 3).Key))
		if err := WriteSecret(filepath.Join(known, anchorKeyFile), []byte(secret+"\n")); err != nil {
			t.Fatal(err)
		}
		if keys, err = LoadKeys(known, true); err != nil {
			t.Fatal(err)
		}
		_, err = OpenChains(t.Context(), publicConfig(known, net, url), keys, log)
		if err == nil || !strings.Contains(err.Error(), "well-known development key") {
			t.Errorf("a well-known key: %v", err)
		}
	})
}
