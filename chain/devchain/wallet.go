package devchain

import (
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/event"
)

// A wallet lets eth_sendTransaction, eth_sign and eth_accounts use the ten
// accounts, as on other development chains. It is an accounts.Backend with
// itself as the only wallet.
type wallet struct{ accounts []Account }

func newWallet(a []Account) *wallet { return &wallet{a} }

func (w *wallet) Wallets() []accounts.Wallet { return []accounts.Wallet{w} }

// Subscribe never reports anything: the wallet neither arrives nor leaves.
func (w *wallet) Subscribe(chan<- accounts.WalletEvent) event.Subscription {
	return event.NewSubscription(func(quit <-chan struct{}) error {
		<-quit
		return nil
	})
}

func (w *wallet) URL() accounts.URL       { return accounts.URL{Scheme: "devchain", Path: "mnemonic"} }
func (w *wallet) Status() (string, error) { return "unlocked", nil }
func (w *wallet) Open(string) error       { return nil }
func (w *wallet) Close() error            { return nil }

func (w *wallet) Accounts() []accounts.Account {
	out := make([]accounts.Account, len(w.accounts))
	for i, a := range w.accounts {
		out[i] = accounts.Account{Address: a.Address, URL: w.URL()}
	}
	return out
}

func (w *wallet) Contains(a accounts.Account) bool {
	_, err := w.find(a.Address)
	return err == nil
}

func (w *wallet) find(a common.Address) (Account, error) {
	for _, own := range w.accounts {
		if own.Address == a {
			return own, nil
		}
	}
	return Account{}, accounts.ErrUnknownAccount
}

func (w *wallet) Derive(accounts.DerivationPath, bool) (accounts.Account, error) {
	return accounts.Account{}, accounts.ErrNotSupported
}

func (w *wallet) SelfDerive([]accounts.DerivationPath, ethereum.ChainStateReader) {}

func (w *wallet) SignData(a accounts.Account, _ string, data []byte) ([]byte, error) {
	return w.sign(a, crypto.Keccak256(data))
}

func (w *wallet) SignDataWithPassphrase(a accounts.Account, _, mime string, data []byte) ([]byte, error) {
	return w.SignData(a, mime, data)
}

func (w *wallet) SignText(a accounts.Account, text []byte) ([]byte, error) {
	return w.sign(a, accounts.TextHash(text))
}

func (w *wallet) SignTextWithPassphrase(a accounts.Account, _ string, text []byte) ([]byte, error) {
	return w.SignText(a, text)
}

func (w *wallet) sign(a accounts.Account, hash []byte) ([]byte, error) {
	own, err := w.find(a.Address)
	if err != nil {
		return nil, err
	}
	return crypto.Sign(hash, own.Key)
}

func (w *wallet) SignTx(a accounts.Account, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error) {
	own, err := w.find(a.Address)
	if err != nil {
		return nil, err
	}
	return types.SignTx(tx, types.LatestSignerForChainID(chainID), own.Key)
}

func (w *wallet) SignTxWithPassphrase(a accounts.Account, _ string, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error) {
	return w.SignTx(a, tx, chainID)
}
