package store

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxPage is the most rows of one page.
const MaxPage = 200

// A Page asks for rows of a list. Cursor is empty for the first page, else what
// the page before returned as next; it is opaque and valid for that list only.
// Limit is clamped to 1..MaxPage; 0 means 50.
type Page struct {
	Cursor string
	Limit  int
}

func (p Page) limit() int {
	if p.Limit == 0 {
		return 50
	}
	return min(max(p.Limit, 1), MaxPage)
}

// keys reads a cursor of n integers. ok is false for the first page; the error
// is [ErrCursor].
func (p Page) keys(n int) (keys []int64, ok bool, err error) {
	if p.Cursor == "" {
		return nil, false, nil
	}
	parts := strings.Split(p.Cursor, ".")
	if len(parts) != n {
		return nil, false, ErrCursor
	}
	for _, s := range parts {
		k, err := strconv.ParseInt(s, 10, 64)
		if err != nil || k < 0 {
			return nil, false, fmt.Errorf("%w: %d keys", ErrCursor, n)
		}
		keys = append(keys, k)
	}
	return keys, true, nil
}

// below returns the cursor's key for a list in descending order, above for one in
// ascending order: where the first page starts if there is no cursor.
func (p Page) below() (int64, error) { return p.key(1<<62 - 1) }
func (p Page) above() (int64, error) { return p.key(-1) }

func (p Page) key(first int64) (int64, error) {
	k, ok, err := p.keys(1)
	if err != nil || !ok {
		return first, err
	}
	return k[0], nil
}

// page cuts the row that was read beyond the limit and makes the next cursor out
// of the last row kept.
func page[T any](rows []T, limit int, key func(T) string) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	return rows[:limit], key(rows[limit-1])
}

func cursor(keys ...uint64) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = strconv.FormatUint(k, 10)
	}
	return strings.Join(parts, ".")
}
