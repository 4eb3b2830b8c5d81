package web

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"karatum/app"
	"karatum/flight"
)

// Bounds of what a request may name.
const (
	defaultLimit = 50
	maxLimit     = 200
	maxCursor    = 512
	maxSeq       = 1<<53 - 1
)

// param returns a path parameter, percent-decoded once. An encoded slash is part
// of the value, for routing has happened before.
func param(c *fiber.Ctx, name string) (string, error) {
	v, err := url.PathUnescape(c.Params(name))
	if err != nil || !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
		return "", badField(name, name+" must be percent-encoded UTF-8 without NUL")
	}
	return v, nil
}

func paramHash(c *fiber.Ctx, name string) (flight.Hash, error) {
	v, err := param(c, name)
	if err != nil {
		return flight.Hash{}, err
	}
	h, err := flight.ParseHash(v)
	if err != nil {
		return h, badField(name, name+" must be 32 bytes as lower-case 0x hex")
	}
	return h, nil
}

func paramAgent(c *fiber.Ctx) (flight.Address, error) {
	v, err := param(c, "address")
	if err != nil {
		return flight.Address{}, err
	}
	a, err := flight.ParseAddress(v)
	if err != nil {
		return a, badField("address", "address must be 20 bytes as lower-case 0x hex")
	}
	return a, nil
}

// paramStream returns agent and stream name; the name is judged by the rules of
// the step record (spec section 2).
func paramStream(c *fiber.Ctx) (flight.Address, string, error) {
	a, err := paramAgent(c)
	if err != nil {
		return a, "", err
	}
	name, err := param(c, "stream")
	if err != nil {
		return a, "", err
	}
	return a, name, checkStream(name)
}

func checkStream(name string) error {
	if flight.CheckStream(name) != nil {
		return badField("stream", "no stream can have this name")
	}
	return nil
}

func paramNumber(c *fiber.Ctx, name string) (uint64, error) {
	v, err := param(c, name)
	if err != nil {
		return 0, err
	}
	n, ok := decimal(v, maxSeq)
	if !ok {
		return 0, badField(name, name+" must be an integer from 0 to 2^53-1")
	}
	return n, nil
}

// decimal reads digits without sign or leading zeros.
func decimal(s string, most uint64) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n <= most && strconv.FormatUint(n, 10) == s
}

// queryValue returns a query parameter given at most once, as valid UTF-8.
func queryValue(c *fiber.Ctx, name string) (string, error) {
	all := c.Context().QueryArgs().PeekMulti(name)
	if len(all) == 0 {
		return "", nil
	}
	v := string(all[0])
	if len(all) > 1 || !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
		return "", badField(name, name+" must be given once, as UTF-8 without NUL")
	}
	return v, nil
}

func queryFlag(c *fiber.Ctx, name string) (bool, error) {
	v, err := queryValue(c, name)
	if err != nil || v == "" || v == "0" {
		return false, err
	}
	if v != "1" {
		return false, badField(name, name+" must be 0 or 1")
	}
	return true, nil
}

// queryNumber returns a whole number, 0 where it is not given.
func queryNumber(c *fiber.Ctx, name string) (uint64, error) {
	v, err := queryValue(c, name)
	if err != nil || v == "" {
		return 0, err
	}
	n, ok := decimal(v, maxSeq)
	if !ok {
		return 0, badField(name, name+" must be an integer from 0 to 2^53-1")
	}
	return n, nil
}

// queryVerdict returns the verdict that a list is narrowed to, empty for all.
func queryVerdict(c *fiber.Ctx) (flight.State, error) {
	v, err := queryValue(c, "verdict")
	switch s := flight.State(v); {
	case err != nil:
		return "", err
	case v == "", s == flight.Confirmed, s == flight.Contradicted, s == flight.Unverifiable:
		return s, nil
	}
	return "", badField("verdict", "verdict must be confirmed, contradicted or unverifiable")
}

// queryPage returns which part of a list is asked for. The cursor is opaque here;
// the store judges it.
func queryPage(c *fiber.Ctx) (app.Page, error) {
	limit, err := queryValue(c, "limit")
	if err != nil {
		return app.Page{}, err
	}
	cursor, err := queryValue(c, "cursor")
	if err != nil {
		return app.Page{}, err
	}
	p := app.Page{Cursor: cursor, Limit: defaultLimit}
	if limit != "" {
		n, ok := decimal(limit, maxLimit)
		if !ok || n == 0 {
			return p, badField("limit", "limit must be an integer from 1 to 200")
		}
		p.Limit = int(n)
	}
	if len(cursor) > maxCursor {
		return p, badField("cursor", "this is no cursor of this node")
	}
	return p, nil
}

// queryOf writes a query of one parameter.
func queryOf(name, value string) string { return "?" + url.Values{name: {value}}.Encode() }
