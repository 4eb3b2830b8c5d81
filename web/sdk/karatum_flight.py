#!/usr/bin/env python3
# Karatum Flight Record v1 in one file: verifier, recorder and checker. Standard library only.
# For Python 3.9+. The JavaScript twin, karatum-flight.mjs, has the same parts in the same order.
# version: 1.0.0
# sha256: cda211afedbf0c0db4ef53944b4d2b8e64ad4d424c56639ca1e6d1dfeb55ae11
# The hash is of this file without its sha256 line: grep -v '^# sha256:' karatum_flight.py | sha256sum
"""Verifier, recorder and checker for Karatum Flight Record v1.

Part 1, the verifier, uses no network unless given an RPC, and no secret. Part 2 records. Part 3 is the command line:

    python3 karatum_flight.py verify FILE [--rpc URL] [--attester ADDRESS]
    python3 karatum_flight.py conformance VECTORS
"""

import collections
import email.utils
import hashlib
import hmac
import http.client
import json
import math
import os
import random
import re
import secrets
import shutil
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

VERSION = "1.0.0"


class FlightError(Exception):
    """Every refusal: a stable code, a sentence and, where there is one, the field at fault."""

    def __init__(self, code, message, field=None, offset=None):
        super().__init__(f"{field}: {message}" if field else message)
        self.code, self.field, self.offset = code, field, offset


def _fail(code, message, field=None):
    raise FlightError(code, message, field)


# ---- Bytes

_HEX = re.compile(r"0x[0-9a-f]*")


def to_hex(data):
    return "0x" + bytes(data).hex()


def _is_hex(v, n):
    return isinstance(v, str) and len(v) == 2 + 2 * n and _HEX.fullmatch(v) is not None


def unhex(text, n=None):
    """Reads lower-case 0x hex of n bytes; any whole number of bytes where n is left out."""
    if not isinstance(text, str) or len(text) % 2 or not _is_hex(text, (len(text) - 2) // 2 if n is None else n):
        _fail("HEX", f"not {'whole' if n is None else n} bytes as lower-case 0x hex")
    return bytes.fromhex(text[2:])


def _word(n):
    return int(n).to_bytes(32, "big")


# ---- Canonical JSON (spec section 1)

MAX_DEPTH, MAX_BYTES = 64, 1 << 20  # of one committed value
_DOCUMENT_DEPTH, _DOCUMENT_BYTES = 80, 5 << 20  # of a disclosure

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_FOUR_HEX = re.compile(r"[0-9a-fA-F]{4}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNESCAPE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _pair(s):
    """Joins surrogate pairs, as UTF-16 has them; lone surrogates stay."""
    return s.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") if _SURROGATE.search(s) else s


class _Parser:
    def __init__(self, text, depth):
        self.text, self.depth, self.at = text, depth, 0

    def bad(self, code, message):
        raise FlightError(code, f"{message} at offset {self.at}", offset=self.at)

    def next(self):
        self.at = _SPACE.match(self.text, self.at).end()
        return self.text[self.at : self.at + 1]

    def expect(self, token):
        if not self.text.startswith(token, self.at):
            self.bad("SYNTAX", f"expected {token}")
        self.at += len(token)

    def value(self, level):
        c = self.next()
        if c in ("{", "["):
            if level >= self.depth:
                self.bad("TOO_DEEP", f"more than {self.depth} containers inside each other")
            self.at += 1
            return self.object(level + 1) if c == "{" else self.array(level + 1)
        if c == '"':
            return self.string()
        for token, constant in (("true", True), ("false", False), ("null", None)):
            if c == token[0]:
                self.expect(token)
                return constant
        return self.number()

    def array(self, level):
        out = []
        if self.next() == "]":
            self.at += 1
            return out
        while True:
            out.append(self.value(level))
            if self.next() == "]":
                self.at += 1
                return out
            self.expect(",")

    def object(self, level):
        out = {}
        if self.next() == "}":
            self.at += 1
            return out
        while True:
            if self.next() != '"':
                self.bad("SYNTAX", "expected a key in double quotes")
            key = self.string()
            if key in out:
                self.bad("DUPLICATE_KEY", f"key {ascii(key[:64])} stands twice in one object")
            self.next()
            self.expect(":")
            out[key] = self.value(level)
            if self.next() == "}":
                self.at += 1
                return out
            self.expect(",")

    def string(self):
        parts = []
        self.at += 1
        while True:
            plain = _PLAIN.match(self.text, self.at)
            parts.append(plain.group())
            self.at = plain.end()
            c = self.text[self.at : self.at + 1]
            if c == '"':
                self.at += 1
                return _pair("".join(parts))
            if c == "\\":
                parts.append(self.escape())
            elif c < " ":
                self.bad("SYNTAX", "a string that does not end, or a control character in it")
            else:
                self.bad("INVALID_UTF8", "the text is not UTF-8")

    def escape(self):
        c, code = self.text[self.at + 1 : self.at + 2], self.text[self.at + 2 : self.at + 6]
        if c == "u" and _FOUR_HEX.fullmatch(code):
            self.at += 6
            return chr(int(code, 16))
        if c not in _UNESCAPE:
            self.bad("SYNTAX", "no escape of JSON")
        self.at += 2
        return _UNESCAPE[c]

    def number(self):
        found = _NUMBER.match(self.text, self.at) or self.bad("SYNTAX", "a value is expected")
        literal, (digits, fraction, exponent) = found.group(), found.groups()
        if self.text[found.end() : found.end() + 1] in tuple("0123456789.eE"):
            self.bad("SYNTAX", "a malformed number")
        n = float(literal)
        if math.isinf(n):
            self.bad("NON_FINITE", "the number is beyond the double range")
        if not fraction and not exponent and len(digits) > 15 and digits != _plain(abs(n)):
            self.bad("UNSAFE_INTEGER", "a double cannot hold this integer exactly; pass it as a string")
        self.at = found.end()
        return int(n) if n.is_integer() and abs(n) < 2**53 else n


def parse(data, depth=MAX_DEPTH):
    """Parses exactly one JSON value from str or UTF-8 bytes, at most `depth` containers deep.

    json.loads would let duplicate keys, rounded integers and lone surrogates in raw text pass.
    """
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "surrogateescape")  # bad bytes become lone surrogates
    p = _Parser(text, depth)
    out = p.value(0)
    if p.next():
        p.bad("TRAILING_DATA", "more follows after the value")
    return out


def _shortest(n):
    """The fewest digits that read back as n > 0, and where the point stands: 0.digits * 10^point."""
    mantissa, _, exponent = repr(n).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    return digits.rstrip("0"), len(whole) + int(exponent or 0) - (len(whole + part) - len(digits))


def _plain(n):
    """The digits of an integer that ECMAScript prints with an exponent: 1e+23 as 1 and 23 zeros."""
    digits, point = _shortest(n) if n else ("0", 1)
    return digits.ljust(point, "0")


def _number(n):
    """A float as ECMAScript prints it."""
    if n == 0:
        return "0"
    digits, point = _shortest(abs(n))
    if len(digits) <= point <= 21:
        text = digits.ljust(point, "0")
    elif 0 < point <= 21:
        text = digits[:point] + "." + digits[point:]
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point - 1:+d}"
    return "-" + text if n < 0 else text


def _integer(n):
    """An int as ECMAScript prints its double, where that is the same number."""
    n = int(n)  # an IntEnum prints its name
    if abs(n) <= 2**53:
        return str(n)
    try:
        double = float(n)
    except OverflowError:
        _fail("NON_FINITE", "the integer is beyond the double range")
    if str(abs(n)) != _plain(abs(double)):
        _fail("UNSAFE_INTEGER", f"a double cannot hold {n} exactly; pass it as a string")
    return _number(double)


_ESCAPE = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _string(s):
    return '"' + _ESCAPE.sub(lambda m: _SHORT.get(m.group()) or f"\\u{ord(m.group()):04x}", _pair(s)) + '"'


def canonical_json(value, depth=MAX_DEPTH, limit=MAX_BYTES):
    """The canonical text of a value: keys sorted by UTF-16 code unit at every level, no whitespace, ECMAScript strings and
    numbers, as JSON.stringify writes them. dict, list, tuple, str, int, float, bool and None; all else is refused."""
    parts, size = [], 0

    def put(s):
        nonlocal size
        size += len(s)
        if size > limit:
            _fail("TOO_LARGE", f"over {limit} bytes of canonical JSON")
        parts.append(s)

    def write(v, level):
        if v is None or v is True or v is False:
            return put("null" if v is None else "true" if v else "false")
        if isinstance(v, str):
            return put(_string(v))
        if isinstance(v, int):
            return put(_integer(v))
        if isinstance(v, float):
            return put(_number(v)) if math.isfinite(v) else _fail("NON_FINITE", f"{v} is not JSON")
        if not isinstance(v, (dict, list, tuple)):
            _fail("UNSUPPORTED_TYPE", f"a {type(v).__name__} is not JSON; pass a string")
        if level >= depth:
            _fail("TOO_DEEP", f"more than {depth} containers inside each other")
        if isinstance(v, dict):
            return write_object(v, level)
        put("[")
        for i, element in enumerate(v):
            if i:
                put(",")
            write(element, level + 1)
        put("]")

    def write_object(v, level):
        if not all(isinstance(k, str) for k in v):
            _fail("UNSUPPORTED_TYPE", "an object's keys must be strings")
        members = {_pair(k): k for k in v}
        if len(members) != len(v):
            _fail("DUPLICATE_KEY", "two keys are the same text")
        put("{")
        for i, k in enumerate(sorted(members, key=lambda k: k.encode("utf-16-be", "surrogatepass"))):
            put(("," if i else "") + _string(k) + ":")
            write(v[members[k]], level + 1)
        put("}")

    write(value, 0)
    text = "".join(parts)
    if len(text.encode()) > limit:
        _fail("TOO_LARGE", f"over {limit} bytes of canonical JSON")
    return text


# ---- Keccak-256


def _constants():
    """Round constants from the specification's LFSR; pi lanes and rho rotations from its walk."""
    rounds, walk, lfsr, x, y = [], [], 1, 1, 0
    for _ in range(24):
        rc = 0
        for j in range(7):
            rc |= (lfsr & 1) << ((1 << j) - 1)
            lfsr = (lfsr << 1) ^ (0x171 if lfsr & 0x80 else 0)
        rounds.append(rc)
    for t in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        walk.append((x + 5 * y, (t + 1) * (t + 2) // 2 % 64))
    return rounds, walk


_ROUNDS, _WALK = _constants()
_M64 = 2**64 - 1


def _permute(s):
    """Keccak-f[1600] on 25 lanes, lane x + 5y at s[x + 5y]."""
    for rc in _ROUNDS:
        c = [s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20] for x in range(5)]
        for x in range(5):
            up = c[(x + 1) % 5]
            d = c[x - 1] ^ (up << 1 & _M64 | up >> 63)
            for y in range(x, 25, 5):
                s[y] ^= d
        last = s[1]
        for lane, r in _WALK:
            s[lane], last = (last << r | last >> 64 - r) & _M64, s[lane]
        for y in range(0, 25, 5):
            a, b, c, d, e = s[y : y + 5]
            s[y : y + 5] = a ^ ~b & c, b ^ ~c & d, c ^ ~d & e, d ^ ~e & a, e ^ ~a & b
        s[0] ^= rc


def keccak256(*parts):
    """Hashes the concatenation of the parts; str counts as UTF-8. Returns 32 bytes."""
    data = bytearray(b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in parts))
    data += b"\x01" + bytes(-(len(data) + 1) % 136)
    data[-1] |= 0x80
    state = [0] * 25
    for block in range(0, len(data), 136):
        for lane in range(17):
            at = block + 8 * lane
            state[lane] ^= int.from_bytes(data[at : at + 8], "little")
        _permute(state)
    return b"".join(lane.to_bytes(8, "little") for lane in state[:4])


