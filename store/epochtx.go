package store

import (
	"context"

	"karatum/flight"
)

// An EpochTx is a transaction signed for an epoch. Its raw bytes are stored
// before the network sees them, so that a crash sends the same bytes again.
type EpochTx struct {
	EpochID   uint64
	ChainID   uint64
	Sender    flight.Address
	Nonce     uint64
	Hash      flight.Hash
	Raw       []byte
	GasLimit  uint64
	GasUsed   uint64 // 0 until known
	CreatedAt uint64 // unix ms; set by AddEpochTx
	SentAt    uint64 // unix ms of the first time that a node took it; 0 until then
	Error     string // of the last attempt to send
}

const selectEpochTx = `SELECT epoch_id, chain_id, sender, nonce, hash, raw, gas_limit, gas_used, created_at, sent_at, error FROM epoch_tx`

func scanEpochTx(s scanner) (t EpochTx, err error) {
	err = s.Scan(num(&t.EpochID), num(&t.ChainID), bytesTo(t.Sender[:]), num(&t.Nonce), bytesTo(t.Hash[:]), &t.Raw, num(&t.GasLimit),
		num(&t.GasUsed), num(&t.CreatedAt), num(&t.SentAt), &t.Error)
	return t, err
}

// EpochTxs returns the transactions of an epoch, the oldest first.
func (r *ReadTx) EpochTxs(ctx context.Context, epoch uint64) ([]EpochTx, error) {
	return list(ctx, r, scanEpochTx, selectEpochTx+` WHERE epoch_id = ? ORDER BY id`, epoch)
}

// HighestOpenNonce returns the highest nonce of a sender on a chain among the
// transactions of epochs that are not final; ok is false where there is none.
func (r *ReadTx) HighestOpenNonce(ctx context.Context, chainID uint64, sender flight.Address) (nonce uint64, ok bool, err error) {
	err = r.one(ctx, []any{present{num(&nonce), &ok}},
		`SELECT max(t.nonce) FROM epoch e INDEXED BY epoch_open CROSS JOIN epoch_tx t ON t.epoch_id = e.id
		WHERE e.state <> 'final' AND t.chain_id = ? AND t.sender = ?`, chainID, sender[:])
	return nonce, ok, err
}

// GasSince returns the gas of the transactions signed since a time in unix ms. Of
// several under one nonce only one can be mined: they count once, with what was
// used where that is known, else with the highest limit.
func (r *ReadTx) GasSince(ctx context.Context, since uint64) (gas uint64, err error) {
	err = r.one(ctx, []any{num(&gas)}, `SELECT sum(g) FROM (SELECT coalesce(max(gas_used), max(gas_limit)) AS g
		FROM epoch_tx INDEXED BY epoch_tx_by_time WHERE created_at >= ? GROUP BY chain_id, sender, nonce)`, since)
	return gas, err
}

// AddEpochTx stores a signed transaction. The error is [ErrConflict] where its
// hash is stored.
func (tx *Tx) AddEpochTx(_ context.Context, t EpochTx) error {
	_, err := tx.exec(`INSERT INTO epoch_tx (epoch_id, chain_id, sender, nonce, hash, raw, gas_limit, created_at, error)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, '')`, t.EpochID, t.ChainID, t.Sender[:], t.Nonce, t.Hash[:], t.Raw, t.GasLimit, tx.now)
	return err
}

// EpochTxSent records that a node took a transaction, or why it did not. The
// time of the first success stays. The error is [ErrConflict] for an unknown
// hash.
func (tx *Tx) EpochTxSent(_ context.Context, hash flight.Hash, failure error) error {
	if failure != nil {
		return tx.must(`UPDATE epoch_tx SET error = ? WHERE hash = ?`, failure.Error(), hash[:])
	}
	return tx.must(`UPDATE epoch_tx SET error = '', sent_at = coalesce(sent_at, ?) WHERE hash = ?`, tx.now, hash[:])
}
