package store

import "context"

// Meta returns a small fact by its key, or [ErrNotFound].
func (r *ReadTx) Meta(ctx context.Context, key string) (value []byte, err error) {
	err = r.one(ctx, []any{&value}, `SELECT value FROM meta WHERE key = ?`, key)
	return value, err
}

// SetMeta sets a small fact. It keeps no secrets: backups contain it.
func (tx *Tx) SetMeta(_ context.Context, key string, value []byte) error {
	_, err := tx.exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`, key, value)
	return err
}