def _keccak(*parts):
    return to_hex(keccak256(*parts))


# ---- secp256k1

_P, _N = 2**256 - 2**32 - 977, 2**256 - 0x14551231950B75FC4402DA1732FC9BEBF
# Points are (X, Y, Z) in Jacobian coordinates, x = X/Z^2 and y = Y/Z^3; None is the point at infinity.
_G = (0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798, 0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8, 1)


def _to_int(data):
    return int.from_bytes(data, "big")


def _double(p):
    if p is None:
        return None
    x, y, z = p
    yy = y * y % _P
    s, m = 4 * x * yy % _P, 3 * x * x % _P
    x3 = (m * m - 2 * s) % _P
    return x3, (m * (s - x3) - 8 * yy * yy) % _P, 2 * y * z % _P


def _add(p, q):
    if p is None or q is None:
        return p or q
    x1, y1, z1 = p
    x2, y2, z2 = q
    zz1, zz2 = z1 * z1 % _P, z2 * z2 % _P
    u, s = x1 * zz2 % _P, y1 * zz2 * z2 % _P
    h, r = (x2 * zz1 - u) % _P, (y2 * zz1 * z1 - s) % _P
    if h == 0:
        return _double(p) if r == 0 else None
    hh = h * h % _P
    hhh, v = hh * h % _P, u * hh % _P
    x3 = (r * r - hhh - 2 * v) % _P
    return x3, (r * (v - x3) - s * hhh) % _P, z1 * z2 * h % _P


def _multiply(a, b, q):
    """a*G + b*Q, four bits of both scalars at a time."""

    def table(p):
        t = [None]
        for _ in range(15):
            t.append(_add(t[-1], p))
        return t

    tg, tq, total = table(_G), table(q), None
    for shift in range(252, -1, -4):
        for _ in range(4):
            total = _double(total)
        total = _add(_add(total, tg[a >> shift & 15]), tq[b >> shift & 15])
    return total


def _affine(p):
    x, y, z = p
    i = pow(z, -1, _P)
    return x * i * i % _P, y * i * i * i % _P


def _address_of(point):
    return to_hex(keccak256(_word(point[0]), _word(point[1]))[12:])


def decode_signature(signature):
    """Reads a signature (spec section 3): 65 bytes r||s||v with v in {0, 1, 27, 28} or 64 bytes EIP-2098, as hex or bytes; high
    s and values out of range are refused. Returns (r, s, parity, signature), the last as hex of 65 bytes with v 27 or 28."""
    raw = unhex(signature) if isinstance(signature, str) else bytes(signature)
    form = "not r||s||v with v in {0, 1, 27, 28} nor EIP-2098, or r or s out of range, or s high"
    if len(raw) not in (64, 65) or (len(raw) == 65 and raw[64] not in (0, 1, 27, 28)):
        _fail("SIGNATURE", form)
    parity, top = (raw[32] >> 7, 2**255) if len(raw) == 64 else (raw[64] % 27, 2**256)
    r, s = _to_int(raw[:32]), _to_int(raw[32:64]) % top
    if not 0 < r < _N or not 0 < s <= _N // 2:
        _fail("SIGNATURE", form)
    return r, s, parity, to_hex(_word(r) + _word(s) + bytes([27 + parity]))


