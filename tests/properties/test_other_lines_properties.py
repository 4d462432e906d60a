"""No line of Gemini CLI, Qwen Code, pi, opencode or an ACP agent breaks its parser, however it was damaged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.acp.translate import AcpTranslator
from interlock.agents.observations import TRACE_MAX_CHARACTERS, Observation, Traced, TurnEnded, agent_event
from interlock.agents.streams.gemini import GeminiLines
from interlock.agents.streams.opencode.events import OpencodeEvents
from interlock.agents.streams.pi.lines import PiLines
from interlock.agents.streams.qwen import QwenLines
from interlock.vocabulary.events.registry import Json
from interlock.vocabulary.foreign_json import decode_object, mapping
from tests.agents.acp.golden import RECORDINGS, printed, records

MAX_LINES: Final = 12
ANY_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
Feed = Callable[[bytes], list[Observation]]


def acp() -> Feed:
    """A session in mid-turn, whose lines come from the agent."""
    translator = AcpTranslator()
    translator.session_id = "s"
    translator.sent({"id": 1, "method": "session/prompt", "params": {}})

    def feed(line: bytes) -> list[Observation]:
        message = decode_object(line)
        return [] if message is None else translator.received(message)

    return feed


def opencode() -> Feed:
    events = OpencodeEvents("ses_e1f9ab0bcffeA7YdZtGMlns2a5")
    events.begin()

    def feed(line: bytes) -> list[Observation]:
        event = decode_object(line)
        return [] if event is None else events.feed(event)

    return feed


PARSERS: Final[dict[str, Callable[[], Feed]]] = {
    "gemini": lambda: GeminiLines().feed,
    "qwen": lambda: QwenLines().feed,
    "pi": lambda: PiLines().feed,
    "opencode": opencode,
    "acp": acp,
}


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    """Lines that the program really printed, few of each kind."""
    if name == "acp":
        agents = ("gemini", "qwen", "vibe", "opencode", "claude-code-acp")
        spoken = [mapping(one["msg"]) for agent in agents for one in records(f"{agent}/acp")]
        lines = [json.dumps(_same_session(message)).encode() for message in spoken]
    elif name == "opencode":
        lines = [json.dumps(one["event"]).encode() for one in records("opencode/serve_events")]
    elif name == "qwen":
        with gzip.open(RECORDINGS / "qwen" / "dual_json.ndjson.gz", "rb") as file:
            lines = [*file.read().splitlines(), *printed("qwen/slow"), *printed("qwen/tool")]
    else:
        lines = printed({"gemini": "gemini/tool_yolo", "pi": "pi/slow"}[name])
    return tuple({line[:60] + line[-60:]: line for line in lines if len(line) < 20_000}.values())


def _same_session(message: Mapping[str, Json]) -> Json:
    params = mapping(message.get("params"))
    return {**message, "params": {**params, "sessionId": "s"}} if params else dict(message)


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A real line: as it is, cut, with other bytes in it, or with another value somewhere in it."""
    line = draw(st.sampled_from(seeds(name)))
    match draw(st.integers(0, 4)):
        case 0:
            return line
        case 1:
            return line[: draw(st.integers(0, len(line)))]
        case 2:
            at = draw(st.integers(0, len(line)))
            return line[:at] + draw(st.binary(max_size=6)) + line[at + draw(st.integers(0, 9)) :]
        case 3:
            return json.dumps(_replaced(draw, json.loads(line))).encode()
        case _:
            return json.dumps(draw(ANY_JSON)).encode()


def _replaced(draw: st.DrawFn, value: Json) -> Json:
    """The value with something else in the place of one of its leaves or branches."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: _replaced(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _replaced(draw, value[at]), *value[at + 1 :]]
    return draw(ANY_JSON)


@pytest.mark.parametrize("name", sorted(PARSERS))
@given(data=st.data())
def test_any_line_gives_observations_that_can_be_kept(name: str, data: st.DataObject) -> None:
    feed = PARSERS[name]()
    for line in data.draw(st.lists(damaged(name), max_size=MAX_LINES)):
        seen = feed(line)
        assert len(seen) < 10 + len(line)
        for one in seen:
            agent_event(one)
            str(one).encode("utf-8")  # half a character would stop the log
            assert not isinstance(one, Traced) or len(one.raw) <= TRACE_MAX_CHARACTERS


@pytest.mark.parametrize("name", ["acp", "opencode"])
@given(data=st.data())
def test_a_turn_ends_at_most_once_whatever_is_said(name: str, data: st.DataObject) -> None:
    feed = PARSERS[name]()
    seen = [one for line in data.draw(st.lists(damaged(name), max_size=MAX_LINES)) for one in feed(line)]
    assert len([one for one in seen if isinstance(one, TurnEnded)]) <= 1
