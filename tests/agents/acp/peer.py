# ruff: noqa: ANN401 (JSON of a peer, built and read by hand)
"""A small ACP agent that does what its prompt says, and misbehaves on request. Run as a program; standard library only.

The word after the program says how it opens: `well`, `auth` (wants a login), `silent`, `early` (ends at once).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

FLOOD = 5000


def say(message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def raw(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def hear() -> Any:
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit(0)


def update(**fields: Any) -> None:
    say({"method": "session/update", "params": {"sessionId": "s1", "update": fields}})


def write(text: str) -> None:
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask() -> str:
    """Say that a tool runs, then ask whether it may, by its id alone and with a number that the client uses too."""
    update(sessionUpdate="tool_call", toolCallId="c1", status="in_progress", kind="execute", rawInput={"command": "ls"})
    offers = [("yes", "allow_once"), ("ever", "allow_always"), ("no", "reject_once")]
    options = [{"optionId": name, "name": name.title(), "kind": kind} for name, kind in offers]
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": options}
    say({"id": 2, "method": "session/request_permission", "params": params})
    is_cancelled = False
    while "result" not in (message := hear()):
        is_cancelled = message.get("method") == "session/cancel"
    outcome = message["result"]["outcome"]
    if is_cancelled:
        return "cancelled"
    status = "completed" if outcome.get("optionId") in ("yes", "ever") else "failed"
    content = [{"type": "content", "content": {"type": "text", "text": f"chose {outcome.get('optionId')}"}}]
    update(sessionUpdate="tool_call_update", toolCallId="c1", status=status, content=content)
    return "end_turn"


def outside() -> str:
    say({"id": "x", "method": "files/steal", "params": {}})
    say({"id": 5, "method": "fs/read_text_file", "params": {"path": "/etc/passwd", "sessionId": "s1"}})
    codes = sorted((str(answer["id"]), answer["error"]["code"]) for answer in (hear(), hear()))
    write(str(codes))
    return "end_turn"


def garbage() -> str:
    raw(b"not json\n\xff\xfe{\n[1]\n" + b'{"a":' * 3000 + b"\n")
    for answer in ([1], {"a": 1}, None, 99, "2", True):
        say({"id": answer, "result": {"stopReason": "end_turn"}})
    for wrong in (None, 7, "x", [1]):
        say({"method": "session/update", "params": wrong})
        say({"method": "session/request_permission", "params": wrong, "id": wrong})
        update(sessionUpdate=wrong, content=wrong)
        update(sessionUpdate="tool_call", toolCallId=wrong, status=wrong, rawInput=wrong)
    say({"id": 98, "error": "none"})
    write("x" * 3_000_000)
    return "end_turn"


def die() -> str:
    raw(b'{"jsonrpc": "2.0", "method": "session/upd')
    sys.stderr.write("this is the end\n")
    sys.stderr.flush()
    os._exit(3)


def wait() -> str:
    write("waiting")
    while hear().get("method") != "session/cancel":
        pass
    return "cancelled"


def flood() -> str:
    for number in range(FLOOD):
        write(f"{number} ")
    return "end_turn"


def hello() -> str:
    write("Hello ")
    write("there.")
    return "end_turn"


def prompted(rpc_id: Any, text: str) -> None:
    if text == "refuse":
        say({"id": rpc_id, "error": {"code": -32603, "message": "Internal error", "data": {"details": "no luck"}}})
        return
    if text == "odd":
        say({"id": rpc_id, "error": "none"})
        return
    acts = {"ask": ask, "outside": outside, "garbage": garbage, "die": die, "wait": wait, "flood": flood}
    say({"id": rpc_id, "result": {"stopReason": acts.get(text, hello)()}})


def opened(message: Any, how: str) -> None:
    rpc_id, session = message["id"], message["params"].get("sessionId")
    if how == "auth":
        say({"id": rpc_id, "error": {"code": -32000, "message": "Authentication required"}})
    elif message["method"] == "session/load" and session != "s1":
        say({"id": rpc_id, "error": {"code": -32002, "message": "Resource not found"}})
    else:
        is_load = message["method"] == "session/load"
        if is_load:
            write("from long ago")
        modes = {"currentModeId": "plain", "availableModes": [{"id": "plain"}, {"id": "careful"}]}
        say({"id": rpc_id, "result": {"sessionId": "s1", "modes": modes, "models": {"currentModelId": "m1"}}})
        if is_load:
            write("and this too, though late")


def main() -> None:
    how = sys.argv[1]
    if how == "early":
        sys.exit("I have no settings")
    while True:
        message = hear()
        method = message.get("method")
        if how == "silent":
            continue
        if method == "initialize":
            agent = {"agentCapabilities": {"loadSession": True}, "agentInfo": {"name": "peer", "version": "9"}}
            offered = {"authMethods": [{"id": "a", "name": "Peer login"}], **agent}
            say({"id": message["id"], "result": {"protocolVersion": 1, **offered}})
        elif method in ("session/new", "session/load"):
            opened(message, how)
        elif method == "session/prompt":
            prompted(message["id"], message["params"]["prompt"][0]["text"])
        elif "id" in message:
            say({"id": message["id"], "result": {}})


if __name__ == "__main__":
    main()