def recover(digest, signature):
    """The address whose key signed the 32-byte digest."""
    r, s, parity, _ = decode_signature(signature)
    square = (r * r * r + 7) % _P
    y = pow(square, (_P + 1) // 4, _P)  # the root where there is one
    if y * y % _P != square:
        _fail("SIGNATURE", "the signature recovers to no key")
    if y & 1 != parity:
        y = _P - y
    i = pow(r, -1, _N)
    key = _multiply(-_to_int(digest) * i % _N, s * i % _N, (r, y, 1))
    return _address_of(_affine(key)) if key else _fail("SIGNATURE", "the signature recovers to no key")


def text_digest(text):
    """The EIP-191 digest of a text (personal_sign); its length counts UTF-8 bytes."""
    data = text.encode()
    return keccak256(f"\x19Ethereum Signed Message:\n{len(data)}", data)


# ---- Merkle trees (seed section 2.4)


def leaf_hash(item):
    return _keccak(b"\0", unhex(item, 32))


def _node_hash(left, right):
    return _keccak(b"\1", unhex(left, 32), unhex(right, 32))


def fold_proof(item, index, size, siblings):
    """Walks from an item to the root: (root, path) with every node on the way, the root last. Every sibling must be used."""
    if not _is_count(index) or not _is_count(size) or index >= size:
        _fail("PROOF", "the index is outside the tree")
    node, used = leaf_hash(item), 0
    path = [{"hash": node}]
    while size > 1:
        if index == size - 1 and size % 2:
            path.append({"hash": node, "promoted": True})
        else:
            if used == len(siblings):
                _fail("PROOF", "the proof is too short")
            sibling, left = siblings[used], index % 2 == 1
            used += 1
            node = _node_hash(sibling, node) if left else _node_hash(node, sibling)
            path.append({"hash": node, "sibling": sibling, "side": "left" if left else "right"})
        index, size = index // 2, (size + 1) // 2
    if used != len(siblings):
        _fail("PROOF", "the proof has unused siblings")
    return node, path


# ---- Objects (spec section 2)

_ZERO = "0x" + "0" * 64
FIELDS = ("prompt", "args", "result", "claim")
_HEADER = ("agent", "stream", "index", "fromSeq", "toSeq", "prevHead", "head", "root", "createdAt")
_MAX_SPAN = 65536


def _is_count(v):
    """An integer from 0 to 2^53-1, compared by value: 1.0 is 1."""
    return (type(v) is int or type(v) is float and v.is_integer()) and 0 <= v < 2**53


def _hash32(v):
    return _is_hex(v, 32) or "must be 32 bytes as lower-case 0x hex"


def _address(v):
    return _is_hex(v, 20) or "must be an address as lower-case 0x hex"


def _count(v):
    return _is_count(v) or "must be an integer from 0 to 2^53-1"


def _text(v):
    return isinstance(v, str) or "must be a string"


def _anything(_):
    return True


def _an_object(v):
    return isinstance(v, dict) or "must be an object"


def _one_of(*values):
    return lambda v: isinstance(v, str) and v in values or f"must be one of {', '.join(values)}"


def _shape(v, fields, code="BAD_REQUEST", path="", optional=()):
    """Checks that v has exactly the keys of `fields`, those in `optional` or not, and that each value passes its test."""

    def at(key):
        return f"{path}.{key}" if path else key

    if not isinstance(v, dict):
        _fail(code, "must be an object", path or None)
    for key in v:
        if key not in fields:
            _fail(code, "unknown key", at(str(key)[:64]))
    for key, test in fields.items():
        if key not in v:
            if key in optional:
                continue
            _fail(code, "is missing", at(key))
        ok = test(v[key])
        if ok is not True:
            _fail(code, ok, at(key))
    return v


# Categories Cc, Cf, Cs, Zl and Zp as of Unicode 15.0, whatever this Python knows. They would forge lines in the EIP-191 text.
_FORBIDDEN = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ud800-\udfff"
    "\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)


def check_stream(v):
    """True, or what is wrong with a stream name."""
    if not isinstance(v, str):
        return "must be a string"
    if not 1 <= len(v) <= 64:
        return "must have 1 to 64 code points"
    if _FORBIDDEN.search(v):
        return "must not contain control, format, separator or lone surrogate characters"
    if "/" in v or v in (".", "..") or v[0] == " " or v[-1] == " ":
        return "must not contain /, be . or .., or begin or end with a space"
    return True


def _step_name(v):
    return isinstance(v, str) and 1 <= len(_pair(v)) <= 128 or "must have 1 to 128 code points"


_STEP = {
    "v": _one_of("karatum.fr.v1"), "agent": _address, "stream": check_stream, "seq": _count, "prev": _hash32, "at": _count,
    "kind": _one_of("tool", "llm", "tx", "message", "note"), "status": _one_of("ok", "error"), "name": _step_name,
    "prompt": _hash32, "args": _hash32, "result": _hash32, "claim": _hash32, "chainId": _count, "txHash": _hash32,
}  # fmt: skip


def check_step(step):
    """Refuses a step that breaks a rule of spec section 2."""
    _shape(step, _STEP, "STEP_SCHEMA", optional=("name", "chainId", "txHash", *FIELDS))
    if step["seq"] == 0 and step["prev"] != _ZERO:
        _fail("STEP_SCHEMA", "must be 32 zero bytes at seq 0", "prev")
    if ("chainId" in step) != ("txHash" in step):
        _fail("STEP_SCHEMA", "chainId and txHash come together or not at all", "txHash")
    if not any(f in step for f in FIELDS):
        _fail("STEP_SCHEMA", "a step needs at least one commitment", "args")
    return step


def step_hash(step):
    return _keccak("karatum.fr.v1.step\n", canonical_json(step))


def commit(value, salt):
    return _keccak("karatum.fr.v1.commit", unhex(salt, 32), canonical_json(value))


_DECIMAL = re.compile(r"0|[1-9][0-9]{0,77}")


def _amount(v):
    return isinstance(v, str) and _DECIMAL.fullmatch(v) is not None and int(v) < 2**256 or "must be a decimal string below 2^256"


_CLAIMS = {
    "tx.success": {"kind": _text}, "native.transfer": {"kind": _text, "to": _address, "value": _amount},
    "erc20.transfer": {"kind": _text, "token": _address, "to": _address, "amount": _amount},
}  # fmt: skip


def check_claim(claim):
    """Refuses a malformed claim. Returns False for a kind that nobody here interprets (UNSUPPORTED_CLAIM), else True."""
    if not isinstance(claim, dict) or not isinstance(claim.get("kind"), str):
        _fail("CLAIM", "a claim is an object with a kind", "kind")
    if claim["kind"] not in _CLAIMS:
        return False
    _shape(claim, _CLAIMS[claim["kind"]], "CLAIM")
    return True


_HEADER_SHAPE = {
    "agent": _address, "stream": _text, "index": _count, "fromSeq": _count, "toSeq": _count,
    "prevHead": _hash32, "head": _hash32, "root": _hash32, "createdAt": _count,
}  # fmt: skip

# ---- What the agent signs (seed section 2.5)

DOMAIN = {"name": "Karatum Flight Record", "version": "1"}
TYPES = {"FlightBatch": [{"name": k, "type": {_address: "address", _text: "string", _hash32: "bytes32", _count: "uint64"}[_HEADER_SHAPE[k]]} for k in _HEADER]}


def _typed_data(h):
    """What EIP-712 signs: the hash of the domain and the hash of the header."""
    fields = TYPES["FlightBatch"]
    kind = keccak256(f"FlightBatch({','.join(f['type'] + ' ' + f['name'] for f in fields)})")
    domain = keccak256(keccak256("EIP712Domain(string name,string version)"), keccak256(DOMAIN["name"]), keccak256(DOMAIN["version"]))
    encode = {"string": keccak256, "uint64": _word, "address": lambda v: bytes(12) + unhex(v, 20), "bytes32": lambda v: unhex(v, 32)}
    return domain, keccak256(kind, *(encode[f["type"]](h[f["name"]]) for f in fields))


def batch_id(h):
    """The EIP-712 digest of a header, which is its batchId under either scheme."""
    return _keccak(b"\x19\x01", *_typed_data(h))


def _lines(title, v, keys):
    return "\n".join([title, *(f"{k}: {v[k] if isinstance(v[k], str) else int(v[k])}" for k in keys)])


def batch_text(h):
    return _lines("Karatum Flight Batch v1", h, _HEADER)


def batch_digest(h, scheme):
    return text_digest(batch_text(h)) if scheme == "eip191" else unhex(batch_id(h), 32)


def batch_signer(batch):
    return recover(batch_digest(batch["header"], batch["scheme"]), batch["signature"])


# ---- Disclosures (seed section 2.6)


def _any_hex(v):
    return isinstance(v, str) and len(v) % 2 == 0 and _is_hex(v, (len(v) - 2) // 2) or "must be lower-case 0x hex"


def _siblings(v):
    return isinstance(v, list) and len(v) <= 64 and all(_is_hex(s, 32) for s in v) or "must be at most 64 hashes"


_PROOF = {"index": _count, "size": _count, "siblings": _siblings}
_BATCH = {"header": _anything, "scheme": _one_of("eip712", "eip191"), "signature": _any_hex}


def _check_batch_shape(v, path):
    _shape(v, _BATCH, path=path)
    _shape(v["header"], _HEADER_SHAPE, path=f"{path}.header")


def _check_disclosure_shape(d, path=""):
    prefix = f"{path}." if path else ""
    _shape(d, {"step": _an_object, "reveal": _anything, "proof": _anything, "batch": _anything}, path=path)
    _shape(d["proof"], _PROOF, path=f"{prefix}proof")
    _check_batch_shape(d["batch"], f"{prefix}batch")
    if not isinstance(d["reveal"], dict):
        _fail("BAD_REQUEST", "must be an object", f"{prefix}reveal")
    for f, opening in d["reveal"].items():
        _shape(opening, {"salt": _hash32, "value": _anything}, path=f"{prefix}reveal.{f[:64]}")


def _read(data):
    """Text and bytes are parsed strictly; a parsed object is taken as it is."""
    if not isinstance(data, (str, bytes, bytearray)):
        return data
    if len(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data) > _DOCUMENT_BYTES:
        _fail("TOO_LARGE", f"the document is over {_DOCUMENT_BYTES} bytes")
    return parse(data, _DOCUMENT_DEPTH)


# The order in which a refusal names the first check that fails (spec section 6), then the two that look at the anchor.
CODES = ("STEP_SCHEMA", "SIGNATURE", "STEP_BATCH", "PROOF", "PREV_HEAD", "HEAD", "REVEAL_KEY", "COMMITMENT", "CLAIM", "EPOCH", "ANCHOR")


def _first_code(codes):
    return next((c for c in CODES if c in codes), codes[0] if codes else None)


def _check_step_row(d, ctx):
    ctx["valid"] = False
    check_step(d["step"])
    canonical = canonical_json(d["step"])
    ctx["hash"] = step_hash(d["step"])
    ctx["valid"] = True
    return {"got": ctx["hash"], "bytes": len(canonical.encode())}


def _check_signature_row(d, ctx):
    batch = d["batch"]
    ctx["batchId"] = batch_id(batch["header"])
    seen = {"want": batch["header"]["agent"], "batchId": ctx["batchId"], "scheme": batch["scheme"], "got": batch_signer(batch)}
    return seen if seen["got"] == seen["want"] else {**seen, "failed": ["SIGNATURE"], "why": f"the signature recovers to {seen['got']}"}


def _check_place_row(d, ctx):
    step, proof, h = d["step"], d["proof"], d["batch"]["header"]
    span, stands = h["toSeq"] - h["fromSeq"] + 1, step["seq"] - h["fromSeq"]
    why = (
        "the step is of another agent than the header" if step["agent"] != h["agent"]
        else "the step is of another stream than the header" if step["stream"] != h["stream"]
        else "no batch can have this index and span" if not 1 <= span <= _MAX_SPAN or h["fromSeq"] < h["index"] or h["index"] == 0 != h["fromSeq"]
        else f"step {step['seq']} is outside {h['fromSeq']} to {h['toSeq']}" if not 0 <= stands < span
        else f"proof.index is {proof['index']}, the step stands at {stands}" if proof["index"] != stands
        else f"proof.size is {proof['size']}, the batch has {span} steps" if proof["size"] != span
        else ""
    )  # fmt: skip
    ctx["placed"] = not why
    seen = {"seq": step["seq"], "fromSeq": h["fromSeq"], "toSeq": h["toSeq"]}
    return {**seen, "failed": ["STEP_BATCH"], "why": why} if why else seen


def _check_path_row(d, ctx):
    """Place and size come from the signed header: a proof alone could be read as one of another tree size."""
    seq, h = d["step"]["seq"], d["batch"]["header"]
    root, path = fold_proof(ctx["hash"], seq - h["fromSeq"], h["toSeq"] - h["fromSeq"] + 1, d["proof"]["siblings"])
    ctx["reached"] = root == h["root"]
    seen = {"got": root, "want": h["root"], "path": path}
    return seen if ctx["reached"] else {**seen, "failed": ["PROOF"], "why": "the path does not reach the signed root"}


def _check_links_row(d, ctx):
    """The header holds what the first step must follow and what the last must hash to. Any other step follows the one that stands before
    it in the tree: at an odd place that leaf is the nearest sibling, at an even one the proof does not hold it. A leaf that is not
    the one named refutes the agent's chain, not this disclosure, which is as the agent signed it."""
    step, h, failed = d["step"], d["batch"]["header"], []
    if not h["fromSeq"] <= step["seq"] <= h["toSeq"]:
        return {"skip": "the step has no place in this batch"}
    first, last = step["seq"] == h["fromSeq"], step["seq"] == h["toSeq"]
    if first and step["prev"] != h["prevHead"]:
        failed.append("PREV_HEAD")
    if last and ctx["hash"] != h["head"]:
        failed.append("HEAD")
    beside = d["proof"]["siblings"][0] if ctx.get("reached") and (step["seq"] - h["fromSeq"]) % 2 else None
    follows = beside == leaf_hash(step["prev"])
    broken = "the agent signed another step before this one than the step names" if beside and not follows else ""
    seen = {"first": first, "last": last, "seq": step["seq"], "prevHead": h["prevHead"], "head": h["head"]}
    if failed or first or follows or last and not broken:
        return {**seen, "follows": follows, "failed": failed, "why": "the edge of the batch is not the step the header names"}
    if last:
        return {**seen, "partial": broken}
    return {"skip": broken or ("the proof does not hold the step before this one" if ctx.get("reached") else "the path does not reach the signed root")}


def _check_reveal_row(d, ctx):
    step, reveal, failed, rows, claim = d["step"], d["reveal"], [], [], None
    if not reveal:
        return {"skip": "nothing is opened"}
    for field, opening in reveal.items():
        want, got = step.get(field) if field in FIELDS else None, commit(opening["value"], opening["salt"])
        rows.append({"field": field, "got": got, "want": want, "ok": got == want})
        if want is None:
            failed.append("REVEAL_KEY")
        elif got != want:
            failed.append("COMMITMENT")
    if any(r["field"] == "claim" and r["ok"] for r in rows):
        try:
            claim = reveal["claim"]["value"]["kind"] if check_claim(reveal["claim"]["value"]) else "UNSUPPORTED_CLAIM"
        except FlightError:
            failed.append("CLAIM")
    sealed = [f for f in FIELDS if f in step and f not in reveal]
    return {"rows": rows, "sealed": sealed, "claim": claim, "failed": failed, "why": "an opened value is not the one the step commits to, or no valid claim"}


def _run_row(row_id, code, run):
    """Runs one check: a row {id, state: pass|fail|skip|partial, code, why, ms} plus what it computed."""
    start = time.perf_counter()
    try:
        seen = run()
    except Exception as e:  # an RPC may answer anything; whatever it is, the check has not passed
        seen = {"failed": [code], "why": str(e) if isinstance(e, FlightError) else f"{type(e).__name__}: {e}"}
    failed, why = seen.pop("failed", []), seen.pop("why", "")
    skip, partial = seen.pop("skip", ""), seen.pop("partial", "")
    state = "fail" if failed else "skip" if skip else "partial" if partial else "pass"
    ms = 1000 * (time.perf_counter() - start)
    return {"id": row_id, "state": state, "code": _first_code(failed), "codes": failed, "why": why if failed else skip or partial, "ms": ms, **seen}


def _refused(e):
    return {"ok": False, "complete": False, "code": "BAD_REQUEST", "details": {"code": e.code, "field": e.field, "offset": e.offset}, "why": str(e), "rows": []}


def _verdict(rows):
    return {
        "ok": all(r["state"] != "fail" for r in rows), "complete": all(r["state"] == "pass" for r in rows),
        "code": _first_code([c for r in rows for c in r["codes"]]), "rows": rows,
    }  # fmt: skip


def _run_rows(plan, on_check):
    rows = []
    for row_id, code, run in plan:
        rows.append(_run_row(row_id, code, run))
        if on_check:
            on_check(rows[-1], len(rows) - 1)
    return rows


def verify_disclosure(data, on_check=None, anchoring=None, rpc=None, attester=None, eas=None):
    """Checks a disclosure, given as text, bytes or dict, without stopping at the first failure; on_check(row, i) hears each row.

    Returns {ok, complete, code, rows, stepHash, batchId}: `ok` when no row failed, `complete` when all rows passed, and `code`
    the first failing code of spec section 6, or BAD_REQUEST with details for a wrong shape. `anchoring` is the answer of GET
    /v1/flight/batches/ID/proof; `rpc` and `attester` as in verify_anchor.
    """
    try:
        d = _read(data)
        _check_disclosure_shape(d)
        for opening in d["reveal"].values():
            canonical_json(opening["value"])
        if anchoring is not None:
            _check_anchoring_shape(anchoring)
    except FlightError as e:
        return _refused(e)
    ctx = {}

    def if_valid(check):
        return lambda: check(d, ctx) if ctx["valid"] else {"skip": "the step itself is not valid"}

    no_anchor = {"skip": "no anchor is given"}
    plan = (
        ("step", "STEP_SCHEMA", lambda: _check_step_row(d, ctx)),
        ("signature", "SIGNATURE", lambda: _check_signature_row(d, ctx)),
        ("place", "STEP_BATCH", if_valid(_check_place_row)),
        ("path", "PROOF", if_valid(_check_path_row)),
        ("links", "PREV_HEAD", if_valid(_check_links_row)),
        ("reveal", "COMMITMENT", if_valid(_check_reveal_row)),
        ("epoch", "EPOCH", lambda: _check_epoch_row(ctx["batchId"], anchoring) if anchoring else dict(no_anchor)),
        ("anchor", "ANCHOR", lambda: _check_anchor_row(anchoring, rpc, attester, eas) if anchoring and anchoring["anchor"] else dict(no_anchor)),
    )
    rows = _run_rows(plan, on_check)
    return {**_verdict(rows), "stepHash": ctx.get("hash"), "batchId": ctx["batchId"]}


# ---- Equivocation (spec section 5)


def conflict(a, b):
    """Why no honest history of one stream holds both headers, or None where one does. The order does not matter."""
    differ = [k for k in _HEADER if a[k] != b[k]]
    if a["agent"] != b["agent"] or a["stream"] != b["stream"] or all(k == "createdAt" for k in differ):
        return None
    if a["index"] > b["index"]:
        a, b = b, a
    if a["index"] == b["index"]:
        return "SAME_INDEX"
    if a["fromSeq"] <= b["toSeq"] and b["fromSeq"] <= a["toSeq"]:
        return "OVERLAP"
    if b["toSeq"] < a["fromSeq"]:
        return "ORDER"
    batches, steps = b["index"] - a["index"] - 1, b["fromSeq"] - a["toSeq"] - 1
    if batches == 0 and steps > 0:
        return "ADJACENT_INDEX_GAP"
    if steps < batches:
        return "TOO_FEW_STEPS"
    return "PREV_HEAD" if steps == 0 and b["prevHead"] != a["head"] else None


def _broken_chain(a, b):
    """Why two proven steps prove a broken chain: b follows a, yet does not link to it. Raises where they are no such pair."""
    if a["step"]["agent"] != b["step"]["agent"] or a["step"]["stream"] != b["step"]["stream"]:
        _fail("EVIDENCE", "the steps are of two streams")
    if b["step"]["seq"] != a["step"]["seq"] + 1:
        _fail("EVIDENCE", "step b must follow step a")
    return None if b["step"]["prev"] == step_hash(a["step"]) else "BROKEN_CHAIN"


def verify_equivocation(data, on_check=None):
    """Re-checks equivocation evidence from itself alone: rows for both statements and for the contradiction."""
    try:
        e = _shape(_read(data), {"type": _one_of("karatum.equivocation.v1"), "reason": _text, "a": _anything, "b": _anything})
        chain = e["reason"] == "BROKEN_CHAIN"
        for k in ("a", "b"):
            if chain:
                _check_disclosure_shape(e[k], k)
                if e[k]["reveal"]:
                    _fail("BAD_REQUEST", "evidence must not open anything", f"{k}.reveal")
            else:
                _check_batch_shape(e[k], k)
                decode_signature(e[k]["signature"])
    except FlightError as err:
        return _refused(err)

    def statement(k):
        if not chain:
            return _check_signature_row({"batch": e[k]}, {})
        v = verify_disclosure(e[k])
        why = v.get("why") or next((r["why"] for r in v["rows"] if r["state"] == "fail"), "")
        return {"got": v.get("stepHash"), "rows": v["rows"], "failed": [v["code"]] if v["code"] else [], "why": why}

    proven = []

    def contradiction():
        if proven != ["pass", "pass"]:
            _fail("EVIDENCE", "a statement is not proven")
        if not chain and e["a"]["header"]["index"] > e["b"]["header"]["index"]:
            _fail("EVIDENCE", "the lower index must come first")
        got = _broken_chain(e["a"], e["b"]) if chain else conflict(e["a"]["header"], e["b"]["header"])
        why = f"the reason is {got}" if got else "one honest history holds both"
        return {"got": got, "want": e["reason"], "failed": [] if got == e["reason"] else ["EVIDENCE"], "why": why}

    plan = (("a", "SIGNATURE", lambda: statement("a")), ("b", "SIGNATURE", lambda: statement("b")), ("contradiction", "EVIDENCE", contradiction))

    def hear(row, i):
        proven.append(row["state"])
        if on_check:
            on_check(row, i)

    return _verdict(_run_rows(plan, hear))


# ---- Epochs and anchors (seed section 2.7, spec section 7)

_SPEC = "karatum.flightrec.v1"
SCHEMA = "bytes32 epochRoot,uint32 batchCount,string spec"
SCHEMA_UID = _keccak(SCHEMA, bytes(21))  # no resolver, not revocable
# The EAS contract of each network that Karatum anchors on.
EAS = {
    31337: "0x4200000000000000000000000000000000000021", 84532: "0x4200000000000000000000000000000000000021",
    11155111: "0xc2679fbd37d54388ce493f1db75320d236e1815e",
}  # fmt: skip


def attestation_data(root, batch_count):
    return to_hex(unhex(root, 32) + _word(batch_count) + _word(96) + _word(len(_SPEC)) + _SPEC.encode() + bytes(12))


def attest_calldata(root, batch_count):
    """The one calldata that anchors an epoch: attest((schema, (0, 0, false, 0, data, 0)))."""
    data = unhex(attestation_data(root, batch_count))
    selector = keccak256("attest((bytes32,(address,uint64,bool,bytes32,bytes,uint256)))")[:4]
    words = (_word(n) for n in (64, 0, 0, 0, 0, 192, 0, len(data)))
    return to_hex(b"".join((selector, _word(32), unhex(SCHEMA_UID), *words, data)))


def _is_epoch(v):
    ok = isinstance(v, dict) and set(v) == {"root", "batchCount"} and _is_hex(v["root"], 32) and _is_count(v["batchCount"])
    return ok or "must be {root, batchCount}"


def _is_anchor(v):
    ok = v is None or isinstance(v, dict) and _is_count(v.get("chainId")) and (v.get("txHash") is None or _is_hex(v["txHash"], 32))
    return ok or "must name a chain and a transaction, or be null"


def _check_anchoring_shape(a):
    _shape(a, {"batchId": _hash32, "epoch": _is_epoch, "proof": _anything, "anchor": _is_anchor})
    _shape(a["proof"], _PROOF, path="proof")


def _check_epoch_row(batch, a):
    proof, epoch = a["proof"], a["epoch"]
    seen = {"want": epoch["root"], "size": proof["size"]}
    if a["batchId"] != batch:
        return {**seen, "failed": ["EPOCH"], "why": f"the proof is of batch {a['batchId']}"}
    if proof["size"] != epoch["batchCount"]:
        return {**seen, "failed": ["EPOCH"], "why": f"the epoch has {epoch['batchCount']} batches, the proof is of {proof['size']}"}
    root, path = fold_proof(batch, proof["index"], proof["size"], proof["siblings"])
    seen.update(got=root, path=path)
    return seen if root == epoch["root"] else {**seen, "failed": ["EPOCH"], "why": "the batch is not in this epoch"}


def verify_epoch_proof(data):
    """Checks that a batch is in an epoch: {batchId, epoch: {root, batchCount}, proof, anchor}. Only verify_anchor checks the count on the chain."""
    try:
        a = _read(data)
        _check_anchoring_shape(a)
    except FlightError as e:
        return _refused(e)
    return _verdict([_run_row("epoch", "EPOCH", lambda: _check_epoch_row(a["batchId"], a))])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Nothing is sent to, or believed from, a place that was not asked for."""

    def redirect_request(self, *_):
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def _call_rpc(url, method, params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with _OPENER.open(urllib.request.Request(url, body, {"content-type": "application/json"}), timeout=30) as answer:
        v = json.load(answer)
    return _fail("RPC", f"{method}: {v['error'].get('message')}") if v.get("error") else v.get("result")


def _check_anchor_row(a, rpc, attester, eas):
    tx_hash, chain_id = a["anchor"].get("txHash"), a["anchor"].get("chainId")
    if not rpc:
        return {"skip": "needs a chain connection"}
    if not _is_hex(tx_hash, 32) or not _is_count(chain_id):
        _fail("ANCHOR", "the anchor names no chain or no transaction")
    call = rpc if callable(rpc) else lambda method, params: _call_rpc(rpc, method, params)
    served = int(call("eth_chainId", []), 16)
    tx, receipt = call("eth_getTransactionByHash", [tx_hash]), call("eth_getTransactionReceipt", [tx_hash])
    contract = (eas or EAS.get(chain_id) or "").lower()
    if not tx or not receipt:
        _fail("ANCHOR", "this RPC does not know the transaction")
    sender = str(tx.get("from")).lower()
    why = (
        f"the RPC serves chain {served}, the anchor is on {chain_id}" if served != chain_id
        else "the RPC answered with another transaction" if str(tx.get("hash")).lower() != tx_hash or str(receipt.get("transactionHash")).lower() != tx_hash
        else f"no EAS contract is known for chain {chain_id}" if not contract
        else f"the transaction went to {tx.get('to')}, not to EAS" if str(tx.get("to")).lower() != contract
        else "the transaction does not attest this epoch" if str(tx.get("input")).lower() != attest_calldata(a["epoch"]["root"], a["epoch"]["batchCount"])
        else "the transaction failed" if receipt.get("status") != "0x1"
        else f"the attester is {sender}, not {attester}" if attester and sender != attester.lower()
        else ""
    )  # fmt: skip
    seen = {"attester": sender, "chainId": chain_id, "txHash": tx_hash, "block": int(receipt["blockNumber"], 16), "blockHash": receipt.get("blockHash")}
    if why:
        return {**seen, "failed": ["ANCHOR"], "why": why}
    return {**seen, "partial": "" if attester else f"unpinned attester {sender}: anyone can attest"}


def verify_anchor(data, rpc=None, attester=None, eas=None):
    """Asks an RPC, a URL or a function (method, params), whether the epoch of an anchoring is attested: calldata byte for byte,
    contract, status and attester. Without `attester` the result is not complete. `eas` names the contract on another chain."""
    try:
        a = _read(data)
        _check_anchoring_shape(a)
        if not a["anchor"]:
            _fail("NOT_ANCHORED", "the batch is not anchored yet", "anchor")
    except FlightError as e:
        return _refused(e)
    epoch = _run_row("epoch", "EPOCH", lambda: _check_epoch_row(a["batchId"], a))
    return _verdict([epoch, _run_row("anchor", "ANCHOR", lambda: _check_anchor_row(a, rpc, attester, eas))])


# ---- Batches and receipts by themselves


def check_header(h):
    """Refuses a header that is malformed or impossible by itself (spec section 4) and names its field."""
    _shape(h, {**_HEADER_SHAPE, "stream": check_stream})

    def bad(message, field):
        _fail("BAD_REQUEST", message, field)

    if h["toSeq"] < h["fromSeq"]:
        bad("is below fromSeq", "toSeq")
    if h["toSeq"] - h["fromSeq"] >= _MAX_SPAN:
        bad(f"a batch spans at most {_MAX_SPAN} steps", "toSeq")
    if h["index"] == 0 and h["fromSeq"] != 0:
        bad("must be 0 at index 0", "fromSeq")
    if (h["index"] == 0) != (h["prevHead"] == _ZERO):
        bad("must be zero at index 0 and only there", "prevHead")
    if h["fromSeq"] < h["index"]:
        bad("is below index, yet every earlier batch held a step", "fromSeq")
    if h["toSeq"] == h["fromSeq"] and h["root"] != leaf_hash(h["head"]):
        bad("must be leaf(head) in a batch of one step", "root")
    return h


def receipt_text(r):
    return _lines("Karatum Flight Receipt v1", r, ("batchId", "position", "receivedAt", "anchorBy"))


def receipt_group_text(g):
    return _lines("Karatum Flight Receipt Group v1", g, ("root", "size"))


def verify_receipt(r):
    """Checks a node's receipt, through its group where there is one, and returns the node's address. Other keys of the answer are ignored."""
    fields = {"batchId": _hash32, "position": _count, "receivedAt": _count, "anchorBy": _count, "node": _address, "signature": _any_hex}
    if not isinstance(r, dict):
        _fail("RECEIPT", "must be an object")
    _shape({k: r[k] for k in fields if k in r}, fields, "RECEIPT")
    signed, group = receipt_text(r), r.get("group")
    if "group" in r:
        _shape(group, {"root": _hash32, "size": _count, "proof": _anything}, "RECEIPT", "group")
        _shape(group["proof"], _PROOF, "RECEIPT", "group.proof")
        index, size, siblings = (group["proof"][k] for k in ("index", "size", "siblings"))
        if size != group["size"] or fold_proof(_keccak(signed), index, size, siblings)[0] != group["root"]:
            _fail("RECEIPT", "the receipt is not in its group")
        signed = receipt_group_text(group)
    signer = recover(text_digest(signed), r["signature"])
    return signer if signer == r["node"] else _fail("RECEIPT", f"the receipt is signed by {signer}, not by {r['node']}")


# ==== End of the verifier

# ---- Trees and rating: what a recorder or a node makes


def _levels(items):
    if not items:
        _fail("PROOF", "a tree needs an item")
    out = [[leaf_hash(i) for i in items]]
    while len(out[-1]) > 1:
        row = out[-1]
        out.append([_node_hash(row[i], row[i + 1]) if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)])
    return out


def merkle_root(items):
    return _levels(items)[-1][0]


def merkle_proof(items, index):
    siblings, at = [], index
    for row in _levels(items)[:-1]:
        if at ^ 1 < len(row):
            siblings.append(row[at ^ 1])
        at //= 2
    return {"index": index, "size": len(items), "siblings": siblings}


def rating(confirmed, contradicted):
    """The field rating (spec section 8): Wilson lower bound times 24, or None where nothing is decided."""
    n, z = confirmed + contradicted, 1.959963984540054
    if n == 0:
        return None
    p = confirmed / n
    low = (p + z * z / (2 * n) - z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (1 + z * z / n)
    return math.floor(24 * max(low, 0) * 100 + 0.5) / 100


# ==== Part 2: the recorder

# ---- Signing. Python integers are not constant-time: use a raw key only for throw-away test agents.


def _secret_of(key):
    d = _to_int(unhex(key, 32))
    return d if 0 < d < _N else _fail("SIGNER", "not a secp256k1 private key")


def address_of_key(key):
    return _address_of(_affine(_multiply(_secret_of(key), 0, _G)))


def sign_digest(key, digest):
    """Signs a 32-byte digest with a raw key, deterministically (RFC 6979), s in the lower half."""
    d, z = _secret_of(key), _to_int(digest)
    seed, k, v = _word(d) + _word(z % _N), bytes(32), b"\1" * 32

    def mac(data):
        return hmac.new(k, data, hashlib.sha256).digest()

    for tag in (b"\0", b"\1"):
        k = mac(v + tag + seed)
        v = mac(v)
    while True:
        v = mac(v)
        nonce = _to_int(v)
        if 0 < nonce < _N:
            x, y = _affine(_multiply(nonce, 0, _G))
            s = pow(nonce, -1, _N) * (z + x * d) % _N
            high = s > _N // 2
            if x < _N and s > 0:
                return to_hex(_word(x) + _word(_N - s if high else s) + bytes([27 + ((y & 1) ^ high)]))
        k = mac(v + b"\0")
        v = mac(v)


_Signable = collections.namedtuple("_Signable", "version header body")  # what eth-account's sign_message takes


def _adapt_signer(signer):
    """The signer of a raw key or an eth-account LocalAccount: (address, sign(header, scheme)).

    A LocalAccount has sign_typed_data from eth-account 0.13.5 on. Older ones take the two hashes of EIP-712 as a message of
    version 1, which gives the same signature; accounts of a wallet service often have only the newer way, so it goes first."""
    if isinstance(signer, str):
        try:
            return address_of_key(signer), lambda h, scheme: sign_digest(signer, batch_digest(h, scheme))
        except FlightError as e:
            _fail(e.code, str(e), "signer")
    address = str(getattr(signer, "address", "")).lower()
    if not _is_hex(address, 20):
        _fail("SIGNER", f"{type(signer).__name__} has no address; give an eth-account LocalAccount (Account.from_key) or a raw key as 0x hex", "signer")

    def sign(h, scheme):
        if scheme == "eip191":
            body = batch_text(h).encode()
            signed = signer.sign_message(_Signable(b"E", b"thereum Signed Message:\n%d" % len(body), body))
        elif hasattr(signer, "sign_typed_data"):
            fields = [dict(f) for f in TYPES["FlightBatch"]]
            message = {f["name"]: unhex(h[f["name"]]) if f["type"] == "bytes32" else h[f["name"]] for f in fields}
            signed = signer.sign_typed_data(dict(DOMAIN), {"FlightBatch": fields}, message)
        else:
            signed = signer.sign_message(_Signable(b"\1", *_typed_data(h)))
        return bytes(signed.signature)

    return address, sign


# ---- Journals: lines of JSON, appended and never changed. They hold plaintext and salts; guard them like any log.


class MemoryJournal:
    """A journal that lasts as long as the process. Its stream is drawn anew each time."""

    def __init__(self):
        self._lines = []

    def load(self, each):
        for ref, line in enumerate(self._lines):
            each(line, ref)

    def cut(self, ref):
        del self._lines[ref:]

    def append(self, line):
        self._lines.append(line)
        return len(self._lines) - 1

    def mark(self):
        return len(self._lines)

    def undo(self, mark):
        self.cut(mark)

    def read(self, ref):
        return self._lines[ref]

    def sync(self):
        pass

    def close(self):
        pass


class FileJournal:
    """A journal in a file. `fsync` says when steps are flushed to the disk: 'always', 'interval' (each second) or 'never';
    batches always are, before they are sent. PATH.lock excludes others."""

    def __init__(self, path, fsync="interval"):
        if fsync not in ("always", "interval", "never"):
            _fail("CONFIG", "fsync must be always, interval or never")
        self._fsync, self._failed, self._timer, self._closed, self._timing = fsync, None, None, False, threading.Lock()
        self.path, self.torn, self._size = os.path.abspath(path), 0, 0
        if os.path.isdir(path):
            _fail("JOURNAL", f"{path} is a directory, maybe a journal of the karatum command; name a file")
        self._lock_path = os.path.realpath(path) + ".lock"
        try:
            self._lock = _take_lock(self._lock_path)
            try:
                self._file = open(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600), "r+b", buffering=0)
            except OSError:
                self._unlock()
                raise
            if os.name == "posix":
                directory = os.open(os.path.dirname(self.path), os.O_RDONLY)
                os.fsync(directory)
                os.close(directory)
        except OSError as e:
            _fail("JOURNAL", f"the journal {path} cannot be opened: {e}")

    def load(self, each):
        """Calls each(line, ref) for every whole line and cuts off a last line that a crash tore, of `torn` bytes."""
        at, self._size = 0, os.fstat(self._file.fileno()).st_size
        with open(os.dup(self._file.fileno()), "rb") as lines:
            lines.seek(0)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                each(line[:-1], (at, len(line) - 1))
                at += len(line)
        if at < self._size:
            self.torn = self._size - at
            self._truncate(at)

    def cut(self, ref):
        """Takes out all from a line on. Nothing is thrown away: it stands in PATH.damaged."""
        self._file.seek(ref[0])
        with open(os.open(self.path + ".damaged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as f:
            shutil.copyfileobj(self._file, f)
            f.flush()
            os.fsync(f.fileno())
        self._truncate(ref[0])

    def _truncate(self, size):
        self._file.truncate(size)
        self._size = size
        self.sync()

    def append(self, line):
        data, ref = memoryview(line.encode() + b"\n"), (self._size, len(line.encode()))
        self._file.seek(self._size)
        while data:
            data = data[self._file.write(data) :]
        self._size += ref[1] + 1
        if self._fsync == "always":
            self.sync()
        elif self._fsync == "interval":
            self._sync_soon()
        return ref

    def mark(self):
        return self._size

    def undo(self, mark):
        """Takes out what was appended since the mark, half lines too."""
        self._size = mark
        self._file.truncate(mark)

    def _sync_soon(self):
        with self._timing:
            if self._timer is None and not self._closed:
                self._timer = threading.Timer(1.0, self._on_timer)
                self._timer.daemon = True
                self._timer.start()

    def _on_timer(self):
        with self._timing:
            self._timer = None
            if not self._closed:
                try:
                    self.sync()
                except OSError:
                    pass  # kept, and raised by the next sync that matters

    def read(self, ref):
        self._file.seek(ref[0])
        return self._file.read(ref[1])

    def sync(self):
        """Returns when all that was appended is on the disk. After one failure nothing is known, so it fails for good."""
        if self._failed:
            raise self._failed
        try:
            os.fsync(self._file.fileno())
        except OSError as e:
            self._failed = e
            raise

    def close(self):
        with self._timing:
            if self._closed:
                return
            self._closed = True
            if self._timer:
                self._timer.cancel()
            try:
                self.sync()
            finally:
                self._file.close()
                self._unlock()

    def _unlock(self):
        os.unlink(self._lock_path)
        os.close(self._lock)


def _born(pid):
    """When a process started, where the system tells, so that a reused pid is not taken for its old holder."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b") ", 1)[-1].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _alive(pid, start):
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return not (start and _born(pid)) or start == _born(pid)


def _lock_file(fd):
    try:
        import fcntl
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        import msvcrt
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)


