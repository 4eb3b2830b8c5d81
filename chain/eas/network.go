package eas

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// Errors of networks.
var (
	// ErrUnknownNetwork reports a name that is not in the table of networks.
	ErrUnknownNetwork = errors.New("eas: unknown network")

	// ErrChainID reports a node that serves another chain than the one set.
	ErrChainID = errors.New("eas: node serves another chain")
)

// A Network is a chain on which epochs may be anchored (spec section 7). Main
// networks are left out on purpose.
type Network struct {
	Name     string
	ChainID  uint64
	EAS      common.Address
	Registry common.Address
	Public   bool // others can see it; false only for the embedded dev chain
}

// Networks are all networks, the default first.
func Networks() []Network {
	var (
		predeployedEAS      = common.HexToAddress("0x4200000000000000000000000000000000000021")
		predeployedRegistry = common.HexToAddress("0x4200000000000000000000000000000000000020")
	)
	return []Network{
		{Name: "dev", ChainID: 31337, EAS: predeployedEAS, Registry: predeployedRegistry},
		{Name: "base-sepolia", ChainID: 84532, EAS: predeployedEAS, Registry: predeployedRegistry, Public: true},
		{
			Name: "sepolia", ChainID: 11155111, Public: true,
			EAS:      common.HexToAddress("0xC2679fBD37d54388Ce493F1DB75320D236e1815e"),
			Registry: common.HexToAddress("0x0a7E2Ff54e76B8E6659aedc9103FB21c038050D0"),
		},
	}
}

// NetworkByName finds a network; the error wraps [ErrUnknownNetwork].
func NetworkByName(name string) (Network, error) {
	for _, n := range Networks() {
		if n.Name == name {
			return n, nil
		}
	}
	return Network{}, fmt.Errorf("%w %q", ErrUnknownNetwork, name)
}

// NetworkByChainID finds a network; the error wraps [ErrUnknownNetwork].
func NetworkByChainID(id uint64) (Network, error) {
	for _, n := range Networks() {
		if n.ChainID == id {
			return n, nil
		}
	}
	return Network{}, fmt.Errorf("%w: chain id %d", ErrUnknownNetwork, id)
}

// CheckChainID compares what a node answers to eth_chainId with the network;
// the error wraps [ErrChainID].
func (n Network) CheckChainID(got uint64) error {
	if got != n.ChainID {
		return fmt.Errorf("%w: chain id %d, %s is %d", ErrChainID, got, n.Name, n.ChainID)
	}
	return nil
}
