"""Drives karatum_flight.py: one command a line in, {result, errors} a line out."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import karatum_flight as k
import accounts

recorder, clock, errors, messages = None, None, [], []


def told(e):
    messages.append(str(e))
    errors.append(" ".join([e.code, e.field or "", "evidence" if getattr(e, "evidence", None) else ""]).strip())


def open_(journal=None, fsync=None, account=None, clock=None, intervalMs=120000, retainPlaintext=True, maxSteps=65536, nodeAddress=None, **options):
    global recorder
    set_clock(clock)
    if journal:
        options["journal"] = k.FileJournal(journal, fsync or "interval")
    if account:
        options["signer"] = accounts.KINDS[account](options["signer"])
    options.update(interval=intervalMs / 1000, retain_plaintext=retainPlaintext, max_steps=maxSteps, node_address=nodeAddress, on_error=told)
    recorder = k.Recorder(now=lambda: time.time() if globals()["clock"] is None else globals()["clock"] / 1000, **options)
    return {"address": recorder.address, "stream": recorder.stream, "waiting": recorder.waiting}


def set_clock(ms):
    globals()["clock"] = ms


def record_unusable():
    cycle = []
    cycle.append(cycle)
    return recorder.record(args={"big": 2**60 + 1}, result={"cycle": cycle}, claim=7, name="", txHash="0x1", at=1760000000000)


def interrupt(step, where, at):
    """Ctrl-C comes while a line is written: at the at-th call of the journal's or the recorder's own method."""
    owner = recorder._journal if where == "append" else recorder
    name, real, calls = where, getattr(owner, where), []

    def method(*args):
        calls.append(args)
        if len(calls) == at:
            raise KeyboardInterrupt
        out = real(*args)
        if len(calls) == -at:
            raise KeyboardInterrupt
        return out

    setattr(owner, name, method)
    try:
        recorder.record(step)
        return "recorded"
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        setattr(owner, name, real)


def fork(step):
    """What a forked process gets from its parent's recorder, while a thread of the parent may hold any lock."""
    out, into = os.pipe()
    with recorder._state, recorder._sending:
        pid = os.fork()
        if pid == 0:
            got = [recorder.record(step), recorder.flush()["ok"], recorder.close()["ok"], errors]
            os.write(into, json.dumps(got).encode())
            os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(os.read(out, 1 << 16))


COMMANDS = {
    "interrupt": interrupt,
    "fork": fork,
    "open": open_,
    "clock": lambda ms: set_clock(ms),
    "record": lambda step: recorder.record(step),
    "recordUnusable": record_unusable,
    "flush": lambda: recorder.flush(),
    "disclose": lambda **request: recorder.disclose(**request),
    "status": lambda: {"stream": recorder.stream, "waiting": recorder.waiting, "node": recorder.node_address},
    "close": lambda: recorder.close(),
}

for line in sys.stdin:
    command = json.loads(line)
    try:
        result = COMMANDS[command.pop("do")](**command)
    except k.FlightError as e:
        result = {"thrown": e.code}
    print(json.dumps({"result": result, "errors": errors, "messages": messages}), flush=True)
    errors.clear()
    messages.clear()
