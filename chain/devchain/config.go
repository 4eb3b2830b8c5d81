package devchain

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
)

// ChainID is the dev chain's id, the customary one of local development chains.
const ChainID = 31337

const (
	gasLimit    = 30_000_000
	genesisTime = 1_700_000_000 // Unix seconds; a constant, so that genesis is one
	bodyLimit   = 1 << 20       // bytes of one RPC request
	batchLimit  = 100           // calls in one RPC request
	batchBytes  = 10 << 20      // bytes of one batch answer
)

// chainConfig has every fork up to Prague active from genesis. It is written
// out because go-ethereum's own dev configurations switch on forks with gas
// prices that no live network has.
func chainConfig() *params.ChainConfig {
	zero, now := new(big.Int), uint64(0)
	return &params.ChainConfig{
		ChainID:        big.NewInt(ChainID),
		HomesteadBlock: zero, EIP150Block: zero, EIP155Block: zero, EIP158Block: zero,
		ByzantiumBlock: zero, ConstantinopleBlock: zero, PetersburgBlock: zero, IstanbulBlock: zero,
		MuirGlacierBlock: zero, BerlinBlock: zero, LondonBlock: zero, ArrowGlacierBlock: zero, GrayGlacierBlock: zero,
		TerminalTotalDifficulty: zero,
		ShanghaiTime:            &now, CancunTime: &now, PragueTime: &now,
		BlobScheduleConfig: &params.BlobScheduleConfig{Cancun: params.DefaultCancunBlobConfig, Prague: params.DefaultPragueBlobConfig},
	}
}

// genesis is the first block: the system contracts that Prague needs, ours, and
// ten funded accounts.
func genesis(accounts []Account) (*core.Genesis, error) {
	alloc := core.SystemContractAllocs()
	if err := predeploy(alloc); err != nil {
		return nil, err
	}
	for _, a := range accounts {
		alloc[a.Address] = types.Account{Balance: new(big.Int).Mul(big.NewInt(10_000), big.NewInt(params.Ether))}
	}
	return &core.Genesis{
		Config:     chainConfig(),
		GasLimit:   gasLimit,
		Timestamp:  genesisTime,
		BaseFee:    big.NewInt(params.InitialBaseFee),
		Difficulty: new(big.Int),
		Alloc:      alloc,
	}, nil
}

// nodeConfig opens no peer-to-peer port, no IPC socket and no key store, and
// serves only namespaces that cannot touch files or the process.
func nodeConfig(o Options, host string, port int) (*node.Config, error) {
	// The peer-to-peer identity is never used; a constant one keeps the node
	// from writing a key file.
	identity, err := crypto.ToECDSA(crypto.Keccak256([]byte("karatum/devchain/p2p")))
	if err != nil {
		return nil, err
	}
	c := node.DefaultConfig
	c.Name = "devchain"
	c.DataDir = o.Dir
	c.DBEngine = "leveldb" // see sync.go
	c.IPCPath = ""
	c.P2P = p2p.Config{NoDiscovery: true, NoDial: true, PrivateKey: identity}
	c.HTTPBodyLimit, c.BatchRequestLimit, c.BatchResponseMaxSize = bodyLimit, batchLimit, batchBytes
	if host != "" {
		modules := []string{"eth", "net", "web3", "txpool"}
		if isLoopback(host) {
			modules = append(modules, "evm")
		}
		c.HTTPHost, c.HTTPPort, c.HTTPModules = host, port, modules
		c.WSHost, c.WSPort, c.WSModules = host, port, modules
		c.HTTPVirtualHosts = []string{"localhost"} // and IP addresses; a foreign name is DNS rebinding
		// Pages served on this machine may ask, so that the explorer's verifier can
		// compare an anchor; those of foreign sites may not.
		c.HTTPCors, c.WSOrigins = []string{"http://localhost:*", "http://127.0.0.1:*"}, nil
	}
	return &c, nil
}

// ethConfig keeps all history under the hash scheme. The path scheme holds its
// newest state in memory until a clean stop: a killed process could not go on.
func ethConfig(g *core.Genesis) *ethconfig.Config {
	c := ethconfig.Defaults
	c.Genesis, c.NetworkId = g, ChainID
	c.SyncMode = ethconfig.FullSync
	c.StateScheme, c.NoPruning, c.LogNoHistory = rawdb.HashScheme, true, true
	c.TransactionHistory, c.LogHistory, c.StateHistory = 0, 0, 0
	c.DatabaseCache, c.DatabaseHandles = 16, 256
	c.TrieCleanCache, c.TrieDirtyCache, c.SnapshotCache = 8, 8, 0
	c.Miner.GasCeil, c.Miner.GasPrice = gasLimit, common.Big1
	c.TxPool.Journal, c.TxPool.NoLocals, c.TxPool.PriceLimit = "", true, 1
	c.TxPool.AccountSlots, c.TxPool.GlobalSlots = 4096, 65536
	c.BlobPool.Datadir = ""
	c.RPCTxFeeCap = 0
	return &c
}
