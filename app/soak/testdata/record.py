# Records with the Python SDK as a stranger would: fetched from the node.
import importlib.util
import json
import os
import sys
import urllib.request

node, directory, scheme, sdk_file = sys.argv[1:]
with urllib.request.urlopen(f"{node}/sdk/karatum_flight.py") as answer, open(sdk_file, "wb") as out:
    out.write(answer.read())
spec = importlib.util.spec_from_file_location("karatum_flight", sdk_file)
k = importlib.util.module_from_spec(spec)
sys.modules["karatum_flight"] = k
spec.loader.exec_module(k)

errors = []
with k.Recorder(node, os.environ["AGENT_KEY"], scheme=scheme, name="py", journal=k.FileJournal(os.path.join(directory, "py.jsonl")),
                on_error=lambda e: errors.append(f"{e.code}: {e}")) as recorder:
    for i in range(40):
        recorder.record({"kind": "tool", "name": "count", "args": {"i": i, "text": "é\u2028"}, "result": i / 3})
        if i % 10 == 9:
            recorder.flush()
    disclosure = recorder.disclose(seq=7, reveal=["args", "result"])
print(json.dumps({"agent": recorder.address, "stream": recorder.stream, "waiting": recorder.waiting, "errors": errors, "disclosure": disclosure}))
