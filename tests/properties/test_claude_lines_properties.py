"""Claude Code's lines, damaged in every way that we can think of: the reader never raises, and never says too much."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.observations import (
    TRACE_MAX_CHARACTERS,
    ApprovalAsked,
    ApprovalGone,
    Observation,
    PromptReached,
    Traced,
    TurnEnded,
    agent_event,
)
from interlock.agents.streams.claude.frames import blocks_of, label
from interlock.agents.streams.claude.lines import ClaudeLines
from interlock.vocabulary.events.registry import Json
from tests.agents.streams.claude_recordings import NAMES, lines_of, prompt_of

_MOST_LINES: Final = 60
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@cache
def _lines() -> list[bytes]:
    """One of each shape that was recorded."""
    shapes: dict[tuple[str, ...], bytes] = {}
    for name in NAMES:
        for line in lines_of(name):
            frame = msgspec.json.decode(line)
            shapes[(label(frame), *(str(block.get("type")) for block in blocks_of(frame)))] = line
    return list(shapes.values())


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A recorded line: as it was, cut, with other bytes in it, or with another value somewhere."""
    line = draw(st.sampled_from(_lines()))
    how = draw(st.sampled_from(["whole", "cut", "bytes", "value", "twice"]))
    if how == "cut":
        return line[: draw(st.integers(0, len(line)))]
    if how == "bytes":
        at = draw(st.integers(0, len(line)))
        return line[:at] + draw(st.binary(max_size=6)) + line[at + draw(st.integers(0, 6)) :]
    if how == "value":
        return _with_another_value(draw, line)
    return line * 2 if how == "twice" else line


def _with_another_value(draw: st.DrawFn, line: bytes) -> bytes:
    """Go down from the frame, one value at a time, and put something else in the place of the last."""
    frame: Json = msgspec.json.decode(line)
    here = frame
    for _ in range(draw(st.integers(0, 5))):
        below = [value for value in _values(here) if isinstance(value, dict | list) and value]
        if not below:
            break
        here = draw(st.sampled_from(below))
    if isinstance(here, dict):
        here[draw(st.sampled_from(sorted(here)))] = draw(JSON)
    elif isinstance(here, list):
        here[draw(st.integers(0, len(here) - 1))] = draw(JSON)
    return msgspec.json.encode(frame)


def _values(of: Json) -> list[Json]:
    return list(of.values()) if isinstance(of, dict) else of if isinstance(of, list) else []


def _read(reader: ClaudeLines, line: bytes) -> list[Observation]:
    seen = reader.feed(line)
    assert seen, "every line is a sign of life"
    for one in seen:
        agent_event(one)
        assert not isinstance(one, Traced) or len(one.raw) <= TRACE_MAX_CHARACTERS
    # A line says no more than it has blocks, and a little about itself.
    assert len(seen) <= line.count(b'"type"') + 300
    return seen


@given(st.lists(damaged() | st.binary(max_size=60), max_size=_MOST_LINES), st.booleans())
def test_no_line_raises_and_a_prompt_ends_once(lines: list[bytes], is_resumed: bool) -> None:
    reader = ClaudeLines(is_resumed=is_resumed)
    reader.prompt_written("")
    seen = [one for line in lines for one in _read(reader, line)]
    seen += reader.end()
    assert sum(isinstance(one, TurnEnded) for one in seen) == 1
    assert not reader.has_open_turn


@given(st.sampled_from(NAMES), st.randoms(use_true_random=False))
def test_lines_in_any_order_end_the_prompt_once(name: str, random: Random) -> None:
    lines = lines_of(name)
    uuid = prompt_of(lines)
    random.shuffle(lines)
    reader = ClaudeLines()
    reader.prompt_written(uuid)
    seen = [one for line in lines for one in _read(reader, line)] + reader.end()
    assert sum(isinstance(one, TurnEnded) for one in seen) == 1


@given(st.lists(damaged(), max_size=_MOST_LINES))
def test_a_question_goes_once_and_a_stage_is_reached_once(lines: list[bytes]) -> None:
    reader = ClaudeLines()
    reader.prompt_written(prompt_of(lines_of("approval_allowed")))
    open_questions: set[str] = set()
    stages = []
    for one in [*(one for line in lines for one in _read(reader, line)), *reader.end()]:
        match one:
            case ApprovalAsked(request_id=request_id):
                open_questions.add(request_id)
            case ApprovalGone(request_id=request_id):
                assert request_id in open_questions
                open_questions.remove(request_id)
            case PromptReached(stage=stage):
                stages.append(stage)
            case _:
                pass
    assert not open_questions
    assert len(stages) == len(set(stages))


@given(st.dictionaries(st.sampled_from(["type", "subtype", "message", "event", "request", "response", "errors"]), JSON))
def test_a_frame_of_any_shape_is_read(frame: dict[str, Json]) -> None:
    reader = ClaudeLines()
    for kind in ("system", "stream_event", "assistant", "user", "result", "control_request", "control_response"):
        _read(reader, msgspec.json.encode({**frame, "type": kind}))