def _holder(fd):
    """The pid and start time in a lock file, which is then read from its start again."""
    pid, _, start = os.read(fd, 64).decode("ascii", "replace").strip().partition(" ")
    os.lseek(fd, 0, os.SEEK_SET)
    return pid, start


def _take_lock(path):
    """Locks the lock file and writes pid and start time into it, by which the JavaScript twin tells that it is held."""
    while True:
        fd, pid = os.open(path, os.O_RDWR | os.O_CREAT, 0o600), ""
        try:
            pid = _holder(fd)[0]  # for the message
            _lock_file(fd)
            if not os.path.exists(path) or os.fstat(fd).st_ino != os.stat(path).st_ino:
                os.close(fd)  # removed by its holder between open and lock
                continue
            pid, start = _holder(fd)
            if pid and pid != str(os.getpid()) and _alive(pid, start):
                raise BlockingIOError
        except OSError:
            os.close(fd)
            holder = f"process {pid}" if pid else "another process"
            _fail("JOURNAL_LOCKED", f"{holder} has the journal {path[:-5]} open; end it, or give this recorder a journal of its own")
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, f"{os.getpid()} {_born(os.getpid())}\n".encode())
        return fd


# ---- The recorder (spec section 10)

_DAY, _ANSWER_BYTES = 86400.0, 1 << 20
_INPUT = ("at", "kind", "status", "name", "chainId", "txHash", *FIELDS)


