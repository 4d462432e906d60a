"""A program that plays Claude Code's side of the pipes from a list of steps, one misbehaviour at a time.

A step is `["say", frame]`, `["raw", text]` (bytes as they are, in Latin-1), `["hear", type]` (wait for a line of that
type on standard input), `["complain", text]` (standard error), `["close"]` (standard output), `["sleep"]` (until it is
ended), `["exit", code]` or `["die"]` (by SIGKILL). `$ID` in a frame is the id of the line that was heard last. What it
heard is in `heard.ndjson` beside the program.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Final

import msgspec

from interlock.vocabulary.events.registry import Json

READY: Final[list[Json]] = [
    ["hear", "control_request"],
    ["say", {"type": "control_response", "response": {"subtype": "success", "request_id": "$ID"}}],
]

_PROGRAM: Final = """\
#!{python}
import json, os, signal, sys, time
steps, last, heard = json.loads({steps!r}), "", open({heard!r}, "ab", buffering=0)
def put(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
for name, *given in steps:
    if name == "hear":
        while True:
            line = sys.stdin.buffer.readline()
            if not line:
                sys.exit(3)
            heard.write(line)
            frame = json.loads(line)
            if frame["type"] == given[0]:
                last = frame.get("request_id") or frame.get("uuid") or ""
                break
    elif name == "say":
        put(json.dumps(given[0]).replace("$ID", last).encode() + b"\\n")
    elif name == "raw":
        put(given[0].encode("latin-1"))
    elif name == "complain":
        sys.stderr.write(given[0])
        sys.stderr.flush()
    elif name == "close":
        os.close(1)
    elif name == "sleep":
        time.sleep(60)
    elif name == "exit":
        os._exit(given[0])
    elif name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def make_fake(folder: Path, steps: list[Json]) -> Path:
    """Write the program. It ends after the last step, at the latest after a minute."""
    path = folder / "claude"
    text = msgspec.json.encode(steps).decode()
    path.write_text(_PROGRAM.format(python=sys.executable, steps=text, heard=str(folder / "heard.ndjson")))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def heard_by(folder: Path) -> list[dict[str, Json]]:
    return [msgspec.json.decode(line) for line in (folder / "heard.ndjson").read_bytes().splitlines()]
