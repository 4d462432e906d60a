"""Whatever Codex prints, the translators answer with observations: nothing raises, and a turn ends once."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.observations import Observation, ToolCalled, ToolReturned, TurnEnded, agent_event
from interlock.agents.processes.lines import Line, LineSplitter, object_on
from interlock.agents.streams.codex.app_server_messages import CodexThread
from interlock.agents.streams.codex.exec_lines import CodexLines
from interlock.agents.streams.jsonrpc import Answered, Incoming, JsonRpcPeer, Unread
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import inner
from tests.agents.streams.codex_recordings import APP_SERVER, EXEC, lines_of

EXEC_LINES = [line for path in EXEC for line in lines_of(path)]
SERVER_LINES = [
    json.dumps(row["msg"]).encode()
    for path in APP_SERVER
    for row in map(json.loads, lines_of(path))
    if row["dir"] == "<-"
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@st.composite
def changed(draw: st.DrawFn, lines: list[bytes]) -> bytes:
    """A recorded line: as it is, with a value anywhere in it replaced or left out, with bytes changed, or cut."""
    line = draw(st.sampled_from(lines))
    match draw(st.integers(0, 4)):
        case 0:
            return line
        case 1:
            return json.dumps(_replaced(draw, json.loads(line))).encode()
        case 2:
            at = draw(st.integers(0, len(line)))
            return line[:at] + draw(st.binary(max_size=4)).replace(b"\n", b"") + line[at + 1 :]
        case 3:
            return line[: draw(st.integers(0, len(line)))]
        case _:
            return draw(st.binary(max_size=40)).replace(b"\n", b"")


def _replaced(draw: st.DrawFn, value: Json) -> Json:
    if not value or draw(st.integers(0, 3)) == 0:
        return draw(JSON)
    if not isinstance(value, dict | list):
        return draw(SCALARS)
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _replaced(draw, value[at]), *value[at + 1 :]]
    name = draw(st.sampled_from(sorted(value)))
    if draw(st.booleans()):
        return {other: kept for other, kept in value.items() if other != name}
    return {**value, name: _replaced(draw, value[name])}


def check(seen: list[Observation]) -> None:
    """What holds for any stream: the process machine knows each observation, and each result has its call."""
    open_calls: set[str] = set()
    for one in seen:
        agent_event(one)
        if isinstance(one, ToolCalled):
            open_calls.add(one.call_id)
        if isinstance(one, ToolReturned):
            assert one.call_id in open_calls
            open_calls.remove(one.call_id)


@given(st.lists(changed(EXEC_LINES), max_size=30), st.booleans())
def test_exec_never_raises_and_ends_its_turn_once(lines: list[bytes], is_resumed: bool) -> None:
    parser = CodexLines(resume="session" if is_resumed else "")
    seen = [one for line in lines for one in parser.read(Line(line))] + parser.ended()
    check(seen)
    assert len([one for one in seen if isinstance(one, TurnEnded)]) == 1


def _as_answered(message: Incoming, method: str) -> Incoming:
    """An answer to nothing, taken for one to a request of ours."""
    said = object_on(message.line) if isinstance(message, Unread) else None
    return Answered(method, inner(said, "result")) if said else message


@given(st.lists(changed(SERVER_LINES), max_size=30), st.sampled_from(["thread/start", "thread/resume", "turn/start"]))
def test_the_app_server_never_raises_and_ends_a_turn_only_if_one_was_open(lines: list[bytes], method: str) -> None:
    async def unused(data: bytes) -> None:
        raise AssertionError(data)

    peer, thread, seen = JsonRpcPeer(unused), CodexThread(), list[Observation]()
    thread.id = json.loads(SERVER_LINES[-1])["params"]["threadId"]
    thread.prompt_sent()
    for line in lines:
        was_open = bool(thread.turn_id)
        told = thread.read(_as_answered(peer.take(Line(line)), method), line)
        endings = [one for one in told if isinstance(one, TurnEnded)]
        assert len(endings) <= (1 if was_open else 0)
        seen += told
    check([*seen, *thread.ended()])
    assert thread.ended() == []


@given(st.lists(st.sampled_from(EXEC_LINES), max_size=8), st.lists(st.integers(0, 400), max_size=20))
def test_cuts_between_the_bytes_change_nothing(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    splitter = LineSplitter()
    split = [line for start, end in pairwise(edges) for line in splitter.feed(data[start:end])]
    one, other = CodexLines(), CodexLines()
    assert [one.read(line) for line in split] == [other.read(Line(line)) for line in lines]