def _lower_claim(claim):
    """Lower-cases the addresses of a claim, which wallets write with a checksum."""
    if isinstance(claim, dict):
        claim = {k: v.lower() if k in ("to", "token") and isinstance(v, str) else v for k, v in claim.items()}
    check_claim(claim)
    return claim


def _entry_line(entry):
    return canonical_json({k: v for k, v in entry.items() if v is not None}, _DOCUMENT_DEPTH, 8 * MAX_BYTES)


class _Stream:
    def __init__(self, name, carry):
        self.name, self.carry, self.checked = name, carry, False
        self.hashes, self.refs, self.batches = [], [], []  # of each step: hash, place in the journal; batches as journaled

    @property
    def signed(self):
        """How many steps are in a signed batch."""
        return int(self.batches[-1]["header"]["toSeq"]) + 1 if self.batches else 0

    @property
    def delivered(self):
        """How many steps a receipt covers."""
        return next((b["header"]["toSeq"] + 1 for b in reversed(self.batches) if b["receipt"]), 0)

    def last(self, seq=None):
        """The hash of the step before `seq`, of the last one by default; zero at the start."""
        seq = len(self.hashes) if seq is None else seq
        return self.hashes[seq - 1] if seq else _ZERO


class Recorder:
    """Records what an agent does, signs it in batches and sends them to a node.

    `record` and `flush` never raise: what goes wrong is told to on_error(error), whose `code` says what.

        with Recorder("http://127.0.0.1:8080", signer, name="trader", journal=FileJournal("trader.jsonl")) as recorder:
            recorder.record({"kind": "tool", "name": "swap", "args": {...}, "result": {...}})

    signer: an eth-account LocalAccount, or a raw key as hex (throw-away test keys only). scheme 'eip712' or 'eip191'; stream:
    its name, else NAME-<8 random hex>; interval: seconds between batches; retain_plaintext False keeps commitments only, so
    nothing can be opened later; max_steps of one batch, up to 65536, which take this file half a minute to hash; node_address pins who must sign receipts; now (unix s) for tests.
    Without node_address the journal keeps to the key that signed its first receipt; another key's receipt does not count.
    Options may be wrong, and the journal locked or corrupt: only then the constructor raises.
    """

    def __init__(self, node, signer, scheme="eip712", name="agent", stream=None, journal=None, interval=120.0, retain_plaintext=True,
                 max_steps=8192, backoff=1.0, max_backoff=300.0, timeout=30.0, node_address=None, on_error=None, now=time.time):  # fmt: skip
        self._journal = MemoryJournal() if journal is None else journal
        try:
            if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", str(node)):
                _fail("CONFIG", f"node is {node!r}; it must be an http or https URL such as http://127.0.0.1:8080")
            if scheme not in ("eip712", "eip191"):
                _fail("CONFIG", "scheme must be eip712 or eip191")
            if not 1 <= max_steps <= _MAX_SPAN:
                _fail("CONFIG", f"max_steps must be 1 to {_MAX_SPAN}")
            if node_address and not _is_hex(str(node_address).lower(), 20):
                _fail("CONFIG", f"node_address is {node_address!r}; it must be an address, 0x and 40 hex digits")
            self._node, self._scheme, self._name, self._stream = node.rstrip("/"), scheme, name, stream
            self._interval, self._retain, self._max_steps, self._timeout = interval, retain_plaintext, max_steps, timeout
            self._min_backoff, self._max_backoff, self._now = backoff, max_backoff, now
            self._node_address, self._on_error = (node_address or "").lower(), on_error or (lambda e: print(f"karatum: {e.code}: {e}", file=sys.stderr))
            self.address, self._sign_header = _adapt_signer(signer)
            self._streams, self._current, self._signed_by = {}, None, None
            self._pid = os.getpid()
            self._failures, self._not_before, self._closed = 0, 0.0, False
            self._state = threading.Condition(threading.RLock())  # guards the streams, the journal and _due
            self._sending = threading.Lock()  # held while batches are delivered: one in flight
            self._load()
        except Exception:
            self._journal.close()
            raise
        self._due = time.monotonic() + interval if self._unsent() else None
        self._thread = threading.Thread(target=self._run, name="karatum-recorder", daemon=True)
        self._thread.start()

    @property
    def stream(self):
        return self._current.name

    @property
    def node_address(self):
        """The address whose receipts count; None before the first one where the option does not say it."""
        return self._node_address or self._signed_by

    @property
    def waiting(self):
        """Steps that no receipt covers yet."""
        cur = self._current
        carried = cur.carry["count"] if cur.carry and cur.carry["stream"] in self._streams else 0
        return max(len(cur.hashes), carried) - cur.delivered

    # Journal lines, by "type": stream {agent, stream, carry?}, step {hash, step, openings?}, batch {header, scheme, signature},
    # receipt {index, receipt}. A batch line is on the disk before its first byte is sent, so its index is never signed again.

    def _load(self):
        cut, why, count = None, "", 0

        def each(line, ref):
            nonlocal cut, why, count
            count += 1
            try:
                entry = parse(line, _DOCUMENT_DEPTH)
                if cut is None:
                    self._apply(entry, ref)
                elif entry["type"] == "batch":
                    _fail("JOURNAL_CORRUPT", f"{self._place()}: {why}, yet a signed batch follows; restore the journal, or move it away to begin a new one")
            except (FlightError, LookupError, TypeError, AttributeError) as e:
                if getattr(e, "code", "").startswith("JOURNAL_"):
                    raise
                if cut is None:
                    cut, why = ref, f"line {count} is damaged ({e})"

        self._journal.load(each)
        if cut is not None:
            self._cut(cut, why)
        torn = getattr(self._journal, "torn", 0)
        if torn:
            self._report(FlightError("JOURNAL_TORN", f"{self._place()}: {torn} bytes after the last whole line, which a crash left, are cut off"))
        if self._current is None:
            self._begin(self._stream or self._fresh(self._name))
        self._drop_damaged()
        self._carry()

    def _place(self):
        return getattr(self._journal, "path", "the journal")

    def _cut(self, ref, why):
        self._journal.cut(ref)
        self._report(FlightError("JOURNAL_DAMAGED", f"{self._place()}: {why}; it was in no signed batch, and stands with all that follows in {self._place()}.damaged now"))

    def _apply(self, entry, ref):
        cur, kind = self._current, entry["type"]
        ok = True
        if kind == "stream":
            if entry["agent"] != self.address:
                _fail("JOURNAL_AGENT", f"the journal is of {entry['agent']}, the signer is {self.address}")
            ok = check_stream(entry["stream"]) is True
            if ok:
                self._current = self._streams[entry["stream"]] = _Stream(entry["stream"], entry.get("carry"))
        elif kind == "step":
            step = entry["step"]
            ok = step["stream"] == cur.name and step["seq"] == len(cur.hashes) and step["prev"] == cur.last() and _is_hex(entry["hash"], 32)
            if ok:
                cur.hashes.append(entry["hash"])
                cur.refs.append(ref)
        elif kind == "batch":
            h = entry["header"]
            ok = h["index"] == len(cur.batches) and h["fromSeq"] == cur.signed and h["toSeq"] < len(cur.hashes) and h["head"] == cur.hashes[h["toSeq"]]
            if ok:
                cur.batches.append({"header": h, "scheme": entry["scheme"], "signature": entry["signature"], "receipt": None})
        elif kind == "receipt":
            cur.batches[entry["index"]]["receipt"] = entry["receipt"]
            self._signed_by = entry["receipt"]["node"]
        else:
            ok = False
        if not ok:
            _fail("CHAIN", "the line does not continue the journal")

    def _drop_damaged(self):
        """Steps that are still to be signed must hash to what the journal says; a flipped bit is cut off with all that follows."""
        cur = self._current
        for seq in range(cur.signed, len(cur.refs)):
            if step_hash(self._entry(cur.refs[seq])["step"]) != cur.hashes[seq]:
                self._cut(cur.refs[seq], f"step {seq} of {cur.name} does not hash to what its line says")
                del cur.refs[seq:], cur.hashes[seq:]
                return

    def _entry(self, ref):
        return parse(self._journal.read(ref), _DOCUMENT_DEPTH)

    def _unsent(self):
        return self.waiting > 0

    def _fresh(self, name):
        return f"{name[:55]}-{secrets.token_hex(4)}"

    def _write(self, entry):
        """Writes a line that stands in the journal and here, or in neither, even where the disk is full or Ctrl-C comes."""
        line, mark, cur = _entry_line(entry), self._journal.mark(), self._current
        steps, batches = (len(cur.refs), len(cur.batches)) if cur else (0, 0)
        try:
            self._apply(entry, self._journal.append(line))
        except BaseException as e:
            self._current = cur
            if cur:
                del cur.hashes[steps:], cur.refs[steps:], cur.batches[batches:]
            if entry["type"] == "receipt":
                cur.batches[entry["index"]]["receipt"] = None
            self._journal.undo(mark)
            if isinstance(e, OSError):
                _fail("JOURNAL", f"{self._place()} cannot be written: {e}")
            raise

    def _begin(self, stream, carry=None):
        ok = check_stream(stream)
        if ok is not True:
            _fail("CONFIG", ok, "stream")
        self._write({"type": "stream", "agent": self.address, "stream": stream, "carry": carry})
        self._journal.sync()

    def _restart(self, error):
        """Leaves the stream, of which the node knows another history, and carries what it has not stored into a new one."""
        self._report(error)
        with self._state:
            old = self._current
            carry = {"stream": old.name, "fromSeq": old.delivered, "count": len(old.hashes) - old.delivered}
            self._begin(self._fresh(self._stream or self._name), carry)
            self._carry()

    def _carry(self):
        """Records the old stream's undelivered steps again, linked anew; a crash in between is made up for at the next open."""
        cur = self._current
        old = self._streams.get(cur.carry["stream"]) if cur.carry and len(cur.hashes) < cur.carry["count"] else None
        if old is None:
            return
        for seq in range(len(cur.hashes), cur.carry["count"]):
            entry = self._entry(old.refs[cur.carry["fromSeq"] + seq])
            moved = {**entry["step"], "stream": cur.name, "seq": seq, "prev": cur.last()}
            self._write({"type": "step", "hash": step_hash(moved), "step": moved, "openings": entry.get("openings")})
        self._journal.sync()

    def _report(self, error):
        if not hasattr(error, "code") or not isinstance(error.code, str):
            error = FlightError("JOURNAL" if isinstance(error, OSError) else "INTERNAL", f"{type(error).__name__}: {error}")
        try:
            self._on_error(error)
        except Exception:  # a recorder never makes the agent fail
            pass

    def record(self, step=None, **fields):
        """Records one step, as a dict or by keyword: kind, status, name, at, prompt, args, result, claim, chainId, txHash.

        The four in the middle are values, committed under fresh salts; a field that cannot be committed is left out and
        reported. Returns {stream, seq, hash}, or None where nothing could be recorded.
        """
        try:
            self._owned()
            with self._state:
                if self._closed:
                    _fail("CLOSED", "the recorder is closed")
                self._carry()
                return self._record({**(step or {}), **fields})
        except Exception as e:
            self._report(e)
            return None

    def _owned(self):
        """Refuses a forked process, where locks may be held by threads that are not there, and two would write one journal."""
        if os.getpid() != self._pid:
            _fail("FORKED", f"process {self._pid} opened this recorder and writes the journal; open another, with its own journal, in process {os.getpid()}")

    def _record(self, given):
        cur, openings = self._current, {}
        seq = len(cur.hashes)
        step = {"v": "karatum.fr.v1", "agent": self.address, "stream": cur.name, "seq": seq, "prev": cur.last(),
                "at": given.get("at", int(self._now() * 1000)), "kind": given.get("kind", "tool"), "status": given.get("status", "ok")}  # fmt: skip

        def put(field, value):
            salt, canonical = "0x" + secrets.token_hex(32), canonical_json(value)
            step[field] = _keccak("karatum.fr.v1.commit", unhex(salt), canonical)
            openings[field] = {"salt": salt, "value": parse(canonical)}

        def keep(field, run):
            try:
                run()
            except FlightError as e:
                e.field = e.field or field
                self._report(e)
            except Exception as e:  # of the value itself: a dict that another thread changes, say
                self._report(FlightError("UNSUPPORTED_TYPE", f"{type(e).__name__}: {e}", field))

        for f in FIELDS:
            if f in given:
                keep(f, lambda f=f: put(f, _lower_claim(given[f]) if f == "claim" else given[f]))
        if not openings:
            put("args", None)
        if "name" in given:
            keep("name", lambda: _shape({"name": given["name"]}, {"name": _step_name}, "STEP_SCHEMA"))
            if _step_name(given["name"]) is True:
                step["name"] = given["name"]
        if "chainId" in given or "txHash" in given:
            pair = {"chainId": given.get("chainId"), "txHash": str(given.get("txHash")).lower()}
            if _is_count(pair["chainId"]) and _is_hex(pair["txHash"], 32):
                step.update(pair)
            else:
                self._report(FlightError("STEP_SCHEMA", "chainId and txHash come together", "txHash"))
        for unknown in [k for k in given if k not in _INPUT][:1]:
            self._report(FlightError("STEP_SCHEMA", "unknown key, left out", str(unknown)))
        digest = step_hash(check_step(step))
        self._write({"type": "step", "hash": digest, "step": step, "openings": openings if self._retain else None})
        self._schedule(0 if len(cur.hashes) - cur.signed >= self._max_steps else self._interval)
        return {"stream": cur.name, "seq": seq, "hash": digest}

    def _schedule(self, delay):
        with self._state:
            due = time.monotonic() + delay
            if self._due is None or due < self._due:
                self._due = due
                self._state.notify_all()

    def _run(self):
        while True:
            with self._state:
                while not self._closed and (self._due is None or self._due > time.monotonic()):
                    self._state.wait(None if self._due is None else self._due - time.monotonic())
                if self._closed:
                    return
                self._due = None
            self.flush()

    def flush(self):
        """Tries to deliver all that waits, now unless a node asked to wait. Returns {ok, waiting}; the rest is retried later."""
        try:
            self._owned()
        except FlightError as e:
            self._report(e)
            return {"ok": False, "waiting": self.waiting}
        with self._sending:
            try:
                self._drain()
            except Exception as e:
                self._failures += 1
                self._report(e)
        with self._state:
            if self._unsent():
                self._due = None
                self._schedule(max(self._backoff(), self._not_before - self._now()) if self._failures else self._interval)
            return {"ok": not self._unsent(), "waiting": self.waiting}

    def _backoff(self):
        """Exponential with jitter: half of it fixed, half random."""
        return min(self._max_backoff, self._min_backoff * 2 ** min(self._failures - 1, 20)) * (0.5 + random.random() / 2)

    def _drain(self):
        restarts = 0
        while self._unsent() and self._now() >= self._not_before:
            refusal = self._send_one()
            if refusal is None:
                self._failures = 0
                continue
            self._restart(refusal)
            restarts += 1
            if restarts > 1:
                _fail("NODE_REFUSES", "the node refuses every new stream")

    def _send_one(self):
        """Delivers one batch. Returns the error that ends the stream, if one does; raises where trying again later may help."""
        with self._state:
            self._carry()  # where a full disk had stopped it
            cur = self._current
        if not cur.batches or cur.batches[-1]["receipt"]:
            ahead = None if cur.checked else self._node_ahead(cur)
            if ahead:
                return ahead
            cur.checked = True
            self._sign(cur)
        with self._state:
            self._journal.sync()  # the batch and its steps, before the first byte leaves
        batch = cur.batches[-1]
        body = canonical_json({k: batch[k] for k in ("header", "scheme", "signature")})
        status, answer = self._request("POST", "/v1/flight/batches", body)
        error = answer.get("error") or {}
        if status == 409 and error.get("code") == "EQUIVOCATION":
            refusal = FlightError("EQUIVOCATION", f"the node holds another history of stream {cur.name}")
            refusal.evidence = (error.get("details") or {}).get("evidence")
            return refusal
        if status not in (200, 201):
            self._refused(status, error)
        signer = verify_receipt(answer)
        if answer["batchId"] != batch_id(batch["header"]):
            if answer.get("duplicate") is True:  # an old copy of this journal sent it
                return FlightError("NODE_AHEAD", f"the node holds batch {batch['header']['index']} of stream {cur.name} under another signature")
            _fail("RECEIPT", f"the receipt from {self._node} is of another batch")
        if self.node_address and signer != self.node_address:
            by = "node_address" if self._node_address else f"the receipts in {self._place()}"
            _fail("RECEIPT", f"the receipt from {self._node} is signed by {signer}, but {by} pins the node's key to {self.node_address}; it does not count, and the "
                             f"batch is sent again. If the node's operator confirms the new key, or you changed nodes, pass node_address={signer!r}; if not, somebody else answers in the node's place")  # fmt: skip
        with self._state:
            receipt = {k: answer[k] for k in ("batchId", "position", "receivedAt", "anchorBy", "node", "signature", "group") if k in answer}
            self._write({"type": "receipt", "index": batch["header"]["index"], "receipt": receipt})
        return None

    def _refused(self, status, error):
        if error.get("code"):
            _fail(error["code"], f"the node at {self._node} answers {status}: {error.get('message')}")
        _fail("HTTP", f"{self._node} answers {status}, which is no answer of a Karatum node; is the URL right?")

    def _node_ahead(self, cur):
        """After each open, before the first signature: does the node know more of this stream than the journal?"""
        status, answer = self._request("GET", f"/v1/flight/agents/{self.address}/streams/{urllib.parse.quote(cur.name, safe='')}")
        error = answer.get("error") or {}
        if status != 200 and (status, error.get("code")) != (404, "UNKNOWN_STREAM"):
            self._refused(status, error)
        head = answer.get("head") if status == 200 else None
        if cur.delivered and (not head or head["toSeq"] + 1 < cur.delivered):
            self._report(FlightError("NODE_BEHIND", f"the node at {self._node} lacks batches of stream {cur.name} that it had acknowledged; "
                                                    f"to deliver them again: karatum journal send {self._place()} --node {self._node}"))  # fmt: skip
        if not head:
            return None
        ours = cur.batches[head["index"]]["header"] if head["index"] < len(cur.batches) else {}
        if ours.get("head") == head["head"] and ours.get("toSeq") == head["toSeq"]:
            return None
        return FlightError("NODE_AHEAD", f"the node knows batch {head['index']} of stream {cur.name}, the journal does not: an old copy, or a lost tail")

    def _sign(self, cur):
        with self._state:
            start = cur.signed
            hashes = cur.hashes[start : start + self._max_steps]
            header = {"agent": self.address, "stream": cur.name, "index": len(cur.batches), "fromSeq": start, "toSeq": start + len(hashes) - 1, "prevHead": cur.last(start)}
        header.update(head=hashes[-1], root=merkle_root(hashes), createdAt=int(self._now()))
        signature = decode_signature(self._sign_header(check_header(header), self._scheme))[3]
        if batch_signer({"header": header, "scheme": self._scheme, "signature": signature}) != self.address:
            _fail("SIGNER", "the signer signed with another key or another domain")
        with self._state:
            self._write({"type": "batch", "header": header, "scheme": self._scheme, "signature": signature})

    def _request(self, method, path, body=None):
        headers = {"content-type": "application/json"} if body else {}
        request = urllib.request.Request(self._node + path, body.encode() if body else None, headers, method=method)
        try:
            try:
                answer = _OPENER.open(request, timeout=self._timeout)
            except urllib.error.HTTPError as e:
                answer = e
            with answer:
                data, status, wait = answer.read(_ANSWER_BYTES + 1), answer.status, answer.headers.get("retry-after")
        except (OSError, http.client.HTTPException) as e:
            why = getattr(e, "reason", None) or str(e) or type(e).__name__
            _fail("NETWORK", f"{self._node} cannot be reached ({why}); the steps wait in the journal and are sent later")
        if len(data) > _ANSWER_BYTES:
            _fail("HTTP", f"the answer of {self._node} is too long")
        if wait and status >= 400:
            self._not_before = self._now() + min(max(self._seconds(wait), 0.0), _DAY)
        try:
            v = parse(data, _DOCUMENT_DEPTH)
        except FlightError:
            v = None
        if not isinstance(v, dict):
            v = {} if status >= 400 else _fail("HTTP", f"{self._node} answers {status} without JSON, which is no answer of a Karatum node; is the URL right?")
        return status, v

    def _seconds(self, wait):
        """A Retry-After header, of either form, as seconds from now."""
        if wait.isascii() and wait.isdigit():
            return float(wait)
        try:
            return email.utils.parsedate_to_datetime(wait).timestamp() - self._now()
        except (TypeError, ValueError):
            return 0.0

    def disclose(self, seq, reveal=(), stream=None):
        """Opens fields of one recorded step: the bundle that verify_disclosure checks. Raises where the step is not signed yet or not retained."""
        with self._state:
            cur = self._streams.get(stream or self.stream) or _fail("NOT_FOUND", "the journal has no such stream", "stream")
            batch = next((b for b in cur.batches if b["header"]["fromSeq"] <= seq <= b["header"]["toSeq"]), None) or _fail("NOT_SIGNED", f"step {seq} is in no signed batch yet", "seq")
            entry, h = self._entry(cur.refs[seq]), batch["header"]
            openings, hashes = entry.get("openings", {}), cur.hashes[h["fromSeq"] : h["toSeq"] + 1]
        opened = {f: openings[f] if f in openings else _fail("NOT_RETAINED", "the journal does not hold this field", f) for f in reveal}
        return {"step": entry["step"], "reveal": opened, "proof": merkle_proof(hashes, seq - h["fromSeq"]), "batch": {k: batch[k] for k in ("header", "scheme", "signature")}}

    def close(self):
        """Delivers what it can and closes the journal."""
        if self._closed or os.getpid() != self._pid:  # or of the process that this one was forked from
            return {"ok": not self._unsent(), "waiting": self.waiting}
        out = self.flush()
        with self._state:
            self._closed = True
            self._state.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        try:
            with self._sending, self._state:
                self._journal.close()
        except OSError as e:
            self._report(e)
        return out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# ==== Part 3: the command line


