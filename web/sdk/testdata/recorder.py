"""Drives karatum_flight.py: one command a line in, {result, errors} a line out."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import karatum_flight as k

recorder, clock, errors = None, None, []


def told(e):
    errors.append(" ".join([e.code, e.field or "", "evidence" if getattr(e, "evidence", None) else ""]).strip())


def open_(journal=None, fsync=None, clock=None, intervalMs=120000, retainPlaintext=True, maxSteps=65536, nodeAddress=None, **options):
    global recorder
    set_clock(clock)
    if journal:
        options["journal"] = k.FileJournal(journal, fsync or "interval")
    options.update(interval=intervalMs / 1000, retain_plaintext=retainPlaintext, max_steps=maxSteps, node_address=nodeAddress, on_error=told)
    recorder = k.Recorder(now=lambda: time.time() if globals()["clock"] is None else globals()["clock"] / 1000, **options)
    return {"address": recorder.address, "stream": recorder.stream, "waiting": recorder.waiting}


def set_clock(ms):
    globals()["clock"] = ms


def record_unusable():
    cycle = []
    cycle.append(cycle)
    return recorder.record(args={"big": 2**60 + 1}, result={"cycle": cycle}, claim=7, name="", txHash="0x1", at=1760000000000)


COMMANDS = {
    "open": open_,
    "clock": lambda ms: set_clock(ms),
    "record": lambda step: recorder.record(step),
    "recordUnusable": record_unusable,
    "flush": lambda: recorder.flush(),
    "disclose": lambda **request: recorder.disclose(**request),
    "status": lambda: {"stream": recorder.stream, "waiting": recorder.waiting},
    "close": lambda: recorder.close(),
}

for line in sys.stdin:
    command = json.loads(line)
    try:
        result = COMMANDS[command.pop("do")](**command)
    except k.FlightError as e:
        result = {"thrown": e.code}
    print(json.dumps({"result": result, "errors": errors}), flush=True)
    errors.clear()
