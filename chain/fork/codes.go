package fork

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
)

// Codes keeps the newest code by address, so that it need not be sent again. It
// is a hint only: what it has is used if it hashes to the account's code hash.
type Codes struct {
	c *lru.Cache[common.Address, []byte]
}

// NewCodes keeps the code of at most 1,024 contracts, about 24 MiB at the most.
func NewCodes() *Codes { return &Codes{lru.NewCache[common.Address, []byte](1024)} }

func (c *Codes) get(addr common.Address) []byte {
	if c == nil {
		return nil
	}
	code, _ := c.c.Get(addr)
	return code
}

// Hint is what somebody says of an account's code. Code that was proved is not
// replaced by it.
func (c *Codes) Hint(addr common.Address, code []byte) {
	if c.get(addr) == nil {
		c.add(addr, code)
	}
}

func (c *Codes) add(addr common.Address, code []byte) {
	if c != nil && len(code) > 0 {
		c.c.Add(addr, code)
	}
}