class _Conformance:
    """Compares every value of a vector file's canonicalJson and flight with what this file computes."""

    def __init__(self, vectors, out):
        self.vectors, self.f, self.out, self.passed, self.failed, self.covered = vectors, vectors["flight"], out, 0, 0, {"privateKey", "stream"}

    def check(self, path, got, want):
        g, w = canonical_json(got), canonical_json(want)
        if g == w:
            self.passed += 1
        else:
            self.failed += 1
            self.out(f"{path}\n  got  {g}\n  want {w}")

    @staticmethod
    def attempt(run, *args):
        try:
            return run(*args)
        except FlightError as e:
            return e.code

    def each(self, name):
        self.covered.add(name)
        return [(v, f"flight.{name}[{i}]") for i, v in enumerate(self.f[name])]

    def batch(self, b, p):
        self.check(f"{p}.batchId", batch_id(b["header"]), b["batchId"])
        self.check(f"{p}.eip191Text", batch_text(b["header"]), b["eip191Text"])
        for scheme, signature in b["signatures"].items():
            self.check(f"{p}.signatures.{scheme}", sign_digest(self.f["privateKey"], batch_digest(b["header"], scheme)), signature)
            signed = {"header": b["header"], "scheme": scheme, "signature": signature}
            self.check(f"{p}.signatures.{scheme} signer", self.attempt(batch_signer, signed), b["header"]["agent"])

    def canonical_json(self):
        cases, errors = self.vectors["canonicalJson"]["cases"], self.vectors["canonicalJson"]["errors"]
        for i, c in enumerate(cases):
            self.check(f"canonicalJson.cases[{i}].canonical", self.attempt(lambda: canonical_json(parse(c["raw"]))), c["canonical"])
            self.check(f"canonicalJson.cases[{i}].keccak", _keccak(c["canonical"]), c["keccak"])
        for i, c in enumerate(errors):
            got = self.attempt(lambda: canonical_json(parse(unhex(c["rawHex"]) if "rawHex" in c else c["raw"])))
            self.check(f"canonicalJson.errors[{i}].code", got, c["code"])

    def steps(self):
        f = self.f
        self.covered.add("agent")
        self.check("flight.agent", address_of_key(f["privateKey"]), f["agent"])
        for c, p in self.each("commits"):
            self.check(f"{p}.canonical", self.attempt(lambda: canonical_json(parse(c["raw"]))), c["canonical"])
            self.check(f"{p}.commitment", self.attempt(lambda: commit(parse(c["raw"]), c["salt"])), c["commitment"])
        for c, p in self.each("claims"):
            self.check(p, self.attempt(check_claim, c), True)
        for s, p in self.each("steps"):
            self.check(f"{p}.step.stream", s["step"]["stream"], f["stream"])
            self.check(f"{p}.canonical", self.attempt(lambda: canonical_json(check_step(s["step"]))), s["canonical"])
            self.check(f"{p}.stepHash", step_hash(s["step"]), s["stepHash"])
            self.check(f"{p}.leaf", leaf_hash(s["stepHash"]), s["leaf"])
            for field, o in s["openings"].items():
                self.check(f"{p}.openings.{field}", self.attempt(commit, o["value"], o["salt"]), s["step"][field])

    def batches(self):
        f = self.f
        for b, p in self.each("batches"):
            self.batch(b, p)
            h = b["header"]
            hashes = [s["stepHash"] for s in f["steps"][h["fromSeq"] : h["toSeq"] + 1]]
            self.check(f"{p}.header.root", merkle_root(hashes), h["root"])
            self.check(f"{p}.header.head", hashes[-1], h["head"])
            self.check(f"{p}.header.prevHead", f["steps"][h["fromSeq"]]["step"]["prev"], h["prevHead"])
            self.check(f"{p}.header", self.attempt(check_header, h), h)
        self.covered.add("signatureForms")
        forms = f["signatureForms"]
        for kind in ("accept", "reject"):
            for i, s in enumerate(forms[kind]):
                got = self.attempt(batch_signer, {"header": forms["header"], "scheme": "eip712", "signature": s["signature"]})
                self.check(f"flight.signatureForms.{kind}[{i}]", got, forms["header"]["agent"] if kind == "accept" else "SIGNATURE")
                if kind == "accept":
                    self.check(f"flight.signatureForms.accept[{i}] kept form", decode_signature(s["signature"])[3], forms["accept"][0]["signature"])

    def judgements(self):
        def statement(b):
            return {"header": b["header"], "scheme": "eip712", "signature": b["signatures"]["eip712"]}

        for e, p in self.each("equivocations"):
            self.batch(e["a"], f"{p}.a")
            self.batch(e["b"], f"{p}.b")
            self.check(f"{p}.reason", conflict(e["a"]["header"], e["b"]["header"]), e["reason"])
            self.check(f"{p} swapped", conflict(e["b"]["header"], e["a"]["header"]), e["reason"])
            evidence = {"type": "karatum.equivocation.v1", "reason": e["reason"], "a": statement(e["a"]), "b": statement(e["b"])}
            self.check(f"{p} as evidence", verify_equivocation(evidence)["ok"], True)
        for e, p in self.each("notEquivocations"):
            self.batch(e["a"], f"{p}.a")
            self.batch(e["b"], f"{p}.b")
            self.check(p, conflict(e["a"]["header"], e["b"]["header"]), None)
        for e, p in self.each("impossible"):
            field = None
            try:
                check_header(e["header"])
            except FlightError as err:
                field = err.field
            self.check(f"{p}.field", field, e["field"])
        self.covered.add("brokenChain")
        self.check("flight.brokenChain", verify_equivocation(self.f["brokenChain"])["ok"], True)
        for d, p in self.each("disclosures"):
            self.check(p, verify_disclosure(d)["code"], None)
        for t, p in self.each("tampered"):
            self.check(f"{p} {t['why']}", verify_disclosure(t["disclosure"])["code"], t["code"])

    def receipts(self):
        r, g = self.f["receipt"], self.f["receiptGroup"]
        self.covered |= {"receipt", "receiptGroup"}
        v = dict(line.split(": ") for line in r["text"].split("\n")[1:])
        v = {k: x if k == "batchId" else int(x) for k, x in v.items()}
        self.check("flight.receipt.text", receipt_text(v), r["text"])
        self.check("flight.receipt.node", address_of_key(r["nodeKey"]), r["node"])
        self.check("flight.receipt.signature", sign_digest(r["nodeKey"], text_digest(r["text"])), r["signature"])
        self.check("flight.receipt", self.attempt(verify_receipt, {**v, "node": r["node"], "signature": r["signature"]}), r["node"])
        self.check("flight.receiptGroup.items", [_keccak(t) for t in g["texts"]], g["items"])
        self.check("flight.receiptGroup.root", merkle_root(g["items"]), g["root"])
        self.check("flight.receiptGroup.proofs", [merkle_proof(g["items"], i) for i in range(len(g["items"]))], g["proofs"])
        self.check("flight.receiptGroup.text", receipt_group_text({"root": g["root"], "size": len(g["items"])}), g["text"])
        self.check("flight.receiptGroup.signature", self.attempt(recover, text_digest(g["text"]), g["signature"]), r["node"])

    def trees(self):
        for t, p in self.each("merkle"):
            self.check(f"{p}.root", merkle_root(t["items"]), t["root"])
            for i, proof in enumerate(t["proofs"]):
                self.check(f"{p}.proofs[{i}]", merkle_proof(t["items"], proof["index"]), proof)
                folded = self.attempt(lambda: fold_proof(t["items"][proof["index"]], proof["index"], proof["size"], proof["siblings"])[0])
                self.check(f"{p}.proofs[{i}] folded", folded, t["root"])
        self.covered.add("epoch")
        e, n = self.f["epoch"], len(self.f["epoch"]["batchIds"])
        self.check("flight.epoch.root", merkle_root(e["batchIds"]), e["root"])
        self.check("flight.epoch.proofs", [merkle_proof(e["batchIds"], i) for i in range(n)], e["proofs"])
        self.check("flight.epoch.schema", SCHEMA, e["schema"])
        self.check("flight.epoch.schemaUid", SCHEMA_UID, e["schemaUid"])
        self.check("flight.epoch.attestationData", attestation_data(e["root"], n), e["attestationData"])
        self.check("flight.epoch.attestCalldata", attest_calldata(e["root"], n), e["attestCalldata"])
        for i, proof in enumerate(e["proofs"]):
            anchoring = {"batchId": e["batchIds"][i], "epoch": {"root": e["root"], "batchCount": n}, "proof": proof, "anchor": None}
            self.check(f"flight.epoch.proofs[{i}] verified", verify_epoch_proof(anchoring)["ok"], True)
        for r, p in self.each("ratings"):
            self.check(p, rating(r["confirmed"], r["contradicted"]), r["rating"])


