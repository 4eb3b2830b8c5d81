"""Answers each line of standard input with one line, computed by karatum_flight.py. Arguments are 0x hex, split by spaces."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import karatum_flight as k


def attempt(run):
    try:
        return run()
    except k.FlightError as e:
        return f"error {e.code}"


def disclosure(text):
    v = k.verify_disclosure(k.unhex(text))
    return v["code"] or f"ok {v['stepHash']} {v['batchId']}"


def rows(v):
    return " ".join(f"{r['id']}:{r['state']}" for r in v["rows"])


def anchor(text, rpc, attester):
    v = k.verify_anchor(k.unhex(text), None if rpc == "-" else rpc, None if attester == "-" else attester)
    return f"{('complete' if v['complete'] else 'ok') if v['ok'] else v['code']} {rows(v)}".strip()


def header(text):
    try:
        k.check_header(k.parse(k.unhex(text)))
        return "ok"
    except k.FlightError as e:
        return e.field or e.code


OPS = {
    "canonical": lambda text: attempt(lambda: k.to_hex(k.canonical_json(k.parse(k.unhex(text))).encode())),
    "keccak": lambda data: k.to_hex(k.keccak256(k.unhex(data))),
    "recover": lambda digest, signature: attempt(lambda: k.recover(k.unhex(digest), k.unhex(signature))),
    "sign": lambda key, digest: k.sign_digest(key, k.unhex(digest)),
    "disclosure": disclosure,
    "evidence": lambda text: k.verify_equivocation(k.unhex(text))["code"] or "ok",
    "rows": lambda text: rows(k.verify(k.unhex(text))),
    "anchor": anchor,
    "header": header,
}

for line in sys.stdin:
    print(OPS[sys.argv[1]](*line.split()))
