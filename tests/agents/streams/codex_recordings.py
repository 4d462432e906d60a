"""Recorded Codex sessions, played to the translators, and their observations as lines that can be compared."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

import msgspec

from interlock.agents.observations import Observation, Traced
from interlock.agents.port import Decision
from interlock.agents.processes.lines import Line
from interlock.agents.streams.codex.app_server_messages import CodexThread
from interlock.agents.streams.codex.exec_lines import CodexLines
from interlock.agents.streams.jsonrpc import Answered, Incoming, Notified, PeerRefused, RpcRequest
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import Fields, inner, text

RECORDINGS: Final = Path(__file__).parents[2] / "recordings" / "streams" / "codex"
EXEC: Final = sorted((RECORDINGS / "exec").glob("*.ndjson.gz"))
APP_SERVER: Final = sorted((RECORDINGS / "app_server").glob("*.ndjson.gz"))


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def play_exec(path: Path, resume: str = "") -> list[Observation]:
    """Everything that a run of exec tells, to its end."""
    parser = CodexLines(resume=resume)
    return [seen for line in lines_of(path) for seen in parser.read(Line(line))] + parser.ended()


def play_app_server(path: Path) -> list[Observation]:
    """Everything that a recorded session tells. What the client said back then is said again."""
    thread, asked, told = CodexThread(), dict[str, str](), list[Observation]()
    for row in map(json.loads, lines_of(path)):
        message, raw = row["msg"], json.dumps(row["msg"]).encode()
        if row["dir"] == "<-":
            told += thread.read(_incoming(message, asked), raw)
        elif "method" in message:
            asked[str(message.get("id"))] = message["method"]
            if message["method"] == "turn/start":
                thread.prompt_sent()
        else:
            _say_again(thread, message)
    return told + thread.ended()


def _incoming(message: Fields, asked: dict[str, str]) -> Incoming:
    method, peer_id = text(message, "method"), message.get("id")
    if not method:
        ours = asked[str(peer_id)]
        if "error" in message:
            return PeerRefused(ours, text(inner(message, "error"), "message"))
        return Answered(ours, inner(message, "result"))
    if isinstance(peer_id, int):
        return RpcRequest(peer_id, method, inner(message, "params"))
    return Notified(method, inner(message, "params"))


def _say_again(thread: CodexThread, message: Fields) -> None:
    decision = text(inner(message, "result"), "decision")
    option = decision if decision == "cancel" else ""
    again = Decision(request_id=str(message["id"]), is_allowed=decision == "accept", option_id=option)
    assert thread.reply(again) == (message["id"], message["result"])


def shown(seen: list[Observation]) -> str:
    """One line an observation: its kind, and the fields that it has. Of a trace only what it is about."""
    return "".join(f"{line}\n" for line in _shown(seen))


def _shown(seen: list[Observation]) -> Iterator[str]:
    for one in seen:
        if isinstance(one, Traced):
            yield f"Traced {_about(one.raw)}"
            continue
        values = {
            field.name: msgspec.to_builtins(getattr(one, field.name))
            for field in fields(one)
            if field.default is MISSING or getattr(one, field.name) != field.default
        }
        yield " ".join([type(one).__name__, *(f"{name}={_json(value)}" for name, value in values.items())])


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _about(raw: str) -> str:
    try:
        said = json.loads(raw)
    except ValueError:
        return raw[:60]
    return str(said.get("method") or said.get("type") or "an answer")