def conformance(vectors, out=print):
    """Runs every vector under canonicalJson and flight: {passed, failed, notCovered}."""
    c = _Conformance(vectors, out)
    for part in (c.canonical_json, c.steps, c.batches, c.judgements, c.receipts, c.trees):
        part()
    c.check("spec", _SPEC, vectors["spec"])
    not_covered = [f"flight.{k}" for k in c.f if k not in c.covered] + [k for k in vectors if k not in ("note", "spec", "canonicalJson", "flight")]
    for name in not_covered:
        out(f"not covered: {name}")
    out(f"{c.passed} passed, {c.failed} failed")
    return {"passed": c.passed, "failed": c.failed, "notCovered": not_covered}


def verify(data, rpc=None, attester=None):
    """Verifies whatever the document is: disclosure, alone or joined with the proof of its batch as {disclosure, proof},
    equivocation, or the anchoring of a batch."""
    try:
        v = _read(data)
    except FlightError as e:
        return _refused(e)
    if isinstance(v, dict) and "disclosure" in v:
        return verify_disclosure(v["disclosure"], anchoring=(v["proof"] or {}) if "proof" in v else None, rpc=rpc, attester=attester)
    if isinstance(v, dict) and "type" in v:
        return verify_equivocation(v)
    if isinstance(v, dict) and "epoch" in v:
        return verify_anchor(v, rpc, attester) if rpc else verify_epoch_proof(v)
    return verify_disclosure(v, rpc=rpc, attester=attester)


