"""Half a character, as programs in JavaScript print it, costs no driver and no transcript the answer around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from interlock.agents.evidence.claude_transcript import ClaudeTranscript
from interlock.agents.evidence.codex_transcript import CodexTranscript
from interlock.agents.evidence.hooks import read_line
from interlock.agents.observations import MessageEnded, TextArrived
from interlock.agents.processes.lines import Line
from interlock.agents.streams.claude.lines import ClaudeLines
from interlock.agents.streams.codex.app_server_messages import CodexThread
from interlock.agents.streams.codex.exec_lines import CodexLines
from interlock.agents.streams.jsonrpc import JsonRpcPeer
from interlock.monitor.sources.claude_status import FileRead, read_claude_status
from tests.agents.streams import claude_recordings
from tests.properties.test_codex_lines_properties import EXEC_LINES, SERVER_LINES
from tests.properties.test_other_lines_properties import PARSERS, seeds

TRANSCRIPTS: Final = Path(__file__).parents[1] / "recordings" / "transcripts"
_ACP: Final = (
    b'{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": '
    b'{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "It said hello."}}}}'
)
Read = Callable[[list[bytes]], list[object]]


def _codex_exec(lines: list[bytes]) -> list[object]:
    parser = CodexLines()
    return [seen for line in lines for seen in parser.read(Line(line))]


def _codex_app_server(lines: list[bytes]) -> list[object]:
    async def unused(data: bytes) -> None:
        raise AssertionError(data)

    peer, thread = JsonRpcPeer(unused), CodexThread()
    thread.id = json.loads(SERVER_LINES[-1])["params"]["threadId"]
    thread.prompt_sent()
    return [seen for line in lines for seen in thread.read(peer.take(Line(line)), line)]


def _fed(make: Callable[[], Callable[[bytes], list[object]]]) -> Read:
    def read(lines: list[bytes]) -> list[object]:
        feed = make()
        return [seen for line in lines for seen in feed(line)]

    return read


def _claude() -> Callable[[bytes], list[object]]:
    reader = ClaudeLines()
    reader.prompt_written("")
    return lambda line: list(reader.feed(line))


def _of(name: str) -> Callable[[], Callable[[bytes], list[object]]]:
    def make() -> Callable[[bytes], list[object]]:
        feed = PARSERS[name]()
        return lambda line: list(feed(line))

    return make


def _transcript(name: str) -> list[bytes]:
    return next(iter(sorted(TRANSCRIPTS.glob(f"{name}*.jsonl")))).read_bytes().splitlines()


def _recorded(name: str) -> Callable[[], list[bytes]]:
    return lambda: [_ACP] if name == "acp" else list(seeds(name))


def _of_claude() -> list[bytes]:
    return [line for name in claude_recordings.NAMES for line in claude_recordings.lines_of(name)]


def _parsed_by(kind: type[ClaudeTranscript | CodexTranscript]) -> Read:
    def read(lines: list[bytes]) -> list[object]:
        parser = kind()
        return [seen for line in lines for seen in parser.feed(line)]

    return read


DOORS: Final[dict[str, tuple[Read, Callable[[], list[bytes]]]]] = {
    "claude": (_fed(_claude), _of_claude),
    "codex exec": (_codex_exec, lambda: EXEC_LINES),
    "codex app-server": (_codex_app_server, lambda: SERVER_LINES),
    **{name: (_fed(_of(name)), _recorded(name)) for name in PARSERS},
    "transcript of claude": (_parsed_by(ClaudeTranscript), lambda: _transcript("claude")),
    "transcript of codex": (_parsed_by(CodexTranscript), lambda: _transcript("codex")),
}


def _texts(seen: list[object]) -> list[str]:
    return [one.text for one in seen if isinstance(one, TextArrived | MessageEnded)]


@pytest.mark.parametrize("door", DOORS)
def test_an_answer_with_half_a_character_survives(door: str) -> None:
    read, recorded = DOORS[door]
    lines = recorded()
    words = (word for text in _texts(read(lines)) for word in re.findall(r"[A-Za-z]{3,}", text))
    word = next(one for one in words if any(one.encode() in line for line in lines))
    spoilt = [line.replace(word.encode(), rf"{word}\ud83d".encode()) for line in lines]
    assert any(f"{word}\ufffd" in text for text in _texts(read(spoilt)))


def test_a_hook_with_half_a_character_is_heard() -> None:
    line = rb'{"payload": {"prompt": "half \ud83d"}, "spawn_id": "spn_1"}'
    heard = read_line(line, at_seconds=1.0, unix_seconds=1.0)
    assert heard is not None
    assert heard.payload == {"prompt": "half \ufffd"}


def test_a_status_with_half_a_character_is_read() -> None:
    line = rb'{"status": "busy", "updatedAt": 1000, "waitingFor": "\ud83d"}'
    assert read_claude_status(line, FileRead(1.0, 2.0, 1.0, "f")).claims
