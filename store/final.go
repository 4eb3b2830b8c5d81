package store

import (
	"context"
	"slices"

	"karatum/flight"
)

// FinalBlockBelow returns the number of the highest block below another that a final
// verdict is about, or [ErrNotFound].
func (r *ReadTx) FinalBlockBelow(ctx context.Context, chainID, below uint64) (number uint64, err error) {
	err = r.one(ctx, []any{num(&number)}, `SELECT block_number FROM step INDEXED BY step_final
		WHERE chain_id = ? AND final = 1 AND block_number < ? ORDER BY block_number DESC LIMIT 1`, chainID, below)
	return number, err
}

// A ClaimedTx is a transaction with the key whose step names it.
type ClaimedTx struct {
	TxHash flight.Hash
	Agent  flight.Address
}

// FinalTxsOff returns transactions with final verdicts about another block of that
// number than the one with the hash, each once, from at most limit steps.
func (r *ReadTx) FinalTxsOff(ctx context.Context, chainID, number uint64, hash flight.Hash, limit int) (txs []ClaimedTx, err error) {
	rows, err := list(ctx, r, func(s scanner) (t ClaimedTx, err error) {
		err = s.Scan(bytesTo(t.TxHash[:]), bytesTo(t.Agent[:]))
		return t, err
	}, `SELECT t.tx_hash, a.address FROM step t INDEXED BY step_final CROSS JOIN agent a ON a.id = t.agent_id
		WHERE t.chain_id = ? AND t.final = 1 AND t.block_number = ? AND t.block_hash <> ? LIMIT ?`, chainID, number, hash[:], limit)
	for _, t := range rows {
		if !slices.ContainsFunc(txs, func(o ClaimedTx) bool { return o.TxHash == t.TxHash }) {
			txs = append(txs, t)
		}
	}
	return txs, err
}