_MARK = {"pass": "ok  ", "fail": "FAIL", "skip": "-   ", "partial": "?   "}


def main(argv):
    command, file, rest, flags = (argv + [None, None])[0], (argv + [None, None])[1], argv[2:], {}
    while len(rest) >= 2 and rest[0] in ("--rpc", "--attester"):
        flags[rest[0][2:]], rest = rest[1], rest[2:]
    if command not in ("conformance", "verify") or not file or rest:
        print("usage: karatum_flight.py verify FILE [--rpc URL] [--attester ADDRESS]\n       karatum_flight.py conformance VECTORS", file=sys.stderr)
        return 2
    with open(file, "rb") as f:
        data = f.read()
    if command == "conformance":
        return 1 if conformance(parse(data, _DOCUMENT_DEPTH))["failed"] else 0
    result = verify(data, **flags)
    for row in result["rows"]:
        print(f"{_MARK[row['state']]} {row['id']:<14}{row['why'] or row.get('got') or ''}")
    if result["ok"]:
        print("all checks passed" if result["complete"] else "no check failed; not every check could run")
        return 0
    print(f"refused: {result['code']}: {result.get('why') or next(r['why'] for r in result['rows'] if r['state'] == 'fail')}")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, FlightError) as e:
        print(f"karatum_flight: {e}", file=sys.stderr)
        sys.exit(2)
